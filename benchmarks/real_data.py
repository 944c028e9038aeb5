"""Where the real data are that some benchmarks measure on."""

import os
import sys
from pathlib import Path

__all__ = ["real_data"]


def real_data() -> Path:
    """The folder that LOSSDIAL_DATA names; without one the program ends with what to set."""
    root = os.environ.get("LOSSDIAL_DATA", "")
    if not root or not Path(root).is_dir():
        came = f"LOSSDIAL_DATA names {root}, which is no folder" if root else "LOSSDIAL_DATA is not set"
        sys.exit(
            f"{came}: point it at the folder that holds tables/ and cifar10/, as in LOSSDIAL_DATA=../shared/data; "
            "`make bench` does so where that folder is there."
        )
    return Path(root)
