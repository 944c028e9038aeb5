"""What is kept beside the network: how it was trained, and what held-out samples say of every λ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lossdial.bundle.format import BundleError, Content
from lossdial.dial import Dial, statable

__all__ = ["DELETE", "Evidence", "Training", "evidence_from", "training_from"]

DELETE: Final = "Delete that file: only tuning without data needs it."


@dataclass(frozen=True)
class Training:
    """How a model was trained, in JSON's own types."""

    #: which loss, and its constants: {"name": "vs", "beta": 42.0}
    loss: Mapping[str, Any]
    #: the share of positives in training
    prevalence: float
    seconds: float
    steps: int
    #: one entry an epoch
    history: tuple[Mapping[str, float], ...]
    #: the estimator's own parameters
    parameters: Mapping[str, Any]
    #: what must be the same for a run to be this one
    identity: Mapping[str, Any] = field(default_factory=dict)
    #: the column that the labels came from, where they had a name
    target: str | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """What held-out samples say of every λ, and short hashes of the training rows: no sample can be had from it."""

    y: NDArray[np.uint8]
    scores: NDArray[np.float32]  # (n, m)
    lams: tuple[Mapping[str, float], ...]
    groups: NDArray[np.int64] | None = None
    sample_weight: NDArray[np.float64] | None = None

    @property
    def silence(self) -> str | None:
        """Why no figure can be stated on them; None where one can."""
        return statable(int(self.y.sum()), int(len(self.y) - self.y.sum()))

    def dial(self, plain: Mapping[str, float] | None = None) -> Dial:
        """The dial over them; `plain` is the λ of the plain loss, where it is known."""
        return Dial(self.y, self.scores, self.lams, self.groups, self.sample_weight, plain=plain)


def training_from(content: Content) -> Training:
    """What was written of it."""
    return Training(
        loss=content.get("loss", dict),
        prevalence=content.get("prevalence", float),
        seconds=content.get("seconds", float),
        steps=content.get("steps", int),
        history=tuple(content.get("history", list)),
        parameters=content.get("parameters", dict),
        identity=content.get("identity", dict),
        target=content.get("target", str, type(None)),
    )


def evidence_from(tensors: Mapping[str, Tensor], content: Content) -> Evidence:
    """What its file and ``lams`` of the JSON hold."""
    lams = tuple({str(k): float(v) for k, v in lam.items()} for lam in content.get("lams", list))
    scores = tensors["scores"].numpy()
    if scores.shape != (len(tensors["y"]), len(lams)):
        raise BundleError(f"the evidence has scores of shape {scores.shape} for {len(lams)} λ. {DELETE}")
    groups, weight = tensors.get("groups"), tensors.get("sample_weight")
    return Evidence(
        tensors["y"].numpy(),
        scores,
        lams,
        None if groups is None else groups.numpy(),
        None if weight is None else weight.numpy(),
    )
