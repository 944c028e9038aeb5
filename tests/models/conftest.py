"""Fresh weights come from torch's own generator; here every test starts it at the same place."""

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from lossdial.models import ConditionalClassifier, build_backbone, build_head
from lossdial.spaces import Space


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
def rebuilt() -> Callable[[ConditionalClassifier], ConditionalClassifier]:
    """A model built again from what a bundle holds of it: recipes as JSON, and weights."""

    def build(model: ConditionalClassifier) -> ConditionalClassifier:
        recipes = json.loads(json.dumps({"backbone": model.backbone.recipe(), "head": model.head.recipe()}))
        space = Space.from_json(model.space.to_json())
        head = build_head(recipes["head"], model.n_features, space.dim)
        again = ConditionalClassifier(build_backbone(recipes["backbone"]), model.n_features, space, head)
        again.load_state_dict(model.state_dict())
        return again.eval()

    return build
