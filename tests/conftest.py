"""What every room's tests share."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch

# The networks here are tiny, and pytest runs on all cores: more threads would only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets that LOSSDIAL_DATA names."""
    if "LOSSDIAL_DATA" not in os.environ:
        pytest.skip("needs real data: set LOSSDIAL_DATA to the folder that holds tables/ and cifar10/")
    return Path(os.environ["LOSSDIAL_DATA"])


@pytest.fixture
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """``with full_disk(n):`` no file grows beyond n bytes; a write past that raises OSError, as on a full disk."""
    resource = pytest.importorskip("resource", reason="limits on file size need a Unix system")

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited
