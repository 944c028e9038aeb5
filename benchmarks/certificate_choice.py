"""What `certificates.py` tries of the certified choice: what a promise costs, parts, several promises."""

import numpy as np
from scipy.stats import norm

from lossdial.dial import NotCertified, Objective, Surface
from lossdial.dial.certificates.certificate import precision_at
from lossdial.dial.certificates.choice import certified_choice
from lossdial.dial.certificates.subgroups import at_recall_in_every_subgroup, by_subgroup
from lossdial.dial.choice.selection import select

SIZES, LAMS, NOISES = (60, 120, 500), (1, 20, 121), (0.3, 2.0)
FLOORS = (0.7, 0.8, 0.85, 0.9, 0.95)
_APART = 2.5
PRECISE = Objective(maximize="precision", subject_to={"recall": 0.9})
FINDING = Objective(maximize="recall", subject_to={"precision": 0.4}, prevalence=0.1)


def given_up(objective: Objective, n: int, m: int, noise: float, index: int) -> dict[str, float]:
    """A floor on m λ with so much noise of their own, and 5 n negatives: the true figure that is left, and without."""
    rng = np.random.default_rng([n, m, int(10 * noise), index])
    y = np.repeat([1, 0], [n, 5 * n])
    score = rng.standard_normal((y.size, 1), dtype=np.float32)
    if m > 1:
        own = noise * rng.standard_normal((y.size, m), dtype=np.float32)
        score = (score + own) / np.float32(np.sqrt(1 + noise**2))
    surface = Surface(y, score + np.float32(_APART) * y[:, None], [{"tau": float(k)} for k in range(m)])

    def truth(cut: float) -> tuple[float, bool]:
        recall, fpr = float(norm.sf(cut - _APART)), float(norm.sf(cut))
        precise = precision_at(recall, fpr, 1 / 6)
        if objective is PRECISE:
            return precise, recall < 0.9
        return recall, precision_at(recall, fpr, 0.1) < 0.4

    sums = {"without": truth(select(surface, objective).threshold)[0]}
    try:
        certified, broken = truth(certified_choice(surface, objective, 0.95, seed=index).threshold)
    except NotCertified:
        return sums | {"refused": 1.0}
    return sums | {"certified": certified, "broken": float(broken), "answered": 1.0}


def spanning(index: int) -> bool:
    """A floor in two parts at once, where patients have nine bad rows in one part and a good one in the other."""
    rng = np.random.default_rng([71, index])
    part = np.where(rng.random(400) < 0.5, 1, 0)  # in which a patient's rows are bad
    groups = np.repeat(np.arange(400), 10)
    bad = np.tile(np.arange(10) > 0, 400)
    y = (groups < 150).astype(np.int64)
    by = np.where(bad, part[groups], 1 - part[groups])
    score = rng.standard_normal(y.size) + y * np.where(bad, 1.5, 3.5)
    cut, certificate = at_recall_in_every_subgroup(y, score, by, 0.8, 0.95, groups, index)
    share = 0.5 * (norm.sf(cut - 1.5) + norm.sf(cut - 3.5))
    whole = 0.9 * norm.sf(cut - 1.5) + 0.1 * norm.sf(cut - 3.5)
    truth = {"recall": whole, "recall in 0": share, "recall in 1": share, "fpr": norm.sf(cut)}
    return any(not bound.holds(float(truth[bound.metric])) for bound in certificate.bounds)


def near_copies(index: int) -> bool:
    """Does the interval of a part's recall, of 60 groups of four near-copies, miss the truth of .8?"""
    rng = np.random.default_rng([72, index])
    groups = np.repeat(np.arange(120), 4)
    y = (groups < 60).astype(np.int64)
    score = rng.standard_normal(120)[groups] + 0.05 * rng.standard_normal(480)
    recall = by_subgroup(y, score, float(np.sqrt(1.0025) * norm.isf(0.8)), np.zeros(480), groups).subgroups[0].recall
    return recall is None or not recall.low <= 0.8 <= recall.high


def five_floors(jointly: int, index: int) -> bool:
    """Is any of five floors on the same 400 positives broken, each certified at a share of the risk?"""
    rng = np.random.default_rng([73, index])
    y = np.repeat([1, 0], [400, 400])
    surface = Surface(y, (rng.standard_normal(800) + 2 * y)[:, None], ({},))
    each = 1 - 0.05 / jointly
    return any(
        norm.sf(
            certified_choice(surface, Objective(maximize="precision", subject_to={"recall": f}), each).threshold - 2
        )
        < f
        for f in FLOORS
    )
