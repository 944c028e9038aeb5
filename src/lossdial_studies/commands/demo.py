"""``lossdial demo``: one training against three searches, in a minute or two, on data that come with scikit-learn."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lossdial_studies.commands.searches import (
    DemoRows,
    Question,
    Search,
    beside,
    one_training,
    ridge_search,
    search,
    words,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lossdial import LCTClassifier, Space
    from lossdial.base.report import Sheet
    from lossdial.dial import Dial, OperatingPoint

_NEGATIVES, _POSITIVES = 800, 16  # of the training set: 50 to 1

_GREEK: Final = {"gamma": "γ", "tau": "τ", "alpha": "α", "phi": "φ"}

_QUESTIONS: Final = (
    Question("AUC", {"maximize": "auc"}, "auc"),
    Question("F1", {"maximize": "f1"}, "f1"),
    Question("precision at recall ≥ .95", {"maximize": "precision", "subject_to": {"recall": 0.95}}, "precision"),
    Question("Brier score", {"minimize": "brier"}, "brier"),
)


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
    from lossdial_studies.commands.two_kinds import KINDS_QUESTIONS, drawn, lines, one_solve, searches

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
    ours = one_training("one training", classifier, digits, classifier.bundle_.training.seconds)
    chosen, points, spent = _chosen(classifier, ours.test)
    console.print(chosen)
    summary = f"Training took {ours.seconds:.1f} s, once; the four choices {spent:.0f} ms together, with no retraining."
    console.print(f"{summary}\n\nNow the searches, with the same images, network and epochs …")
    searched = _searches(digits, epochs, seed)
    saved = beside("the same aims, by one training and by searches", ours, _QUESTIONS, searched)
    console.print(saved)
    told = words(ours, _QUESTIONS, searched)
    console.print("\n".join(told) + "\n\nAnd 20,000 rows of a law with two kinds of positives, and a linear model …")

    rows = drawn(seed)
    solved, one = one_solve(rows, seed)
    others = searches(rows)
    turned = beside("two kinds of positives: one fit over class weights and ridges", one, KINDS_QUESTIONS, others)
    console.print(turned)
    told_there = words(one, KINDS_QUESTIONS, others)
    console.print("\n".join(told_there))

    classifier.save(folder / "model", replace=True)
    written = write_report(
        folder,
        "One training, and the searches that it saves",
        [*map(Text, (summary, *told, "On the law with two kinds of positives:", *told_there)), chosen, saved, turned],
        {"precision_recall": _picture(ours.test, points), "two_kinds": lines(solved, rows)},
    )
    console.print("look at: " + "  ".join(str(path) for path in written))


def _digits(seed: int) -> DemoRows:
    """Images (n, 1, 8, 8) and whether each is an 8: training at 50 to 1; the rest in halves, to tune and to test on."""
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = (digits.images[:, None] * (255 / 16)).astype(np.uint8), (digits.target == 8).astype(np.int64)
    rng = np.random.default_rng(seed)
    negatives, positives = (rng.permutation(np.flatnonzero(labels == c)) for c in (0, 1))
    train = np.concatenate([negatives[:_NEGATIVES], positives[:_POSITIVES]])
    tuning, test = (np.concatenate([negatives[_NEGATIVES:][i::2], positives[_POSITIVES:][i::2]]) for i in (0, 1))
    return DemoRows(images[train], labels[train], images[tuning], labels[tuning], images[test], labels[test])


def _trained(digits: DemoRows, space: Space | None, epochs: int, seed: int, progress: bool = True) -> LCTClassifier:
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


def _searches(digits: DemoRows, epochs: int, seed: int) -> tuple[Search, ...]:
    """Cross entropy, a ridge of eight settings on the pixels, and a training for each of the paper's settings of VS."""
    from sklearn.preprocessing import StandardScaler

    from lossdial import Constant, Space
    from lossdial_studies.methods import method

    def network(values: tuple[float, ...]) -> Any:
        space = Space(gamma=Constant(values[0]), tau=Constant(values[1]))
        return _trained(digits, space, epochs, seed, progress=False).decision_function

    scaler = StandardScaler().fit(_flat(digits.train))
    settings = [tuple(space.nearest({}).as_dict().values()) for space in method("vs").spaces()]
    return (
        search("cross entropy", ("gamma", "tau"), [(0.0, 0.0)], network, digits),
        ridge_search(
            scaler.transform(_flat(digits.train)), digits.y_train, digits, lambda x: scaler.transform(_flat(x))
        ),
        search("VS search", ("gamma", "tau"), settings, network, digits),
    )


def _flat(images: NDArray[Any]) -> NDArray[Any]:
    return images.reshape(len(images), -1).astype(float)


def _chosen(classifier: LCTClassifier, at_test: Dial) -> tuple[Sheet, list[OperatingPoint], float]:
    """Each question with the point chosen on the tuning images and its worth on the test images; the points; the ms."""
    from lossdial.base.report import Sheet
    from lossdial.dial.uncertainty.intervals import rounded

    points, lines, spent = [], [], 0.0
    for question in _QUESTIONS:
        started = time.perf_counter()
        point = classifier.tune(**question.ask, name=question.name)
        milliseconds = 1000 * (time.perf_counter() - started)
        figures = at_test.metrics([question.metric, "recall"], point)
        tuned, test, recall = point.metrics[question.metric], figures[question.metric], figures["recall"]
        lams = (f"{value:.2f}" for value in (*point.lam.values(), point.threshold))
        shown = (rounded(figure.value) for figure in (tuned, test, recall))
        lines.append((question.name, *lams, *shown, f"{milliseconds:.0f} ms"))
        points.append(point)
        spent += milliseconds
    names = [_GREEK.get(name, name) for name in points[0].lam]
    sheet = Sheet(
        "one training, four aims: each picks its own λ and threshold t",
        ("aim", *names, "t", "tuning", "test", "recall", "time"),
        lines,
        "λ and t were chosen on the tuning images; the test images took no part in any choice. recall: on the test.",
    )
    return sheet, points, spent


def _picture(at_test: Dial, points: list[OperatingPoint]) -> Figure:
    from lossdial.dial.plots import precision_recall_figure

    figure = precision_recall_figure(at_test.surface, points)
    lowest = min(at_test.metrics(["precision"], point)["precision"].value for point in points)
    figure.axes[0].set(xlim=(0.5, 1.005), ylim=(max(0.0, lowest - 0.1), 1.02))
    figure.axes[0].set_title("One model, four aims: precision and recall on the test images", loc="left", fontsize=11)
    return figure
