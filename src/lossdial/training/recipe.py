"""How to train, as values: the optimiser, and the recipe around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from lossdial.base.errors import InputError
from lossdial.training.batches import ArrayBatches, Augment
from lossdial.training.muon import build_muon
from lossdial.training.sam import SAM
from lossdial.training.schedules import Cosine, Schedule

__all__ = ["LamPer", "OptimizerConfig", "Recipe"]

LamPer = Literal["batch", "sample"]


@dataclass(frozen=True)
class OptimizerConfig:
    """Which optimiser, and its settings.

    Parameters
    ----------
    name
        The update rule. ``muon`` moves filters by orthogonalised momentum, biases and the head by SGD, and FiLM's own
        layers by Adam; see :func:`~lossdial.training.muon.build_muon`.
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
            raise ValueError(f"name must be 'sgd', 'adam', 'adamw' or 'muon'; got {self.name!r}.")
        if self.name == "muon" and self.weight_decay:
            problem = "must be 0 with 'muon', which holds the norm of every filter fixed"
            raise InputError("weight_decay", problem, got=self.weight_decay)
        if not self.lr > 0:
            raise ValueError(f"lr must be greater than 0; got {self.lr}.")

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimiser over every parameter of the model that asks for a gradient."""
        parameters = [p for p in model.parameters() if p.requires_grad]
        if not parameters:
            raise ValueError(
                "there is nothing to train: no parameter of the model asks for a gradient. A path is solved, not "
                "trained; use fit_exact() or refit_head()."
            )
        base = build_muon(model, self.lr) if self.name == "muon" else self.build_base(parameters)
        return base if self.sam_rho is None else SAM(base, self.sam_rho, model)

    def build_base(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The same without SAM."""
        # Fused: one kernel for all parameters. On a small network the loop over them is a third of a step.
        if self.name == "sgd":
            return torch.optim.SGD(parameters, self.lr, self.momentum, weight_decay=self.weight_decay, fused=True)
        rule = torch.optim.Adam if self.name == "adam" else torch.optim.AdamW
        return rule(parameters, self.lr, weight_decay=self.weight_decay, fused=True)


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
        How the learning rate changes over the run: Flat, Steps or Cosine, each with an optional warm-up.
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
        the loss stays the same on average. None: as many as chance brings.
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
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1; got {self.epochs}.")
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {self.batch_size}.")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be greater than 0; got {self.clip_norm}. None turns clipping off.")
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise ValueError(f"ema_decay must lie in (0, 1); got {self.ema_decay}. None turns the average off.")
        if self.lam_per not in ("batch", "sample"):
            raise ValueError(f"lam_per must be 'batch' or 'sample'; got {self.lam_per!r}.")
        if self.positives is not None and not 0 < self.positives < 1:
            raise ValueError(f"positives must lie between 0 and 1; got {self.positives}. None leaves it to chance.")

    def batches(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> ArrayBatches:
        """Arrays as :func:`fit` takes them: in this recipe's batches, augmented as it says."""
        if self.positives is not None and self.batch_size > len(y):
            problem = f"must be at most {len(y)}, the number of samples, where {{positives}} is given"
            remedy = "A batch would hold its samples more than once."
            raise InputError("batch_size", problem, got=self.batch_size, remedy=remedy)
        return ArrayBatches(x, y, self.batch_size, self.augment, weight, self.positives)
