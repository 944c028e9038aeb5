"""What the demo's one fit meets: searches, each as a dial whose λ are the settings that were tried."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lossdial import Dial, LCTClassifier
    from lossdial.base.report import Sheet

    Score = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Question:
    """What to tune for, and the metric that shows it."""

    name: str
    ask: Mapping[str, Any]
    metric: str


@dataclass(frozen=True)
class DemoRows:
    """Rows to train on, to choose on, and to measure on, with labels 0 and 1."""

    train: NDArray[Any]
    y_train: NDArray[np.int64]
    tuning: NDArray[Any]
    y_tuning: NDArray[np.int64]
    test: NDArray[Any]
    y_test: NDArray[np.int64]


@dataclass(frozen=True)
class Search:
    """Scores of the tuning rows, the test rows and both, one column for each setting that was tried."""

    name: str
    tuning: Dial
    test: Dial
    both: Dial
    trainings: int
    seconds: float


def search(
    name: str,
    names: Sequence[str],
    tries: Sequence[tuple[float, ...]],
    fit: Callable[[tuple[float, ...]], Score],
    rows: DemoRows,
) -> Search:
    """One training for each setting; ``fit`` gives what scores rows."""
    import numpy as np

    from lossdial import Dial
    from lossdial.base.progress import ProgressBar

    columns, seconds = [], 0.0
    x, y = np.concatenate([rows.tuning, rows.test]), np.concatenate([rows.y_tuning, rows.y_test])
    with ProgressBar(name, len(tries)) as bar:
        for done, values in enumerate(tries, 1):
            started = time.monotonic()
            score = fit(values)
            seconds += time.monotonic() - started
            columns.append(score(x).astype(np.float64))
            bar.advance(done, {})
    lams = [dict(zip(names, values, strict=True)) for values in tries]
    scores, n = np.column_stack(columns), len(rows.y_tuning)
    tuning, test, both = (Dial(y[part], scores[part], lams) for part in (slice(n), slice(n, None), slice(None)))
    return Search(name, tuning, test, both, len(tries), seconds)


def one_training(name: str, classifier: LCTClassifier, rows: DemoRows, seconds: float) -> Search:
    """A single fit over a distribution of λ, in the form of a search."""
    import numpy as np

    x, y = np.concatenate([rows.tuning, rows.test]), np.concatenate([rows.y_tuning, rows.y_test])
    tuning, test = classifier.dial(rows.tuning, rows.y_tuning), classifier.dial(rows.test, rows.y_test)
    return Search(name, tuning, test, classifier.dial(x, y), 1, seconds)


def ridge_search(x: NDArray[Any], y: NDArray[np.int64], rows: DemoRows, prepare: Score = lambda x: x) -> Search:
    """scikit-learn's logistic regression at four strengths of its ridge, plain and balanced."""
    from sklearn.linear_model import LogisticRegression

    def fit(values: tuple[float, ...]) -> Score:
        model = LogisticRegression(C=10 ** values[0], class_weight="balanced" if values[1] else None, max_iter=1000)
        model.fit(x, y)
        return lambda others: model.decision_function(prepare(others))

    strengths = [(float(c), float(b)) for c in (-3, -2, -1, 0) for b in (0, 1)]
    return search("ridge search", ("ridge", "balanced"), strengths, fit, rows)


def beside(title: str, ours: Search, questions: Sequence[Question], searched: Sequence[Search]) -> Sheet:
    """Every question by one fit and by every search, chosen on the tuning rows, measured on the test rows; the cost."""
    from lossdial.base.report import Sheet
    from lossdial.dial.uncertainty.intervals import rounded

    every, lines = (ours, *searched), []
    for question in questions:
        values = []
        for one in every:
            with warnings.catch_warnings():  # of a floor that cross-fitting misses: the figure shows it
                warnings.simplefilter("ignore", UserWarning)
                point = one.tuning.tune(**question.ask, name=question.name)
            values.append(one.test.metrics([question.metric], point)[question.metric].value)
        lines.append((question.name, *(rounded(value) for value in values)))
    lines.append(("trainings", *(str(one.trainings) for one in every)))
    lines.append(("seconds", *(f"{one.seconds:.1f}" for one in every)))
    note = "setting and threshold were chosen on the tuning rows, for each aim anew; the figures are of the test rows."
    return Sheet(title, ("aim", *(one.name for one in every)), lines, note)


def words(ours: Search, questions: Sequence[Question], searched: Sequence[Search]) -> list[str]:
    """What the differences are worth, on all rows that no training has seen; and what moving λ is worth."""
    from lossdial.dial import Objective

    asked = tuple(Objective(**question.ask) for question in questions)
    lines = []
    for one in searched:
        gains = ours.both.compare(one.both, asked).gains
        better, worse = sum(gain.measurable for gain in gains), sum(gain.gain.high < 0 for gain in gains)
        ratio = one.seconds / max(ours.seconds, 1e-3)
        cost = f"{ratio:.1f} times the time" if ratio < 10 else f"{ratio:.0f} times the time"
        lines.append(
            f"Against {one.name}: better in {better} of {len(gains)} aims, worse in {worse}, within the noise in "
            f"{len(gains) - better - worse}; it took {cost} of one fit."
        )
    return [*lines, f"Is moving λ worth it here? {ours.both.verdict(asked)}"]
