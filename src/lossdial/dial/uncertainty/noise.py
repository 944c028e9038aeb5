"""How far one λ may differ from the best by chance, where the best was picked among all of them."""

import math

import numpy as np
from scipy.special import stdtrit

from lossdial.dial.checks import FloatArray
from lossdial.dial.uncertainty.intervals import LEVEL

_PAIRED = 100  # λ of which all pairs are looked at


def differences(drawn: FloatArray, best: int, n_positive: float) -> tuple[FloatArray, float]:
    """Deviations (m,) of the differences from the best λ in shared resamples (m, B), and how many of them to allow for.

    Since the best was picked among all, the interval of its difference from another is as wide as makes it hold for
    every pair at once, after Tukey: in 95 % of the resamples no pair of λ is farther from its mean difference. It is
    never narrower than the t interval of one difference.
    """
    centred = drawn - drawn.mean(axis=1, keepdims=True)
    some = np.unique(np.linspace(0, len(drawn) - 1, min(len(drawn), _PAIRED)).astype(np.intp))
    farthest = np.zeros(drawn.shape[1])
    for k in some:
        apart = centred[some] - centred[k]
        scale = apart.std(axis=1, keepdims=True)
        reached = np.max(np.abs(apart) / np.maximum(scale, 1e-300), axis=0, where=scale > 0, initial=0.0)
        np.maximum(farthest, reached, out=farthest)
    n = max(n_positive, 2)
    one = stdtrit(n - 1, (1 + LEVEL) / 2) * math.sqrt(n / (n - 1))
    return (centred - centred[best]).std(axis=1), float(max(one, np.quantile(farthest, LEVEL)))
