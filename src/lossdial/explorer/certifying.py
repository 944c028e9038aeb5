"""Which samples choose λ and which certify, so that the page can promise a recall.

Where λ is chosen by looking at data, the same data cannot vouch for what was chosen. So one half of the samples chooses
and the positives of the other certify: the k-th lowest of their scores, accepted, keeps a floor on recall with the
wanted confidence, whatever the law of the scores (see `docs/explorer.md`). With one λ there is nothing to choose, and
all certify.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from lossdial.dial.checks import BoolArray
from lossdial.dial.samples import Samples


@dataclass(frozen=True)
class Split:
    """Which samples (n,) choose λ and which certify; `refusal` says why none can."""

    choosing: BoolArray
    certifying: BoolArray
    refusal: str = ""
    groups: bool = False


def split(samples: Samples, n_lams: int, seed: int = 0) -> Split:
    """The part of each sample.

    Rows of a group stay together, and of each group one positive, drawn at random, certifies.
    """
    labels, groups = samples.labels, samples.groups
    none, everyone = np.zeros(labels.size, dtype=np.bool_), np.ones(labels.size, dtype=np.bool_)
    if samples.weight is not None:
        return Split(none, none, "Rows with weights cannot certify: the guarantee counts rows, each as one.")
    choosing, certifying = none.copy(), everyone
    if n_lams > 1:
        if min(samples.units) < 2:
            return Split(none, none, "With so few rows none can be held back to certify.")
        choosing[samples.halves(seed)[0][0]] = True
        certifying = ~choosing
    if groups is not None:
        certifying = one_of_each(labels & certifying, groups, seed)
    return Split(choosing, certifying & labels, groups=groups is not None)


def one_of_each(members: BoolArray, groups: NDArray[np.intp], seed: int) -> BoolArray:
    """Of the members (n,), one of each group, drawn at random."""
    index = np.random.default_rng([seed, 3]).permutation(np.flatnonzero(members))
    _, first = np.unique(groups[index], return_index=True)
    result = np.zeros(members.size, dtype=np.bool_)
    result[index[first]] = True
    return result


def rank_for(n: int, floor: float, risk: float) -> int:
    """The greatest k for which accepting the k-th lowest of n scores keeps `floor` but for a chance of `risk`; else 0.

    P(recall < floor) ≤ P(Bin(n, 1-floor) ≤ k-1).

    >>> rank_for(58, 0.95, 0.05), rank_for(59, 0.95, 0.05), rank_for(500, 0.95, 0.05)
    (0, 1, 17)
    """
    below = int(binom.ppf(risk, n, 1 - floor)) if n else 0
    return below + int(bool(n) and binom.cdf(below, n, 1 - floor) <= risk)
