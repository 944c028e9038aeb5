"""``lossdial demo``: one training against three searches, in a minute or two, on data that come with scikit-learn."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lossdial_studies.commands.rivals import Aim, Parts, Rival, beside, search, words

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lossdial import LCTClassifier, Space
    from lossdial.base.report import Sheet
    from lossdial.dial import Dial, OperatingPoint

__all__ = ["demo"]

_NEGATIVES, _POSITIVES = 800, 16  # of the training set: 50 to 1

_GREEK: Final = {"gamma": "γ", "tau": "τ", "alpha": "α", "phi": "φ"}

_OBJECTIVES: Final = (
    Aim("AUC", {"maximize": "auc"}, "auc"),
    Aim("F1", {"maximize": "f1"}, "f1"),
    Aim("precision at recall ≥ .95", {"maximize": "precision", "subject_to": {"recall": 0.95}}, "precision"),
    Aim("Brier score", {"minimize": "brier"}, "brier"),
)


@dataclass(frozen=True)
class _Answer:
    """One aim, the point chosen for it on the tuning images, and what it is worth on the test images."""

    metric: str
    point: OperatingPoint
    test: float
    precision: float
    recall: float
    milliseconds: float


def demo(out: str = "demo", epochs: int = 40, seed: int = 0) -> None:
    """Train one model, tune it for four aims, and run the searches that it saves beside it.

    It is of handwritten digits: "is it an 8?", 50 to 1. The searches are what one would do otherwise: cross entropy
    with a threshold, a ridge of eight settings, and one training for each of the paper's sixteen settings of the loss.
    A second part shows, on rows of a stated law, where turning λ does what no threshold can. Prints tables and what the
    differences are worth; writes the model, pictures and a report into --out.

    Parameters
    ----------
    out
        The folder to write.
    epochs
        Passes over the 816 training images.
    seed
        One seed for everything that is random.
    """
    import torch
    from rich.console import Console
    from threadpoolctl import threadpool_limits

    from lossdial.base.files import require_writable
    from lossdial.base.report import Text, write_report
    from lossdial_studies.commands.two_kinds import KINDS_AIMS, drawn, lines, one_solve, searches

    torch.set_num_threads(1)  # an image of 8 × 8 pixels is too little work to share,
    threadpool_limits(1)  # and so are a few hundred rows; on a busy machine threads would wait for each other
    console = Console(soft_wrap=True, highlight=False)
    folder = Path(out)
    require_writable(folder / "report.html")
    digits = _digits(seed)
    console.print(
        f"Is it an 8? Training on {len(digits.train)} images, {digits.y_train.sum()} of them positive; "
        f"tuning on {len(digits.tuning)} others ({digits.y_tuning.sum()} positive), "
        f"measuring on {len(digits.test)} more ({digits.y_test.sum()} positive)."
    )
    classifier = _trained(digits, None, epochs, seed)
    ours = _as_rival(classifier, digits)
    answers = [_answer(classifier, ours.test, objective) for objective in _OBJECTIVES]
    chosen = _chosen(answers)
    console.print(chosen)
    spent = sum(answer.milliseconds for answer in answers)
    summary = f"Training took {ours.seconds:.1f} s, once; the four choices {spent:.0f} ms together, with no retraining."
    console.print(f"{summary}\n\nNow the searches, with the same images, network and epochs …")
    searched = _searches(digits, epochs, seed)
    saved = beside("the same aims, by one training and by searches", ours, _OBJECTIVES, searched)
    console.print(saved)
    told = words(ours, _OBJECTIVES, searched)
    console.print("\n".join(told) + "\n\nAnd 20,000 rows of a law with two kinds of positives, and a linear model …")

    parts = drawn(seed)
    solved, one = one_solve(parts, seed)
    others = searches(parts)
    turned = beside("two kinds of positives: one fit over class weights and ridges", one, KINDS_AIMS, others)
    console.print(turned)
    told_there = words(one, KINDS_AIMS, others)
    console.print("\n".join(told_there))

    classifier.save(folder / "model", replace=True)
    written = write_report(
        folder,
        "One training, and the searches that it saves",
        [*map(Text, (summary, *told, "On the law with two kinds of positives:", *told_there)), chosen, saved, turned],
        {"precision_recall": _picture(ours.test, answers), "two_kinds": lines(solved, parts)},
    )
    console.print("look at: " + "  ".join(str(path) for path in written))


def _digits(seed: int) -> Parts:
    """Images (n, 1, 8, 8) and whether each is an 8: training at 50 to 1; the rest in halves, to tune and to test on."""
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = (digits.images[:, None] * (255 / 16)).astype(np.uint8), (digits.target == 8).astype(np.int64)
    rng = np.random.default_rng(seed)
    negatives, positives = (rng.permutation(np.flatnonzero(labels == c)) for c in (0, 1))
    train = np.concatenate([negatives[:_NEGATIVES], positives[:_POSITIVES]])
    tuning, test = (np.concatenate([negatives[_NEGATIVES:][i::2], positives[_POSITIVES:][i::2]]) for i in (0, 1))
    return Parts(images[train], labels[train], images[tuning], labels[tuning], images[test], labels[test])


def _trained(digits: Parts, space: Space | None, epochs: int, seed: int, progress: bool = True) -> LCTClassifier:
    """A small ResNet over a space of λ: the default one, or a single setting."""
    import torch

    from lossdial import LCTClassifier, Recipe, Run
    from lossdial.models import CifarResNet
    from lossdial.training import Augment, OptimizerConfig

    torch.manual_seed(seed)  # of the backbone's first weights
    sgd = OptimizerConfig("sgd", lr=0.1)
    return LCTClassifier(
        space=space,
        network=CifarResNet(depth=8, width=16, in_channels=1),
        recipe=Recipe(epochs, optimizer=sgd, clip_norm=0.5, augment=Augment(crop_padding=1), positives=0.25),
        random_state=seed,
        run=Run(progress=progress),
    ).fit(digits.train, digits.y_train, digits.tuning, digits.y_tuning)


def _as_rival(classifier: LCTClassifier, digits: Parts) -> Rival:
    import numpy as np

    images, labels = np.concatenate([digits.tuning, digits.test]), np.concatenate([digits.y_tuning, digits.y_test])
    tuning, test = classifier.dial(digits.tuning, digits.y_tuning), classifier.dial(digits.test, digits.y_test)
    seconds = classifier.bundle_.training.seconds
    return Rival("one training", tuning, test, classifier.dial(images, labels), 1, seconds)


def _searches(digits: Parts, epochs: int, seed: int) -> tuple[Rival, ...]:
    """Cross entropy, a ridge of eight settings on the pixels, and a training for each of the paper's settings of VS."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from lossdial import Constant, Space
    from lossdial_studies import method

    def network(values: tuple[float, ...]) -> Any:
        space = Space(gamma=Constant(values[0]), tau=Constant(values[1]))
        return _trained(digits, space, epochs, seed, progress=False).decision_function

    def ridge(values: tuple[float, ...]) -> Any:
        model = LogisticRegression(C=10 ** values[0], class_weight="balanced" if values[1] else None, max_iter=1000)
        fitted = make_pipeline(StandardScaler(), model).fit(_flat(digits.train), digits.y_train)
        return lambda images: fitted.decision_function(_flat(images))

    strengths = [(float(c), float(b)) for c in (-3, -2, -1, 0) for b in (0, 1)]
    settings = [tuple(space.nearest({}).as_dict().values()) for space in method("vs").spaces()]
    return (
        search("cross entropy", ("gamma", "tau"), [(0.0, 0.0)], network, digits),
        search("ridge search", ("ridge", "balanced"), strengths, ridge, digits),
        search("VS search", ("gamma", "tau"), settings, network, digits),
    )


def _flat(images: NDArray[Any]) -> NDArray[Any]:
    return images.reshape(len(images), -1).astype(float)


def _answer(classifier: LCTClassifier, at_test: Dial, objective: Aim) -> _Answer:
    started = time.perf_counter()
    point = classifier.tune(**objective.ask, name=objective.name)
    elapsed = time.perf_counter() - started
    there = at_test.metrics([objective.metric, "precision", "recall"], point)
    test, precision, recall = (there[m].value for m in (objective.metric, "precision", "recall"))
    return _Answer(objective.metric, point, test, precision, recall, 1000 * elapsed)


def _picture(at_test: Dial, answers: list[_Answer]) -> Figure:
    from lossdial.dial.plots import precision_recall_figure

    figure = precision_recall_figure(at_test.surface, [answer.point for answer in answers])
    lowest = min(answer.precision for answer in answers)
    figure.axes[0].set(xlim=(0.5, 1.005), ylim=(max(0.0, lowest - 0.1), 1.02))
    figure.axes[0].set_title("One model, four aims: precision and recall on the test images", loc="left", fontsize=11)
    return figure


def _chosen(answers: list[_Answer]) -> Sheet:
    from lossdial.base.report import Sheet
    from lossdial.dial.uncertainty.intervals import rounded

    rows = [
        (
            answer.point.name,
            *(f"{value:.2f}" for value in answer.point.lam.values()),
            f"{answer.point.threshold:.2f}",
            rounded(answer.point.metrics[answer.metric].value),
            rounded(answer.test),
            rounded(answer.recall),
            f"{answer.milliseconds:.0f} ms",
        )
        for answer in answers
    ]
    names = [_GREEK.get(name, name) for name in answers[0].point.lam]
    return Sheet(
        "one training, four aims: each picks its own λ and threshold t",
        ("aim", *names, "t", "tuning", "test", "recall", "time"),
        rows,
        "λ and t were chosen on the tuning images; the test images took no part in any choice. recall: on the test.",
    )
