"""``lossdial tune`` and ``lossdial adapt``: choose again, without training."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lossdial import Bundle

__all__ = ["adapt", "labelled", "tune"]


def tune(
    run: str | None = None,
    /,
    data: str | None = None,
    maximize: str | None = None,
    minimize: str | None = None,
    subject_to: dict[str, float] | None = None,
    cost_fn: float | None = None,
    cost_fp: float | None = None,
    prevalence: float | None = None,
    name: str = "default",
    calibration: Literal["auto", "temperature", "platt", "beta"] | None = "auto",
    scores: str | None = None,
    target: str | None = None,
    score: str | None = None,
    score_is: Literal["probability", "margin"] | None = None,
    positive: str | None = None,
    groups: str | None = None,
    weight: str | None = None,
    out: str | None = None,
) -> None:
    """Choose λ and threshold for an aim, in milliseconds, and keep them under a name.

    The point is kept in the model RUN. With --scores in its place, the same is asked of somebody else's scores, and the
    point is written as JSON.

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
        Floors (recall, precision, ...) and caps (fpr, ...) to keep: --subject-to recall=0.95,fpr=0.2.
    cost_fn
        With --minimize expected_cost: the cost of a missed positive.
    cost_fp
        With --minimize expected_cost: the cost of a false alarm.
    prevalence
        With --minimize expected_cost: the share of positives where the model will be used. By default that of the data.
    name
        What to call the point; `lossdial predict --point NAME` uses it.
    calibration
        The map that makes probabilities of scores, kept with the point: by name, auto for the best, or none.
    scores
        In place of RUN: a table (CSV, Parquet or NPZ) of labels and scores, by any classifier.
    target
        With --scores: the column with the labels.
    score
        With --scores: the column with the scores, high where the positive label is likely.
    score_is
        With --scores: what they are. By default a probability where all lie in [0, 1], else a margin.
    positive
        With --scores: the label to look for. By default the rarer one.
    groups
        With --scores: a column that says which rows belong together, such as a patient's.
    weight
        With --scores: a column that says how much each row counts.
    out
        With --scores: the file to write. By default point.json.
    """
    from rich.console import Console

    from lossdial.cli.points import point_sheet

    if scores is not None:
        if run is not None or data is not None:
            raise UsageError("give RUN, with --data or without, or --scores; not both.")
        from lossdial.cli.scores import Columns, tune_scores

        columns = Columns(target, score, score_is, positive, groups, weight)
        aim = {"maximize": maximize, "minimize": minimize, "subject_to": subject_to, "cost_fn": cost_fn}
        aim |= {"cost_fp": cost_fp, "prevalence": prevalence}
        tune_scores(scores, columns, aim, name, calibration, out or "point.json")
        return
    if run is None:
        raise UsageError("RUN is needed, the folder that `lossdial train` wrote; or --scores, a file of scores.")
    given = {"target": target, "score": score, "score-is": score_is, "positive": positive}
    given |= {"groups": groups, "weight": weight, "out": out}
    if alone := [option for option, value in given.items() if value is not None]:
        raise UsageError(f"--{alone[0]} goes with --scores; a model knows its own.")
    from lossdial import Bundle, LCTClassifier

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
        calibration=None if calibration == "auto" else calibration,
    )
    sheet = point_sheet(point)  # computes the figures, which are part of the time
    elapsed = time.perf_counter() - started
    classifier.save(run)
    console = Console(soft_wrap=True)
    console.print(sheet)
    console.print(f"tuned in {1000 * elapsed:.0f} ms; kept in {run} as {name!r}. {_next(run, name)}")


def adapt(
    run: str,
    /,
    prevalence: float | None = None,
    cost_fn: float = 1.0,
    cost_fp: float = 1.0,
    unlabelled: str | None = None,
    data: str | None = None,
    name: str = "default",
) -> None:
    """Move to another prevalence and other costs, in closed form: no labels, no training.

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
    from rich.console import Console

    from lossdial import Bundle, LCTClassifier
    from lossdial.cli.points import point_sheet
    from lossdial.data import read_table

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
    console.print(point_sheet(point))
    console.print(f"kept in {run} as {name!r}. {_next(run, name)}")


def labelled(bundle: Bundle, data: str | None) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """X and y of a table, by the columns that training used, or of a folder per class of images; Nones without data."""
    from lossdial.data.sources import read_images, read_rows

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
