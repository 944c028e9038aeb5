"""What `certificates.py` does with each draw of a law, and its trials of shift, watching, verdict and cross-fitting."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from certificate_laws import SHAPES, Floats, Law, Rows, patients
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from lossdial.dial import Dial, Monitor, NotCertified, Objective, OperatingPoint, Surface
from lossdial.dial.certificates.alerts import alerts_together, busy_day, cap_alerts
from lossdial.dial.certificates.certificate import npv_at, precision_at
from lossdial.dial.choice.selection import crossfit, select
from lossdial.dial.choice.verdict import verdict
from lossdial.dial.monitor.monitor import SequentialTest
from lossdial.dial.monitor.prevalence import fit_mixture

CONFIDENCE = 0.95

try:
    from mapie.exchangeability_testing import RiskMonitoring
    from mapie.risk_control import BinaryClassificationController

    MAPIE = True
except ImportError:  # extra `bench`
    MAPIE = False


def asked(law: Law, rows: Rows) -> Dial:
    """A dial of one draw: what a user would have made of it."""
    return Dial(rows.y, rows.scores, [{"tau": float(k)} for k in range(law.columns)], groups=rows.groups)


def trial(law: Law, seed: int, index: int) -> Iterator[tuple[str, str, float]]:
    """Everything tried on one draw, as (claim, what happened, by how much): kept, broken or refused."""
    rows = law.draw(np.random.default_rng([seed, index]))
    dial = asked(law, rows)
    floor = Objective(maximize="precision", subject_to={"recall": law.floor})
    cap = Objective(maximize="recall", subject_to={"fpr": law.cap})

    def promised(claim: str, check: Callable[[], bool]) -> Iterator[tuple[str, str, float]]:
        try:
            yield claim, "kept" if check() else "broken", 1.0
        except NotCertified:
            yield claim, "refused", 1.0

    def by(objective: Objective, holds: Callable[[OperatingPoint, float, float], bool]) -> Callable[[], bool]:
        def check() -> bool:
            point = dial.tune(objective=objective, confidence=CONFIDENCE, calibration=None)
            return holds(point, *law.rates(point.threshold))

        return check

    def keeps(point: OperatingPoint, recall: float, fpr: float, *names: str) -> bool:
        truth = {"recall": recall + 1e-12, "fpr": fpr - 1e-12}
        assert point.certificate is not None
        return all(bound.holds(truth[bound.metric]) for bound in point.certificate.bounds if bound.metric in names)

    yield from promised("recall", by(floor, lambda p, recall, fpr: keeps(p, recall, fpr, "recall")))
    yield from promised("fpr", by(cap, lambda p, recall, fpr: keeps(p, recall, fpr, "fpr")))
    yield from promised("both", by(floor, lambda p, recall, fpr: keeps(p, recall, fpr, "recall", "fpr")))
    yield from promised("precision elsewhere", by(floor, lambda p, recall, fpr: _travels(law, p, recall, fpr)))
    yield from promised("referral band", lambda: _band_holds(law, dial))
    yield from promised("alert cap", lambda: _cap_holds(law, rows, index))


def _travels(law: Law, point: OperatingPoint, recall: float, fpr: float) -> bool:
    found = point.at(law.prevalence, cost_fn=100, cost_fp=1)
    cost = law.prevalence * 100 * (1 - recall) + (1 - law.prevalence) * fpr
    return (
        precision_at(recall, fpr, law.prevalence) >= found.precision - 1e-12
        and npv_at(recall, fpr, law.prevalence) >= found.npv - 1e-12
        and cost <= found.cost + 1e-12
    )


def _band_holds(law: Law, dial: Dial) -> bool:
    npv, precision = law.promise
    band = dial.refer(npv=npv, precision=precision, prevalence=law.prevalence, confidence=CONFIDENCE)
    true = {"npv": npv_at(*law.rates(band.lower), law.prevalence)}
    true["precision"] = precision_at(*law.rates(band.threshold), law.prevalence)
    return all(true[bound.metric] >= bound.value - 1e-12 for bound in band.certificate.bounds)


def _cap_holds(law: Law, rows: Rows, index: int) -> bool:
    """Unlabelled cases as they come: a binomial number of positives among 400, one row of each unit."""
    rng = np.random.default_rng([17, index])
    names = np.arange(rows.y.size) if rows.groups is None else rows.groups
    ill, well = (np.unique(names[rows.y == label]) for label in (1, 0))
    share = ill.size / 800
    n_positive = min(int(rng.binomial(400, share)), ill.size)
    cases = np.isin(
        names, np.concatenate([rng.permutation(ill)[:n_positive], rng.permutation(well)[: 400 - n_positive]])
    )
    threshold, _ = cap_alerts(rows.scores[cases, 0], 0.3, CONFIDENCE, names[cases], seed=index)
    recall, fpr = law.rates(threshold)
    return share * recall + (1 - share) * fpr <= 0.3 + 1e-12


def answers(law: Law, seed: int, index: int) -> Iterator[tuple[str, str, float]]:
    """What public calls answer to 'the most precision with this recall' on one draw: true precision, and who is ahead.

    Ours is `Dial.tune`; MAPIE's is `BinaryClassificationController`, on the same labels and scores.
    """
    rows = law.draw(np.random.default_rng([seed, index]))
    dial = asked(law, rows)
    floor = Objective(maximize="precision", subject_to={"recall": law.floor})
    cuts: dict[str, float | None] = {"uncertified": dial.tune(objective=floor, calibration=None).threshold}
    try:
        cuts["tune"] = dial.tune(objective=floor, confidence=CONFIDENCE, calibration=None).threshold
    except NotCertified:
        cuts["tune"] = None
    if MAPIE:
        cuts["MAPIE"] = _mapie(rows, law.floor, "bonferroni_holm")
        cuts["MAPIE, fixed sequence"] = _mapie(rows, law.floor, "fixed_sequence")
    found: dict[str, float] = {}
    for who, cut in cuts.items():
        if cut is None:
            yield who, "refused", 1.0
            continue
        recall, fpr = law.rates(cut)
        found[who] = precision_at(recall, fpr, float(rows.y.mean()))
        yield who, "broken" if recall < law.floor - 1e-12 else "kept", 1.0
        yield who, "precision", found[who]
        if who.startswith("MAPIE") and "tune" in found:
            yield who, "both", 1.0
            yield who, "ahead", found["tune"] - found[who]


def _mapie(rows: Rows, floor: float, method: str) -> float | None:
    """The score at MAPIE's best threshold on its default grid of probabilities; None where it has none."""
    score = rows.scores[:, 0]
    centre = 1.0 if score.max() > -3 else 0.0  # probabilities about one half, but for scores all below 0.01
    probability = 1 / (1 + np.exp(centre - score))
    controller = BinaryClassificationController(
        lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]), "recall", floor, CONFIDENCE, fwer_method=method
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        controller.calibrate(probability[:, None], rows.y)
    best = controller.best_predict_param
    if best is None:
        return None
    # MAPIE accepts probability >= threshold; one float lower, `score > cut` does the same.
    cut = -np.inf if best <= 0 else float(np.log(best / (1 - best)))
    return float(np.nextafter(cut + centre, -np.inf))


def shift_refused(share: float, moved: float, spread: float, index: int) -> bool:
    """Is a sample of 1,000 refused whose share of positives, place and spread changed? 100 positives are known."""
    rng = np.random.default_rng([int(1000 * share), int(1000 * (moved + 5)), int(1000 * spread), index])
    y = np.repeat([1, 0], [100, 1000])
    known = rng.standard_normal(1100) + 2 * y
    new = spread * rng.standard_normal(1000) + 2 * (rng.random(1000) < share) + moved
    return not fit_mixture(new, y, known).fits


@lru_cache
def _law(shape: str) -> tuple[Floats, Floats]:
    """Scores of so many positives and negatives that their shares are nearly the true ones."""
    rng = np.random.default_rng([32, list(SHAPES).index(shape)])
    positive, negative = (SHAPES[shape](rng, np.full(200_000, side)) for side in (True, False))
    return positive, negative


def estimated(shape: str, share: float, index: int) -> Counter[str]:
    """Whether the interval of an estimated share misses it, what travels by it breaks, and the shift is declined."""
    rng = np.random.default_rng([31, list(SHAPES).index(shape), int(1000 * share), index])
    y, draw = np.repeat([True, False], [200, 2000]), SHAPES[shape]
    score, new = draw(rng, y), draw(rng, rng.random(2000) < share)
    fit = fit_mixture(new, y, score)
    point = Dial(y, score).tune(maximize="precision", subject_to={"recall": 0.8}, confidence=CONFIDENCE)
    recall, fpr = (float(np.mean(side > point.threshold)) for side in _law(shape))
    return Counter(
        missed=not fit.share.low <= share <= fit.share.high,
        broken=precision_at(recall, fpr, share) < point.at(fit.share).precision,
        declined=not fit.fits,
        share=fit.share.value,
        width=fit.share.high - fit.share.low,
    )  # type: ignore[call-overload]


def estimated_in_groups(sicker: bool, n_new: int, index: int) -> Counter[str]:
    """The same of patients, a tenth of whom are ill; the share is one of rows."""
    rng = np.random.default_rng([33, sicker, n_new, index])
    n_ill = int(rng.binomial(n_new, 0.1))
    known, new = patients(rng, 100, 600, sicker), patients(rng, n_ill, n_new - n_ill, sicker)
    share = 0.65 / (0.65 + 0.9 * 2) if sicker else 0.1
    fit = fit_mixture(new.scores[:, 0], known.y, known.scores[:, 0], groups=known.groups, groups_new=new.groups)
    return Counter(
        missed=not fit.share.low <= share <= fit.share.high,
        declined=not fit.fits,
        share=fit.share.value,
        width=fit.share.high - fit.share.low,
    )  # type: ignore[call-overload]


def capped(sicker: bool, index: int) -> bool:
    """Does a cap of a tenth of all rows break, certified on 400 patients?"""
    rng = np.random.default_rng([34, sicker, index])
    n_ill = int(rng.binomial(400, 0.1))
    rows = patients(rng, n_ill, 400 - n_ill, sicker)
    share = 0.65 / (0.65 + 0.9 * 2) if sicker else 0.1
    cut, _ = cap_alerts(rows.scores[:, 0], 0.1, CONFIDENCE, rows.groups, seed=index)
    return bool(share * norm.sf(cut - 2) + (1 - share) * norm.sf(cut) > 0.1)


def busy(spread: float, in_groups: bool, index: int) -> bool:
    """Does a day, right at the cap of 5 %, bring more alerts than 60 days of varying volume say of a busy one?"""
    rng = np.random.default_rng([35, int(10 * spread), in_groups, index])
    volume = np.round(1000 * np.exp(spread * rng.standard_normal(61) - spread**2 / 2))
    rows = patients(rng, 150, 1500, sicker=True)
    score, groups = (rows.scores[:, 0], rows.groups) if in_groups else (rng.standard_normal(2000), None)
    threshold, _ = cap_alerts(score, 0.05, groups=groups)
    names = None if groups is None else np.unique(groups, return_inverse=True)[1]
    together = 1.0 if names is None else alerts_together(names, score > threshold)
    most = busy_day(0.05, volume[:-1], together=together)
    if not in_groups:
        return bool(rng.poisson(0.05 * volume[-1]) > most)
    # A day of patients at the threshold that flags 5 % of rows, ill and well ones by Poisson's law.
    cut = float(brentq(lambda at: RATIO * norm.sf(at - 2) + (1 - RATIO) * norm.sf(at) - 0.05, -5, 9))
    mean = volume[-1] / (0.1 * 6.5 + 0.9 * 2)
    today = patients(rng, int(rng.poisson(0.1 * mean)), int(rng.poisson(0.9 * mean)) + 1, sicker=True)
    return bool(np.count_nonzero(today.scores > cut) > most)


RATIO = 0.65 / (0.65 + 0.9 * 2)
"""The share of rows of patients who are ill, where a tenth are and have 5 to 8 rows, the others 1 to 3."""


@lru_cache
def _least(shape: str) -> float:
    positive, negative = map(np.sort, _law(shape))
    cuts = np.linspace(-3, 7, 501)
    missed, alarms = positive.searchsorted(cuts, "right"), negative.size - negative.searchsorted(cuts, "right")
    return float(min((missed / positive.size + 0.998 * alarms / negative.size).min(), 0.998))


def costs(shape: str, n_positive: int, index: int) -> Counter[str]:
    """Expected cost, over the least there is, of adapting to a prevalence of .002 with a miss 500 times as dear."""
    rng = np.random.default_rng([36, list(SHAPES).index(shape), n_positive, index])
    y, draw = np.repeat([True, False], [n_positive, 10 * n_positive]), SHAPES[shape]
    point = Dial(y, draw(rng, y)).adapt(prevalence=0.002, cost_fn=500, cost_fp=1)
    positive, negative = _law(shape)

    def cost(alert: Callable[[Floats], NDArray[np.bool_]]) -> float:
        return float(1 - alert(positive).mean() + 0.998 * alert(negative).mean())  # 0.002 times 500 is 1

    least = _least(shape)
    return Counter(
        counted=cost(point.predict) / least,
        computed=cost(lambda score: point.probability(score) > point.break_even) / least,
    )  # type: ignore[call-overload]


def monitored(recall: float, n: int, index: int, good: int = 0) -> int | None:
    """After how many outcomes a floor of 0.95 is called broken; `good` ones at 0.97 come first."""
    test = SequentialTest(0.95, 0.05).see(_outcomes(recall, n, index, good))
    return None if test.broken_at is None else test.broken_at - good


def monitored_by_mapie(recall: float, n: int, index: int, good: int = 0) -> int | None:
    """The same outcomes of positives, shown to MAPIE: its first bound above a risk of 0.05.

    With a threshold that is given MAPIE spends half of its test level on the stream: 0.1 makes that 0.05.
    """
    outcomes = _outcomes(recall, n, index, good)
    monitor = RiskMonitoring("recall", test_level=0.1, threshold=0.05, warn=False)
    monitor.update(np.ones(outcomes.size, dtype=np.int64), outcomes.astype(np.int64))
    above = np.flatnonzero(monitor.online_risk_lower_bound_sequence_history > 0.05)
    return None if not above.size else int(above[0]) + 1 - good


def _outcomes(recall: float, n: int, index: int, good: int) -> NDArray[np.bool_]:
    """`good` positives that are found with probability 0.97, then n with probability `recall`."""
    rng = np.random.default_rng([int(1000 * recall), good, index])
    return np.concatenate([rng.random(good) < 0.97, rng.random(n) < recall])


ORDERS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "as they came": lambda score, y: np.zeros(score.size),  # noqa: ARG005
    "by score": lambda score, y: score,  # noqa: ARG005
    "alerts first": lambda score, y: np.where(score > CUT, 0.0, 1.0),  # noqa: ARG005
    "positives first": lambda score, y: 1.0 - y,  # noqa: ARG005
    "misses first": lambda score, y: np.where((score > CUT) == y, 1.0, 0.0),
}
"""How a file of outcomes may be sorted."""
CUT = float(norm.isf(0.9) + 2)


def sorted_alarm(order: str, index: int) -> bool:
    """Does a watch right at its floor and its cap speak, shown five sorted files of 1,000 cases?"""
    rng = np.random.default_rng([23, list(ORDERS).index(order), index])
    monitor = Monitor(
        CUT, 0.95, {"recall": SequentialTest(0.9, 0.025), "fpr": SequentialTest(float(norm.cdf(CUT)), 0.025)}
    )
    for _ in range(5):
        y = (rng.random(1000) < 0.1).astype(np.float64)
        score = rng.standard_normal(1000) + 2 * y
        at = np.argsort(ORDERS[order](score, y), kind="stable")
        monitor = monitor.see(score[at], y[at])
    return bool(monitor.broken)


def gain_claimed(n_positive: int, m: int, noise: float, index: int) -> bool:
    """Does a verdict claim any gain where no λ is better than another?"""
    rng = np.random.default_rng([n_positive, m, index])
    y = np.repeat([1, 0], [n_positive, 10 * n_positive])
    scores = (rng.standard_normal(y.size) + 1.5 * y)[:, None] + noise * rng.standard_normal((y.size, m))
    surface = Surface(y, scores, [{"tau": float(k)} for k in range(m)])
    return any(gain.measurable for gain in verdict(surface, resamples=200, seed=index).gains)


def twin_beaten(n_positive: int, m: int, noise: float, index: int) -> bool:
    """Does a comparison claim that one model beats another, or loses to it, where they differ by noise only?"""
    rng = np.random.default_rng([29, n_positive, m, index])
    y = np.repeat([1, 0], [n_positive, 10 * n_positive])
    shared = (rng.standard_normal(y.size) + 1.5 * y)[:, None]
    lams = [{"tau": float(k)} for k in range(m)]
    one, other = (Dial(y, shared + noise * rng.standard_normal((y.size, m)), lams) for _ in range(2))
    return any(gain.gain.low > 0 or gain.gain.high < 0 for gain in one.compare(other).gains)


def crossfit_covers(objective: Objective, n_positive: int, m: int, index: int) -> Counter[str]:
    """Which cross-fitted intervals cover the mean true figure of the two half-chosen points."""
    rng = np.random.default_rng([n_positive, m, index])
    noise = 0.7 if m > 1 else 0.0
    spread = float(np.sqrt(1 + noise**2))
    y = np.repeat([1, 0], [n_positive, 10 * n_positive])
    scores = (rng.standard_normal(y.size) + 2 * y)[:, None] + noise * rng.standard_normal((y.size, m))
    surface = Surface(y, scores, [{"tau": float(k)} for k in range(m)])
    cuts = np.array([select(half, objective).threshold for half, _ in surface.swapped_halves(index)])
    recall, fpr = norm.sf((cuts - 2) / spread), norm.sf(cuts / spread)
    share = surface.prevalence
    truth = {
        "recall": recall.mean(),
        "fpr": fpr.mean(),
        "precision": np.mean(share * recall / (share * recall + (1 - share) * fpr)),
    }
    found = crossfit(surface, objective, 400, index, None)
    return Counter({name: int(e.low <= truth[name] <= e.high) for name, e in found.items()})
