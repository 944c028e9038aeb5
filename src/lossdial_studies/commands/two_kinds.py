"""Where λ does what no threshold can: rows of a stated law, and a linear model that cannot fit both kinds of positives.

Negatives are standard normal in two dimensions. One row in fifty is positive: four in five of those lie around (3, 0),
one in five around (−1, 3), each with deviation 0.6. A line cannot cut off both kinds at once; which one is worth more
depends on the aim, and the weight of the classes turns the line.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from lossdial_studies.commands.searches import DemoRows, Question, Search, one_training, ridge_search, search

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lossdial import LCTClassifier

KINDS_QUESTIONS: Final = (
    Question("average precision", {"maximize": "average_precision"}, "average_precision"),
    Question("F1", {"maximize": "f1"}, "f1"),
    Question("balanced accuracy", {"maximize": "balanced_accuracy"}, "balanced_accuracy"),
    Question("recall at FPR ≤ .05", {"maximize": "recall", "subject_to": {"fpr": 0.05}}, "recall"),
)
_ROWS: Final = 20_000
_SHARE: Final = 0.02


def drawn(seed: int) -> DemoRows:
    """Rows of the law, to train on, to choose on and to measure on."""
    import numpy as np

    rng = np.random.default_rng(seed)
    drawn_rows: list[NDArray[Any]] = []
    for _ in range(3):
        y = (rng.random(_ROWS) < _SHARE).astype(np.int64)
        around = np.where(rng.random(_ROWS)[:, None] < 0.2, (-1.0, 3.0), (3.0, 0.0))
        noise = rng.standard_normal((_ROWS, 2))
        drawn_rows += [np.where(y[:, None] == 1, around + 0.6 * noise, noise), y]
    return DemoRows(*drawn_rows)


def one_solve(rows: DemoRows, seed: int) -> tuple[LCTClassifier, Search]:
    """One exact fit over class weights and ridges."""
    from lossdial import Constant, LCTClassifier, Linear, Space

    space = Space(alpha=Linear(0.02, 0.98, 1 / 0.96), phi=Constant(0), ridge=Linear(-3, 1, 0.25))
    started = time.monotonic()
    classifier = LCTClassifier("focal", network="features", space=space, random_state=seed)
    classifier.fit(rows.train, rows.y_train, rows.tuning, rows.y_tuning)
    return classifier, one_training("one fit", classifier, rows, time.monotonic() - started)


def searches(rows: DemoRows) -> tuple[Search, ...]:
    """Logistic regression, a search over its ridge, plain and balanced, and boosting, which can bend."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    x, y = rows.train, rows.y_train
    plain, boosting = LogisticRegression(), HistGradientBoostingClassifier(random_state=0)
    return (
        search(
            "logistic regression", ("ridge", "balanced"), [(0, 0)], lambda _: plain.fit(x, y).decision_function, rows
        ),
        ridge_search(x, y, rows),
        search("boosting", ("seed",), [(0,)], lambda _: boosting.fit(x, y).decision_function, rows),
    )


def lines(classifier: LCTClassifier, rows: DemoRows) -> Figure:
    """The test rows, and where the model says positive: one line for each of two aims."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    shown: NDArray[np.bool_] = rows.y_test == 0
    axes.scatter(
        rows.test[shown][:3000, 0], rows.test[shown][:3000, 1], s=4, color="#9aa5b1", label="negatives", linewidths=0
    )
    axes.scatter(rows.test[~shown, 0], rows.test[~shown, 1], s=9, color="#d55e00", label="positives", linewidths=0)
    for question, colour, style in ((KINDS_QUESTIONS[1], "#0072b2", "-"), (KINDS_QUESTIONS[2], "#1c2430", "--")):
        point = classifier.tune(**question.ask, name=question.name)
        side = [classifier.decision_function([row], lam=point.lam)[0] for row in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))]
        x, y, at = side[1] - side[0], side[2] - side[0], point.threshold - side[0]
        foot = (at * x / (x * x + y * y), at * y / (x * x + y * y))
        axes.axline(foot, (foot[0] - y, foot[1] + x), color=colour, ls=style, label=f"best {question.name}")
    axes.set(xlim=(-4, 5), ylim=(-4, 5), aspect="equal", xlabel="first column", ylabel="second column")
    axes.set_title("One fit, two aims: λ turns the line, a threshold only moves it", loc="left", fontsize=11)
    axes.legend(loc="lower left", fontsize=9)
    return figure
