"""How to train, as values: optimiser, schedule, recipe, and presets for images."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from lossdial.base.errors import InputError
from lossdial.models import EfficientNetLite0, FrozenEncoder, TimmBackbone, build_backbone, seeded_weights
from lossdial.training.batches import ArrayBatches, Augment
from lossdial.training.optimizers import SAM, build_muon

LamPer = Literal["batch", "sample"]


@dataclass(frozen=True)
class OptimizerConfig:
    """Which optimiser, and its settings.

    Parameters
    ----------
    name
        The update rule. ``muon`` moves filters by orthogonalised momentum, biases and the head by SGD, and FiLM's own
        layers by Adam.
    lr
        The learning rate that the schedule scales; of ``muon``, the filters', of which those of SGD are fixed
        shares.
    momentum
        Of SGD; the others ignore it.
    weight_decay
        L2 penalty (decoupled in AdamW).
    sam_rho
        Wrap the optimiser in SAM with this radius; the paper's is 0.1. None: no SAM.
    """

    name: Literal["sgd", "adam", "adamw", "muon"] = "adam"
    lr: float = 3e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    sam_rho: float | None = None

    def __post_init__(self) -> None:
        if self.name not in ("sgd", "adam", "adamw", "muon"):
            raise InputError("name", "must be 'sgd', 'adam', 'adamw' or 'muon'", got=self.name)
        if self.name == "muon" and self.weight_decay:
            problem = "must be 0 with 'muon', which holds the norm of every filter fixed"
            raise InputError("weight_decay", problem, got=self.weight_decay)
        if not self.lr > 0:
            raise InputError("lr", "must be greater than 0", got=self.lr)

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimiser over every parameter of the model that asks for a gradient."""
        parameters = [p for p in model.parameters() if p.requires_grad]
        if not parameters:
            problem = "has nothing to train: no parameter of it asks for a gradient"
            raise InputError("model", problem, remedy="A path is solved, not trained; use fit_exact() or refit_head().")
        base = build_muon(model, self.lr) if self.name == "muon" else self._base(parameters)
        return base if self.sam_rho is None else SAM(base, self.sam_rho, model)

    def _base(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        # Fused: one kernel for all parameters. On a small network the loop over them is a third of a step.
        if self.name == "sgd":
            return torch.optim.SGD(parameters, self.lr, self.momentum, weight_decay=self.weight_decay, fused=True)
        rule = torch.optim.Adam if self.name == "adam" else torch.optim.AdamW
        return rule(parameters, self.lr, weight_decay=self.weight_decay, fused=True)


@dataclass(frozen=True)
class Schedule(ABC):
    """The factor on the learning rate at a fractional epoch.

    Parameters
    ----------
    warmup
        The number of epochs over which the factor rises linearly from 0.
    """

    warmup: float = 0.0

    def __post_init__(self) -> None:
        if not self.warmup >= 0:
            raise InputError("warmup", "must be at least 0 epochs", got=self.warmup)

    def __call__(self, epoch: float, epochs: int) -> float:
        ramp = min(1.0, epoch / self.warmup) if self.warmup else 1.0
        return ramp * self._factor(epoch, epochs)

    @abstractmethod
    def _factor(self, epoch: float, epochs: int) -> float: ...


@dataclass(frozen=True)
class Steps(Schedule):
    """Multiplied by ``factor`` at each milestone; without milestones, the same rate throughout.

    Parameters
    ----------
    milestones
        Epochs.
    factor
        Applied once for each milestone that has passed.

    Examples
    --------
    >>> # The paper's recipe for CIFAR
    >>> schedule = Steps(milestones=(400, 450), factor=0.01)
    >>> [0.1 * schedule(e, 500) for e in (399, 400, 450)]
    [0.1, 0.001, 1e-05]
    """

    milestones: tuple[float, ...] = ()
    factor: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.factor > 0:
            raise InputError("factor", "must be greater than 0", got=self.factor)

    def _factor(self, epoch: float, epochs: int) -> float:  # noqa: ARG002 (one signature for every schedule)
        return float(self.factor ** sum(epoch >= m for m in self.milestones))


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from 1 down to ``floor`` over the whole run.

    Examples
    --------
    >>> round(Cosine()(5, 10), 3), round(Cosine(warmup=10)(5, 10), 3)
    (0.5, 0.25)
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_floor(self.floor)

    def _factor(self, epoch: float, epochs: int) -> float:
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(1.0, epoch / epochs))) / 2


@dataclass(frozen=True)
class Triangle(Schedule):
    """A straight rise to 1 over the first share of the run, then a straight fall to ``floor``.

    Parameters
    ----------
    peak
        The share of the run at which the factor is 1.
    floor
        The factor at the end, and at the start.

    Examples
    --------
    >>> schedule = Triangle(peak=0.2, floor=0.03)
    >>> [round(schedule(epoch, 10), 3) for epoch in (0, 1, 2, 6, 10)]
    [0.03, 0.515, 1.0, 0.515, 0.03]
    """

    peak: float = 0.2
    floor: float = 0.03

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.peak < 1:
            raise InputError("peak", "must lie between 0 and 1, a share of the run", got=self.peak)
        _check_floor(self.floor)

    def _factor(self, epoch: float, epochs: int) -> float:
        done = min(1.0, epoch / epochs)
        height = done / self.peak if done < self.peak else (1 - done) / (1 - self.peak)
        return self.floor + (1 - self.floor) * height


def _check_floor(floor: float) -> None:
    if not 0 <= floor <= 1:
        raise InputError("floor", "must lie in [0, 1], a share of the learning rate", got=floor)


@dataclass(frozen=True)
class Recipe:
    """Everything about a training run but the data, the model and the loss.

    Parameters
    ----------
    epochs
        Passes over the training data.
    batch_size
        Samples per step.
    optimizer
        Which optimiser, its learning rate, SAM.
    schedule
        How the learning rate changes over the run: Steps, Cosine or Triangle, each with an optional warm-up.
    clip_norm
        The largest norm of the gradient that is applied; the paper uses 0.5. None: no clipping.
    ema_decay
        Keep an exponential average of the weights, and use it for validation and the final model. None: off.
    lam_per
        Draw one λ for each sample, so that every step sees all of the space, or one for each mini-batch, as the paper
        does.
    augment
        Random crops and flips of images. None: the images as they are.
    positives
        The share of every batch that is positive, such as 0.25: the rare class comes round more often, weighted so that
        the loss stays the same on average. None: left to chance.
    """

    epochs: int = 50
    batch_size: int = 128
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: Schedule = field(default_factory=Cosine)
    clip_norm: float | None = None
    ema_decay: float | None = None
    lam_per: LamPer = "sample"
    augment: Augment | None = None
    positives: float | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(name, "must be at least 1", got=getattr(self, name))
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise InputError("clip_norm", "must be greater than 0", got=self.clip_norm, remedy="None: no clipping.")
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise InputError("ema_decay", "must lie in (0, 1)", got=self.ema_decay, remedy="None: no average.")
        if self.lam_per not in ("batch", "sample"):
            raise InputError("lam_per", "must be 'batch' or 'sample'", got=self.lam_per)
        if self.positives is not None and not 0 < self.positives < 1:
            remedy = "None leaves it to chance."
            raise InputError("positives", "must lie between 0 and 1", got=self.positives, remedy=remedy)

    def batches(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> ArrayBatches:
        """Arrays as :func:`fit` takes them: in this recipe's batches, augmented as it says."""
        if self.positives is not None and self.batch_size > len(y):
            problem = f"must be at most {len(y)}, the number of samples, where {{positives}} is given"
            remedy = "A batch would hold its samples more than once."
            raise InputError("batch_size", problem, got=self.batch_size, remedy=remedy)
        return ArrayBatches(x, y, self.batch_size, self.augment, weight, self.positives)


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
            raise InputError("weights", f"are for a network of timm; this preset's backbone is {name}")
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
