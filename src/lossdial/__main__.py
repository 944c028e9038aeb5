"""``python -m lossdial`` is ``lossdial``."""

import sys

from lossdial.cli import main

if __name__ == "__main__":
    sys.exit(main())
