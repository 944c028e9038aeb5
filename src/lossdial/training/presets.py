"""How a user's own images are trained, by the name of a preset; the studies' presets are made of the same parts.

Run times are of one training run on two idle cores. A ResNet-8 of width 16 trains at about 1,000 images of 32 px a
second there, at a quarter of that at 64 px.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from torch import nn

from lossdial.models import EfficientNetLite0, FrozenEncoder, TimmBackbone, build_backbone, seeded_weights
from lossdial.training.batches import Augment
from lossdial.training.recipe import OptimizerConfig, Recipe
from lossdial.training.schedules import Cosine, Steps

__all__ = ["CIFAR_AUGMENT", "FROZEN", "IMAGES", "RESNEXT", "Preset", "small_resnet"]


@dataclass(frozen=True)
class Preset:
    """A backbone, by recipe, and how to train it."""

    backbone: dict[str, Any]
    recipe: Recipe
    image_size: int | None = None  # None: the size that the data set has
    frozen: bool = False  # the backbone runs once over the data; only the head is trained
    precision: str = "32-true"
    zero_start: bool = False  # FiLM's last layers start at zero, so that training starts as the plain head's
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


CIFAR_AUGMENT: Final = Augment(crop_padding=4, flip_horizontal=True)

RESNEXT: Final = Preset(
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


def small_resnet(epochs: int, augment: Augment, run_time: str, width: int = 16) -> Preset:
    """A ResNet-8 on a cosine schedule."""
    recipe = Recipe(
        epochs, optimizer=OptimizerConfig("sgd", 0.1), schedule=Cosine(warmup=1), clip_norm=0.5, augment=augment
    )
    return Preset({"name": "cifar_resnet", "depth": 8, "width": width}, recipe, run_time=run_time)


FROZEN: Final = Preset(
    {"name": "efficientnet_lite0"},
    Recipe(30, optimizer=OptimizerConfig("adam", 1e-3), clip_norm=0.5),
    frozen=True,
    rates=(1e-3, 3e-4, 1e-4),
    run_time="seconds, once the features are there (about 140 images a second)",
)

#: of a user's own images, by name
IMAGES: Final[dict[str, Preset]] = {
    "cpu": replace(small_resnet(20, CIFAR_AUGMENT, "minutes"), image_size=64),
    "frozen": replace(FROZEN, image_size=112),  # as the network takes them
    "paper": RESNEXT,
}
