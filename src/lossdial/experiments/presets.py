"""How each data set is trained: the paper's recipe, and budgets that two CPU cores can carry.

Run times are of one training run on two idle cores. A ResNet-8 of width 16 trains at about 1,000 images of 32 px a
second there, at a quarter of that at 64 px; the times of `cpu` follow from that.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field, replace
from typing import Any, Final

from torch import nn

from lossdial.models import EfficientNetLite0, FrozenEncoder, TimmBackbone, build_backbone, seeded_weights
from lossdial.training import Cosine, OptimizerConfig, Recipe, Steps
from lossdial.training.batches import Augment

__all__ = ["PRESETS", "Preset", "preset"]


@dataclass(frozen=True)
class Preset:
    """A backbone, by recipe, and how to train it."""

    backbone: dict[str, Any]
    recipe: Recipe
    image_size: int | None = None  # None: the size that the data set has
    frozen: bool = False  # the backbone runs once over the data; only the head is trained
    precision: str = "32-true"
    rates: tuple[float, ...] = ()  # learning rates to search over, for every method alike; none: the recipe's own
    run_time: str = field(default="", compare=False)

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """Those that a study trains at."""
        return self.rates or (self.recipe.optimizer.lr,)

    def build(self, seed: int, weights: str | None = None) -> nn.Module:
        """The backbone as training starts with it: pretrained where the recipe names a pretrained network.

        weights: a file to take the weights of a timm network from, where they cannot be fetched.
        """
        name = self.backbone["name"]
        if weights is not None and name != "timm":
            raise ValueError(f"weights are for a network of timm; this preset's backbone is {name}.")
        with seeded_weights(seed):
            if name == "timm":
                return TimmBackbone(self.backbone["model"], pretrained=weights is None, weights=weights)
            if self.frozen:
                return FrozenEncoder(EfficientNetLite0(), image_size=self.image_size)
            return build_backbone(self.backbone)


_CIFAR_AUGMENT: Final = Augment(crop_padding=4, flip_horizontal=True)
_BOTH_FLIPS: Final = Augment(flip_horizontal=True, flip_vertical=True)

_CIFAR_PAPER: Final = Preset(
    {"name": "cifar_resnet", "depth": 32, "width": 16},
    Recipe(
        500,
        optimizer=OptimizerConfig("sgd", 0.1),
        schedule=Steps(milestones=(400, 450), factor=0.01),
        clip_norm=0.5,
        lam_per="batch",
        augment=_CIFAR_AUGMENT,
    ),
    run_time="3 hours on two cores for a pair of classes (estimate)",
)
_MELANOMA_PAPER: Final = Preset(
    {"name": "timm", "model": "resnext50_32x4d"},
    Recipe(
        10,
        optimizer=OptimizerConfig("sgd", 0.01, weight_decay=1e-3),
        schedule=Steps(milestones=(5,), factor=0.1),
        clip_norm=0.5,
        lam_per="batch",
        augment=Augment(flip_horizontal=True, flip_vertical=True, resized_crop=(0.65, 1.0)),
    ),
    image_size=256,
    run_time="needs a GPU",
)
_APTOS_PAPER: Final = Preset(
    {"name": "timm", "model": "convnext_tiny"},
    Recipe(
        35,
        optimizer=OptimizerConfig("adam", 5e-5),
        clip_norm=0.5,
        lam_per="batch",
        augment=Augment(flip_horizontal=True),
    ),
    image_size=256,
    run_time="needs a GPU",
)


def _small_resnet(epochs: int, augment: Augment, run_time: str, width: int = 16) -> Preset:
    recipe = Recipe(
        epochs, optimizer=OptimizerConfig("sgd", 0.1), schedule=Cosine(warmup=1), clip_norm=0.5, augment=augment
    )
    return Preset({"name": "cifar_resnet", "depth": 8, "width": width}, recipe, run_time=run_time)


# With `positives` thirty-five passes learn what takes a hundred without: fifty trucks come round every few batches, not
# once in eighty. bfloat16 is a third faster on processors that multiply it.
_CIFAR_PAIR: Final = Preset(
    {"name": "cifar_resnet", "depth": 8, "width": 16},
    Recipe(
        35,
        batch_size=64,
        optimizer=OptimizerConfig("sgd", 0.1, weight_decay=5e-4),
        schedule=Cosine(warmup=1),
        clip_norm=0.5,
        augment=_CIFAR_AUGMENT,
        positives=0.25,
    ),
    precision="bf16-mixed",
    run_time="two minutes",
)

_FROZEN: Final = Preset(
    {"name": "efficientnet_lite0"},
    Recipe(30, optimizer=OptimizerConfig("adam", 1e-3), clip_norm=0.5),
    frozen=True,
    rates=(1e-3, 3e-4, 1e-4),
    run_time="seconds, once the features are there (about 140 images a second)",
)

#: data set (a pattern; "images" are a user's own) -> preset name -> preset
PRESETS: Final[dict[str, dict[str, Preset]]] = {
    "cifar10*": {
        "paper": _CIFAR_PAPER,
        "cpu": _CIFAR_PAIR,
        "frozen": _FROZEN,
    },
    "cifar100*": {"paper": _CIFAR_PAPER, "cpu": _small_resnet(30, _CIFAR_AUGMENT, "2 minutes"), "frozen": _FROZEN},
    "dogs-vs-cats": {
        "paper": _MELANOMA_PAPER,
        "cpu": _small_resnet(10, _CIFAR_AUGMENT, "2 minutes"),
        "frozen": _FROZEN,
    },
    "melanoma": {"paper": _MELANOMA_PAPER, "cpu": _small_resnet(3, _BOTH_FLIPS, "10 minutes"), "frozen": _FROZEN},
    "ham10000*": {"paper": _MELANOMA_PAPER, "cpu": _small_resnet(8, _BOTH_FLIPS, "4 minutes"), "frozen": _FROZEN},
    "images": {
        "paper": _MELANOMA_PAPER,
        "cpu": replace(_small_resnet(20, _CIFAR_AUGMENT, "minutes"), image_size=64),
        "frozen": replace(_FROZEN, image_size=112),  # as the network takes them
    },
    "aptos": {"paper": _APTOS_PAPER, "cpu": _small_resnet(20, _BOTH_FLIPS, "2 minutes"), "frozen": _FROZEN},
}


def preset(data: str, name: str) -> Preset:
    """The preset of that name for a data set."""
    for pattern, presets in PRESETS.items():
        if fnmatch.fnmatch(data, pattern):
            if name not in presets:
                raise ValueError(f"preset must be one of {', '.join(presets)} for {data}; got {name!r}.")
            return presets[name]
    raise ValueError(f"there are no presets for {data!r}; there are for {', '.join(PRESETS)}.")
