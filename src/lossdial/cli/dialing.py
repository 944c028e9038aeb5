"""``lossdial tune`` and ``lossdial adapt``: choose again, without training."""

from __future__ import annotations

import time
from typing import Any, Literal

from numpy.typing import NDArray
from rich.console import Console

from lossdial.bundle import Bundle
from lossdial.cli.report import Sheet
from lossdial.data import read_table
from lossdial.data.sources import read_images, read_rows
from lossdial.dial import OperatingPoint
from lossdial.estimator import LCTClassifier

__all__ = ["adapt", "labelled", "point_sheet", "tune"]


def tune(
    run: str,
    data: str | None = None,
    maximize: str | None = None,
    minimize: str | None = None,
    subject_to: dict[str, float] | None = None,
    cost_fn: float | None = None,
    cost_fp: float | None = None,
    prevalence: float | None = None,
    name: str = "default",
    calibration: Literal["temperature", "platt", "beta", "isotonic"] | None = None,
) -> None:
    """Choose λ and threshold for an aim, in milliseconds, and keep them in the model under a name.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    data
        A labelled table that training has not seen. By default the rows held out in training.
    maximize
        A metric, such as f1, auc, average_precision, balanced_accuracy, precision, recall.
    minimize
        A metric, such as brier, log_loss, fpr, expected_cost.
    subject_to
        Floors (recall, precision, ...) and caps (fpr, ...) to keep: --subject-to.recall 0.95 --subject-to.fpr 0.2.
    cost_fn
        With --minimize expected_cost: the cost of a missed positive.
    cost_fp
        With --minimize expected_cost: the cost of a false alarm.
    prevalence
        With --minimize expected_cost: the share of positives where the model will be used. By default that of the data.
    name
        What to call the point; `lossdial predict --point NAME` uses it.
    calibration
        Calibrate the probabilities at the chosen λ, and keep the map with the point.
    """
    bundle = Bundle.load(run)
    classifier = LCTClassifier.from_bundle(bundle)
    X, y = labelled(bundle, data)
    started = time.perf_counter()
    point = classifier.tune(
        X,
        y,
        maximize=maximize,
        minimize=minimize,
        subject_to=subject_to,
        cost_fn=cost_fn,
        cost_fp=cost_fp,
        prevalence=prevalence,
        name=name,
        calibration=calibration,
    )
    sheet = point_sheet(point)  # computes the figures, which are part of the time
    elapsed = time.perf_counter() - started
    classifier.save(run)
    console = Console(soft_wrap=True)
    console.print(sheet.rich())
    console.print(f"tuned in {1000 * elapsed:.0f} ms; kept in {run} as {name!r}. {_next(run, name)}")


def adapt(
    run: str,
    prevalence: float | None = None,
    cost_fn: float = 1.0,
    cost_fp: float = 1.0,
    unlabelled: str | None = None,
    data: str | None = None,
    name: str = "default",
) -> None:
    """Move to another prevalence and other costs, in closed form: no labels from there, no training.

    λ and threshold of least expected cost come from the ROC envelope over all λ, and probabilities are moved to the new
    prevalence.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    prevalence
        The share of positives where the model will be used.
    cost_fn
        The cost of a missed positive.
    cost_fp
        The cost of a false alarm.
    unlabelled
        In place of --prevalence: a table from there, without labels, to estimate it from.
    data
        A labelled table that training has not seen, to take the envelope from. By default the rows held out.
    name
        What to call the point; `lossdial predict --point NAME` uses it.
    """
    bundle = Bundle.load(run)
    classifier = LCTClassifier.from_bundle(bundle)
    console = Console(soft_wrap=True)
    X, y = labelled(bundle, data)
    if (prevalence is None) == (unlabelled is None):
        raise ValueError("give one of --prevalence and --unlabelled.")
    if prevalence is None:
        estimate = classifier.estimate_prevalence(bundle.encode(read_table(str(unlabelled))), X, y)
        prevalence = estimate.value
        console.print(f"prevalence in {unlabelled}: {estimate}")
    point = classifier.adapt(prevalence=prevalence, cost_fn=cost_fn, cost_fp=cost_fp, name=name, X=X, y=y)
    classifier.save(run)
    console.print(point_sheet(point).rich())
    console.print(f"kept in {run} as {name!r}. {_next(run, name)}")


def labelled(bundle: Bundle, data: str | None) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """X and y of a table, by the columns that training used, or of a folder per class of images; Nones without data."""
    if data is None:
        return None, None
    if "image_size" in bundle.training:
        negative, positive = bundle.training["class_names"]
        found = read_images(
            data,
            bundle.training["image_size"],
            (negative, positive),
            white=bundle.training["white"],
            label_column=bundle.training["settings"]["target"] or "label",
            max_corrupt=0.01,
        )
        return found.x, found.labels((negative, positive))
    rows = read_rows(data, bundle.training["target"])
    return bundle.encode(rows.frame), rows.labels(bundle.classes)


def _next(run: str, name: str) -> str:
    return f"Next: lossdial predict {run} --data … --out …" + (f" --point {name}" if name != "default" else "")


def point_sheet(point: OperatingPoint) -> Sheet:
    """A point's figures, on the data it was chosen on and cross-fitted."""
    lam = ", ".join(f"{name} {value:.3g}" for name, value in point.lam.items())
    rows = [(metric, str(estimate), str(point.crossfit.get(metric, ""))) for metric, estimate in point.metrics.items()]
    return Sheet(
        f"{point.name}: {point.objective}\nλ: {lam}   threshold: {point.threshold:.4g}",
        ("metric", "where it was chosen", "cross-fitted"),
        rows,
        f"{point.n_positive} positives, {point.n_negative} negatives; 95 % intervals. "
        "Cross-fitted: chosen on one half, measured on the other.",
    )
