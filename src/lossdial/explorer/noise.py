"""The samples by which a page tells noise from structure.

Figures that do not depend on the page's controls (AUC and the like) come with their noise from the dial. For the
others, which move with every slider, the page itself needs to know which samples two λ judge alike: a few hundred
`Witnesses` tell it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.checks import FloatArray
from lossdial.dial.surface import Samples

WITNESSES = 400
"""The most samples of either class that are followed from λ to λ."""
_PLACES = 400_000
"""The most places of them that a page holds."""


@dataclass(frozen=True)
class Witnesses:
    """Samples (k,) drawn at random that stand for their class, and the share of it that each stands for."""

    index: NDArray[np.intp]
    share: FloatArray


def witnesses(samples: Samples, score: FloatArray, n_lams: int, seed: int = 0) -> tuple[Witnesses, Witnesses]:
    """Some positives and some negatives, drawn most densely where thresholds lie, given the scores (n,) of one λ.

    Those are the positives that score low and the negatives that score high: on the others all λ agree.
    """
    most = max(20, min(WITNESSES, _PLACES // (2 * n_lams)))
    rng = np.random.default_rng([seed, 4])
    positive, negative = np.flatnonzero(samples.labels), np.flatnonzero(~samples.labels)
    rising, falling = np.argsort(score[positive], kind="stable"), np.argsort(-score[negative], kind="stable")
    return (
        _draw(positive[rising], samples.weight, most, ((0.3, 0.6), (0.7, 0.3), (1.0, 0.1)), rng),
        _draw(negative[falling], samples.weight, most, ((0.1, 0.5), (0.4, 0.3), (1.0, 0.2)), rng),
    )


def _draw(
    members: NDArray[np.intp],
    weight: FloatArray | None,
    most: int,
    strata: tuple[tuple[float, float], ...],
    rng: np.random.Generator,
) -> Witnesses:
    """At most so many of the members; of each stratum, where it ends, as a share of them, and its part of the drawn."""
    ones = np.ones(members.size) if weight is None else weight[members]
    if members.size <= most:
        return Witnesses(members, ones / ones.sum())
    index, share, start = [], [], 0
    for end, part in strata:
        stratum = np.arange(start, round(end * members.size))
        start = round(end * members.size)
        drawn = rng.choice(stratum, size=min(stratum.size, round(part * most)), replace=False)
        index.append(members[drawn])
        share.append(ones[drawn] / ones[drawn].sum() * ones[stratum].sum() / ones.sum())
    return Witnesses(np.concatenate(index), np.concatenate(share))
