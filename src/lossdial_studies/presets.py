"""How each data set is trained: the paper's recipe, and budgets that two CPU cores can carry.

The times of `cpu` follow from those in `lossdial.training.recipe`.
"""

from __future__ import annotations

import fnmatch
from typing import Final

from lossdial.training import Cosine, OptimizerConfig, Recipe, Steps, Triangle
from lossdial.training.batches import Augment
from lossdial.training.recipe import CIFAR_AUGMENT, FROZEN, RESNEXT, Preset, small_resnet

_BOTH_FLIPS: Final = Augment(flip_horizontal=True, flip_vertical=True)

_CIFAR_PAPER: Final = Preset(
    {"name": "cifar_resnet", "depth": 32, "width": 16},
    Recipe(
        500,
        optimizer=OptimizerConfig("sgd", 0.1),
        schedule=Steps(milestones=(400, 450), factor=0.01),
        clip_norm=0.5,
        lam_per="batch",
        augment=CIFAR_AUGMENT,
    ),
    run_time="3 hours on two cores for a pair of classes (estimate)",
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
        augment=CIFAR_AUGMENT,
        positives=0.25,
    ),
    precision="bf16-mixed",
    run_time="two minutes",
)

# After airbench; `benchmarks/recipe_search.py` chose its settings by cross entropy and VS, on training images.
_CIFAR_FAST: Final = Preset(
    {"name": "whitened", "widths": [32, 64, 128], "views": 2},
    Recipe(
        9,
        batch_size=128,
        optimizer=OptimizerConfig("muon", 0.48),
        schedule=Triangle(peak=0.2, floor=0.03),
        augment=Augment(crop_padding=2, flip_horizontal="alternating", crop_fill="reflection"),
        positives=0.25,
    ),
    precision="bf16-mixed",
    zero_start=True,
    run_time="half a minute of one core",
)

#: data set (a pattern) -> preset name -> preset
PRESETS: Final[dict[str, dict[str, Preset]]] = {
    "cifar10*": {
        "paper": _CIFAR_PAPER,
        "cpu": _CIFAR_PAIR,
        "fast": _CIFAR_FAST,
        "frozen": FROZEN,
    },
    "cifar100*": {"paper": _CIFAR_PAPER, "cpu": small_resnet(30, CIFAR_AUGMENT, "2 minutes"), "frozen": FROZEN},
    "dogs-vs-cats": {
        "paper": RESNEXT,
        "cpu": small_resnet(10, CIFAR_AUGMENT, "2 minutes"),
        "frozen": FROZEN,
    },
    "melanoma": {"paper": RESNEXT, "cpu": small_resnet(3, _BOTH_FLIPS, "10 minutes"), "frozen": FROZEN},
    "ham10000*": {"paper": RESNEXT, "cpu": small_resnet(8, _BOTH_FLIPS, "4 minutes"), "frozen": FROZEN},
    "aptos": {"paper": _APTOS_PAPER, "cpu": small_resnet(20, _BOTH_FLIPS, "2 minutes"), "frozen": FROZEN},
}


def preset(data: str, name: str) -> Preset:
    """The preset of that name for a data set."""
    for pattern, presets in PRESETS.items():
        if fnmatch.fnmatch(data, pattern):
            if name not in presets:
                raise ValueError(f"preset must be one of {', '.join(presets)} for {data}; got {name!r}.")
            return presets[name]
    raise ValueError(f"there are no presets for {data!r}; there are for {', '.join(PRESETS)}.")
