"""``lossdial demo``: the whole idea in a minute, on data that come with scikit-learn."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lossdial import LCTClassifier
    from lossdial.cli.report import Sheet
    from lossdial.dial import OperatingPoint

__all__ = ["demo"]

_NEGATIVES, _POSITIVES = 800, 16  # of the training set: 50 to 1

_GREEK: Final = {"gamma": "γ", "tau": "τ", "alpha": "α", "phi": "φ"}

#: name, what to tune for, and the metric to show
_AIMS: Final[tuple[tuple[str, dict[str, Any], str], ...]] = (
    ("AUC", {"maximize": "auc"}, "auc"),
    ("F1", {"maximize": "f1"}, "f1"),
    ("precision at recall ≥ .95", {"maximize": "precision", "subject_to": {"recall": 0.95}}, "precision"),
    ("Brier score", {"minimize": "brier"}, "brier"),
)


@dataclass(frozen=True)
class _Answer:
    """One aim, the point chosen for it on the validation images, and what it is worth on the test images."""

    metric: str
    point: OperatingPoint
    test: float
    precision: float
    recall: float
    milliseconds: float


def demo(out: str = "demo", epochs: int = 40, seed: int = 0) -> None:
    """Train one model on handwritten digits ("is it an 8?", 50 to 1) and tune it for four aims.

    Prints one table, and writes the model, a picture and a report into --out.

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

    from lossdial import LCTClassifier
    from lossdial.cli.report import write_report
    from lossdial.dial.figures import precision_recall_figure
    from lossdial.models import CifarResNet
    from lossdial.training import Augment, OptimizerConfig, Recipe

    torch.set_num_threads(1)  # an image of 8 × 8 pixels is too little work to share
    torch.manual_seed(seed)  # of the backbone's first weights
    console = Console(soft_wrap=True)
    folder = Path(out)
    images, labels = _digits()
    train, validation, test = _split(labels, seed)
    console.print(
        f"Is it an 8? Training on {len(train)} images, {labels[train].sum()} of them positive; "
        f"tuning on {len(validation)} others ({labels[validation].sum()} positive), "
        f"measuring on {len(test)} more ({labels[test].sum()} positive)."
    )
    sgd = OptimizerConfig("sgd", lr=0.1)
    classifier = LCTClassifier(
        network=CifarResNet(depth=8, width=16, in_channels=1),
        recipe=Recipe(epochs, optimizer=sgd, clip_norm=0.5, augment=Augment(crop_padding=1)),
        random_state=seed,
    ).fit(images[train], labels[train], images[validation], labels[validation])
    seconds = classifier.bundle_.training.seconds
    answers = [_answer(classifier, images[test], labels[test], *aim) for aim in _AIMS]
    sheet = _sheet(answers)
    console.print(sheet)
    spent = sum(answer.milliseconds for answer in answers)
    summary = f"training took {seconds:.1f} s, once; the four choices took {spent:.0f} ms together, with no retraining."
    console.print(summary)

    figure = precision_recall_figure(classifier.dial(images[test], labels[test]).surface, [a.point for a in answers])
    lowest = min(answer.precision for answer in answers)
    figure.axes[0].set(xlim=(0.5, 1.005), ylim=(max(0.0, lowest - 0.1), 1.02))
    figure.axes[0].set_title("One model, four aims: precision and recall on the test images", loc="left", fontsize=11)
    classifier.save(folder / "model", replace=True)
    written = write_report(folder, "Is it an 8? One model, four aims", summary, [sheet], {"precision_recall": figure})
    console.print("look at: " + "  ".join(str(path) for path in written))


def _digits() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 1, 8, 8) and whether each is an 8."""
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    return (digits.images[:, None] * (255 / 16)).astype(np.uint8), (digits.target == 8).astype(np.int64)


def _split(labels: NDArray[np.int64], seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Training at 50 to 1; the rest in two halves, for tuning and for the test."""
    import numpy as np

    rng = np.random.default_rng(seed)
    negatives, positives = (rng.permutation(np.flatnonzero(labels == c)) for c in (0, 1))
    first, second = (np.concatenate([negatives[_NEGATIVES:][i::2], positives[_POSITIVES:][i::2]]) for i in (0, 1))
    return np.concatenate([negatives[:_NEGATIVES], positives[:_POSITIVES]]), first, second


def _answer(
    classifier: LCTClassifier,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    name: str,
    aim: dict[str, Any],
    metric: str,
) -> _Answer:
    started = time.perf_counter()
    point = classifier.tune(**aim, name=name)
    elapsed = time.perf_counter() - started
    there = classifier.dial(images, labels).metrics([metric, "precision", "recall"], point)
    test, precision, recall = (there[m].value for m in (metric, "precision", "recall"))
    return _Answer(metric, point, test, precision, recall, 1000 * elapsed)


def _sheet(answers: list[_Answer]) -> Sheet:
    from lossdial.cli.report import Sheet

    rows = [
        (
            answer.point.name,
            *(f"{value:.2f}" for value in answer.point.lam.values()),
            f"{answer.point.threshold:.2f}",
            f"{answer.point.metrics[answer.metric].value:.3f}",
            f"{answer.test:.3f}",
            f"{answer.recall:.3f}",
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
