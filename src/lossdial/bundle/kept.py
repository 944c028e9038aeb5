"""What is kept beside the network: how it was trained, and what held-out samples say of every λ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lossdial.bundle.format import BundleError, Content
from lossdial.dial import Dial, OperatingPoint
from lossdial.dial.certificates.evidence import Sketch
from lossdial.dial.checks import statable

if TYPE_CHECKING:
    from lossdial.bundle.bundle import Bundle

__all__ = [
    "DELETE",
    "Evidence",
    "Training",
    "evidence_from",
    "own_share",
    "seen_from",
    "seen_to",
    "training_from",
]

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
    """What held-out samples say of every λ: no sample can be had from it."""

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


def seen_to(seen: Sketch) -> dict[str, NDArray[Any]]:
    """The sketch of the training rows as tensors: short hashes, and no row can be had from them."""
    return {
        "seen": seen.cells.astype(np.int64),
        "seen_counts": seen.counts.astype(np.int64),
        "seen_width": np.array([seen.width], dtype=np.float64),
    }


def seen_from(tensors: Mapping[str, Tensor]) -> Sketch | None:
    """What `seen_to` wrote; None where it was not kept. In models of 0.1 they are hashes of rows, of no width."""
    if "seen" not in tensors:
        return None
    cells = tensors["seen"].numpy()
    counts = tensors["seen_counts"].numpy() if "seen_counts" in tensors else np.ones_like(cells)
    width = tensors["seen_width"].numpy() if "seen_width" in tensors else np.zeros(1)
    if cells.ndim != 1 or cells.shape != counts.shape or width.shape != (1,) or not width[0] >= 0:
        raise BundleError(f"the evidence has a damaged sketch of the training rows. {DELETE}")
    return Sketch(float(width[0]), cells.astype(np.uint32), counts.astype(np.uint32))


def own_share(bundle: Bundle, point: OperatingPoint) -> float:
    """The share at which a point states its probabilities, where it names none: that of its data, else of training."""
    counts, envelope = (point.n_positive, point.n_negative), bundle.envelope
    if envelope is not None and counts == (envelope.n_positive, envelope.n_negative):
        return float(envelope.prevalence)  # where samples have weights, counts do not tell it
    return counts[0] / sum(counts) if min(counts) > 0 else bundle.training.prevalence
