"""Fresh weights come from torch's own generator; here every test starts it at the same place."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from lossdial.bundle import Bundle, Training
from lossdial.data.schema import ImageSchema
from lossdial.models import ConditionalClassifier
from lossdial.predictor import Predictor


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


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def torchvision_declared() -> bool:
    """Whether this torchvision would not import by itself."""
    return bool(TORCHVISION)


@pytest.fixture
def bundle_of() -> Callable[[ConditionalClassifier, tuple[int, int, int]], Bundle]:
    """A bundle around a model of images that nobody trained."""

    def make(model: ConditionalClassifier, shape: tuple[int, int, int]) -> Bundle:
        training = Training({"name": "vs", "beta": 9.0}, 0.1, 0.0, 0, (), {})
        return Bundle(Predictor(ImageSchema(*shape), model, (0, 1)), training)

    return make
