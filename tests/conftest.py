"""What every room's tests share."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

# Of Chromium: no word to anybody.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP *.attacker.example 127.0.0.1",  # a name that somebody made point here
)

# The networks here are tiny, and pytest runs on all cores: more threads would only wait for each other.
torch.set_num_threads(1)


def declare_torchvision_operators() -> list[torch.library.Library]:
    """A torchvision built for a GPU, beside a torch that is not, stops at import: two operators are unknown.

    timm needs torchvision but none of its operators, so that declaring the two is enough.
    """
    spec = find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations or hasattr(torch.ops.torchvision, "nms"):
        return []
    try:
        for library in Path(spec.submodule_search_locations[0]).glob("_C*"):
            torch.ops.load_library(library)
    except OSError:
        declared = torch.library.Library("torchvision", "DEF")
        declared.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        declared.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return [declared]
    return []


TORCHVISION = declare_torchvision_operators()  # operators live as long as the library that declares them


@pytest.fixture
def torchvision_declared() -> bool:
    """Whether this torchvision would not import by itself."""
    return bool(TORCHVISION)


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


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    playwright = None
    reason = "no Chromium here; install it with: apt-get install -y chromium"
    if chromium is not None:
        try:
            from playwright.sync_api import sync_playwright

            playwright = sync_playwright
        except ImportError:
            reason = "no Playwright here; install it with: pip install playwright"
    if playwright is None:
        if os.environ.get("LOSSDIAL_NEED_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    with playwright() as driver:
        found = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def save_image() -> Callable[..., None]:
    """Write an image of one random colour with some noise; the seed decides both."""

    def save(path: Path, seed: int, size: tuple[int, int] = (48, 40)) -> None:
        generator = np.random.default_rng(seed)
        colour = generator.integers(0, 256, 3)
        pixels = np.clip(colour + generator.normal(0, 10, (size[1], size[0], 3)), 0, 255).astype(np.uint8)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)

    return save
