"""Trials of `certificates.py` on rows that are not fresh: they chose λ, or trained, and were changed a little since."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from certificate_laws import Floats
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.tree import DecisionTreeClassifier

from lossdial import DialedClassifier
from lossdial.dial import Dial, NotCertified
from lossdial.dial.certificates.certificate import at_threshold
from lossdial.dial.certificates.evidence import certifying_scores

CONFIDENCE = 0.95
Labelled = tuple[NDArray[np.int64], Floats]
NOISE = 1.0
LEVELS = 30


def _half(y: NDArray[np.int64], x: Floats) -> Labelled:
    kept = np.random.default_rng(0).permutation(y.size) % 2 == 0
    return y[kept], x[kept]


CHANGES: dict[str, Callable[[NDArray[np.int64], Floats], Labelled]] = {
    "as they were": lambda y, x: (y, x),
    "less a row": lambda y, x: (y[1:], x[1:]),
    "plus a row": lambda y, x: (np.append(y, 0), np.vstack([x, x.mean(axis=0)])),
    "reversed": lambda y, x: (y[::-1], x[::-1]),
    "float32": lambda y, x: (y, x.astype(np.float32).astype(np.float64)),
    "rounded to 1e-6": lambda y, x: (y, x.round(6)),
    "each row twice": lambda y, x: (np.repeat(y, 2), np.repeat(x, 2, axis=0)),
    "half of them": _half,
}
FRESH = "fresh rows"


def chosen(levels: int, index: int) -> Iterator[tuple[str, str, float]]:
    """λ and threshold of a recall of .95 chosen on rows, then certified on the same rows changed, and on fresh ones.

    Scores of so many levels come with raw rows, as the estimators have them; continuous ones (0) are bare.
    """
    rng = np.random.default_rng([31, levels, index])
    lams = [{"tau": float(k)} for k in range(40)]
    spread = float(np.sqrt(1 + NOISE**2))

    def draw() -> Labelled:
        y = np.repeat([1, 0], [100, 600])
        rows = rng.standard_normal((y.size, 1)) + 2 * spread * y[:, None]
        scores = rows + NOISE * rng.standard_normal((y.size, 40))
        return y, np.hstack([np.floor(scores * levels / 10) * 10 / levels if levels else scores, rows])

    def dial(y: NDArray[np.int64], x: Floats) -> Dial:
        found = Dial(y, x[:, :-1], lams)
        found.rows = x[:, -1] if levels else None
        return found

    y, x = draw()
    point = dial(y, x).tune(maximize="precision", subject_to={"recall": 0.95}, calibration=None)
    cut = point.threshold
    if levels:  # `score > threshold` accepts the levels above it: continuous scores from the next one on
        grid = np.arange(-10 * levels, 10 * levels) * 10 / levels
        cut = float(grid[np.searchsorted(grid, cut, side="right")])
    recall, fpr = norm.sf(cut / spread - 2), norm.sf(cut / spread)
    column = lams.index(dict(point.lam))
    rows = {what: change(y, x) for what, change in CHANGES.items()} | {FRESH: draw()}
    for what, (labels, values) in rows.items():
        known = at_threshold(certifying_scores(labels, values[:, column]), point.threshold, CONFIDENCE)
        wrong = recall < known.recall - 1e-12 or fpr > known.fpr + 1e-12
        yield from _told(what, wrong, partial(dial(labels, values).certify, point))


def trained(index: int) -> Iterator[tuple[str, str, float]]:
    """A tree that learns its rows by heart, certified on those rows changed, and on fresh ones."""
    rng = np.random.default_rng([37, index])

    def draw(n: int) -> Labelled:
        y = (rng.random(n) < 0.2).astype(np.int64)
        return y, rng.standard_normal((n, 6)) + 0.5 * y[:, None]

    y, x = draw(800)
    clf = DialedClassifier(DecisionTreeClassifier(min_samples_leaf=2, random_state=0), cv=2).fit(x, y)
    y_new, x_new = draw(20_000)
    positive = clf.predict(x_new) == 1
    recall, fpr = positive[y_new == 1].mean(), positive[y_new == 0].mean()

    def certify(values: Floats, labels: NDArray[np.int64]) -> object:
        return clf.dial(values, labels).certify("default")

    rows = {what: change(y, x) for what, change in CHANGES.items()} | {FRESH: draw(800)}
    for what, (labels, values) in rows.items():
        known = at_threshold(certifying_scores(labels, clf.predict_proba(values)[:, 1]), 0.5, CONFIDENCE)
        wrong = recall < known.recall or fpr > known.fpr
        yield from _told(what, wrong, partial(certify, values, labels))


def _told(what: str, wrong: bool, certify: Callable[[], object]) -> Iterator[tuple[str, str, float]]:
    """Refused or not, broken or not, and whether it were broken without a refusal."""
    yield what, "wrong", float(wrong)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            certify()
    except NotCertified:
        yield what, "refused", 1.0
    else:
        yield what, "broken", float(wrong)
