"""``lossdial tune`` and ``lossdial adapt``: choose again, without training."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    from lossdial import Bundle, Dial, Lam
    from lossdial.dial import Estimate, OperatingPoint

__all__ = ["adapt", "dial_with_points", "grid_with_points", "labelled_dial", "tune"]


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
    confidence: float | None = None,
    target: str | None = None,
    group: str | None = None,
    path_column: str | None = None,
    scores: str | None = None,
    score: str | None = None,
    score_is: Literal["probability", "margin"] | None = None,
    positive: str | None = None,
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
        Labelled data that training has not seen: a table, a folder with one folder of images per class, a table of
        image paths, or a data set by name. By default the samples held out in training.
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
    confidence
        Certify the floor on recall: it holds on new data with this probability, such as 0.95.
    target
        The column with the labels. By default that of training.
    group
        A column that says which rows belong together, such as a patient's.
    path_column
        In a table of image files: the column with their paths. By default path.
    scores
        In place of RUN: a table (CSV, Parquet or NPZ) of labels and scores, by any classifier.
    score
        With --scores: the column with the scores, high where the positive label is likely.
    score_is
        With --scores: what they are. By default a probability where all lie in [0, 1], else a margin.
    positive
        With --scores: the label to look for. By default the rarer one.
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

        columns = Columns(target, score, score_is, positive, group, weight)
        aim = {"maximize": maximize, "minimize": minimize, "subject_to": subject_to, "cost_fn": cost_fn}
        aim |= {"cost_fp": cost_fp, "prevalence": prevalence}
        tune_scores(scores, columns, aim | {"confidence": confidence}, name, calibration, out or "point.json")
        return
    if run is None:
        raise UsageError("RUN is needed, the folder that `lossdial train` wrote; or --scores, a file of scores.")
    alone = {"score": score, "score-is": score_is, "positive": positive, "weight": weight, "out": out}
    if given := [option for option, value in alone.items() if value is not None]:
        raise UsageError(f"--{given[0]} goes with --scores; a model knows its own.")
    from lossdial import Bundle, Objective

    aim_ = Objective(maximize, minimize, subject_to or {}, cost_fn, cost_fp, prevalence)
    bundle = Bundle.load(run)
    dial = labelled_dial(bundle, data, target, group, path_column)
    started = time.perf_counter()
    point = dial.tune(aim=aim_, name=name, calibration=calibration, confidence=confidence)
    sheet = point_sheet(point)  # computes the figures, which are part of the time
    elapsed = time.perf_counter() - started
    bundle.with_point(point).save(run)
    console = Console(soft_wrap=True, highlight=False)
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
    target: str | None = None,
    group: str | None = None,
    path_column: str | None = None,
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
        In place of --prevalence: rows or images from there, without labels, to estimate it from.
    data
        Labelled data that training has not seen, to take the envelope from. By default the samples held out.
    target
        The column with the labels. By default that of training.
    group
        A column that says which rows belong together, such as a patient's.
    path_column
        In a table of image files: the column with their paths. By default path.
    name
        What to call the point; `lossdial predict --point NAME` uses it.
    """
    from rich.console import Console

    from lossdial import Bundle
    from lossdial.cli.points import point_sheet

    if (prevalence is None) == (unlabelled is None):
        raise UsageError("give one of --prevalence and --unlabelled.")
    bundle = Bundle.load(run)
    console = Console(soft_wrap=True, highlight=False)
    if data is None and prevalence is not None:
        point = bundle.adapt(prevalence=prevalence, cost_fn=cost_fn, cost_fp=cost_fp, name=name)
    else:
        dial = labelled_dial(bundle, data, target, group, path_column if data is not None else None)
        if unlabelled is not None:
            estimate = _estimate(bundle, dial, unlabelled, path_column)
            prevalence = estimate.value
            console.print(f"prevalence in {unlabelled}: {estimate}", markup=False)
        point = dial.adapt(prevalence=prevalence or 0.0, cost_fn=cost_fn, cost_fp=cost_fp, name=name)
    bundle.with_point(point).save(run)
    console.print(point_sheet(point))
    console.print(f"kept in {run} as {name!r}. {_next(run, name)}")


def labelled_dial(
    bundle: Bundle, data: str | None, target: str | None, group: str | None, path_column: str | None
) -> Dial:
    """The dial over labelled data, or over the samples that were held out."""
    from lossdial.cli.inputs import Columns, read_inputs

    if data is None:
        if given := [o for o, v in (("target", target), ("group", group), ("path-column", path_column)) if v]:
            raise UsageError(f"--{given[0]} names a column of --data, which is not given.")
        return bundle.held_out()
    inputs = read_inputs(bundle, data, Columns(target, group, path_column), labelled=True)
    return bundle.dial(inputs.X, inputs.labels, groups=inputs.groups)


def dial_with_points(
    bundle: Bundle, data: str | None, target: str | None, group: str | None, path_column: str | None
) -> tuple[Dial, list[OperatingPoint]]:
    """The dial over the grid of λ and those of the points, and the points that it can judge."""
    from lossdial.cli.inputs import Columns, read_inputs
    from lossdial.cli.report import note

    points = list(bundle.points.values())
    if data is None:
        dial = labelled_dial(bundle, None, target, group, path_column)
        known = [dict(lam) for lam in dial.lams]
        for point in points:
            if dict(point.lam) not in known:
                note(f"{point.name} is left out: of held-out samples no scores at its λ are kept. Give --data.")
        return dial, [point for point in points if dict(point.lam) in known]
    inputs = read_inputs(bundle, data, Columns(target, group, path_column), labelled=True)
    return bundle.dial(inputs.X, inputs.labels, groups=inputs.groups, lams=grid_with_points(bundle)), points


def grid_with_points(bundle: Bundle) -> Lam:
    """The grid of λ that a dial has, and the λ of the points where they are others."""
    import json

    from lossdial.predictor import dial_grid

    space = bundle.predictor.space
    grid = [lam.as_dict() for lam in dial_grid(space)]
    own = [dict(point.lam) for point in bundle.points.values() if dict(point.lam) not in grid]
    return space.stack([*grid, *{json.dumps(lam): lam for lam in own}.values()])


def _estimate(bundle: Bundle, dial: Dial, unlabelled: str, path_column: str | None) -> Estimate:
    """The share of positives among unlabelled samples, at the λ of the default point or the nearest that is known."""
    from lossdial.cli.inputs import Columns, read_inputs

    point = bundle.points["default"]
    if dict(point.lam) not in [dict(lam) for lam in dial.lams]:
        raise ValueError(
            "the λ of the default point is none of those whose held-out scores are kept; give --data, labelled."
        )
    inputs = read_inputs(bundle, unlabelled, Columns(path=path_column), labelled=False)
    scores = bundle.predictor.margins(bundle.predictor.features(inputs.X), point.lam)
    return dial.estimate_prevalence(scores, point)


def _next(run: str, name: str) -> str:
    return f"Next: lossdial predict {run} --data … --out …" + (f" --point {name}" if name != "default" else "")
