"""Of what share of positives a model's probabilities speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.dial import OperatingPoint

if TYPE_CHECKING:
    from lossdial.bundle.bundle import Bundle

__all__ = ["own_share"]


def own_share(bundle: Bundle, point: OperatingPoint) -> float:
    """The share at which a point states its probabilities, where it names none: that of its data, else of training."""
    counts, envelope = (point.n_positive, point.n_negative), bundle.envelope
    if envelope is not None and counts == (envelope.n_positive, envelope.n_negative):
        return float(envelope.prevalence)  # where samples have weights, counts do not tell it
    return counts[0] / sum(counts) if min(counts) > 0 else bundle.training.prevalence
