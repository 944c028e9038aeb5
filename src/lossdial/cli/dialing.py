"""``lossdial tune`` and ``lossdial adapt``: choose again, without training."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from lossdial import Bundle, Dial, Lam
    from lossdial.cli.inputs import Inputs
    from lossdial.dial import OperatingPoint

__all__ = ["adapt", "dial_with_points", "grid_with_points", "judging", "labelled_dial", "tune"]


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
    calibration: Literal["auto", "temperature", "platt", "beta", "isotonic"] | None = "auto",
    confidence: float | None = None,
    jointly: int = 1,
    by: str | None = None,
    refer: dict[str, float] | None = None,
    alerts_per_day: float | None = None,
    volume: list[float] | None = None,
    unlabelled: str | None = None,
    group_new: str | None = None,
    sample_size: bool = False,
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

    With --confidence the bounds hold on new data, and the point carries the certificate. --refer chooses two thresholds
    in place of one: clear below, act above, and a person looks at what lies between.

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
        Certify the bounds: they hold on new data with this probability, such as 0.95.
    jointly
        With --confidence: how many certificates of these data are asked for, so that all of them hold at once with it.
    by
        With --confidence: a column (sex, site, scanner); the floor on recall then holds in every part of it.
    refer
        Choose a band to refer to a person: --refer npv=0.995,precision=0.5 --prevalence 0.02 --name triage.
    alerts_per_day
        At most so many alerts a day on average, where --volume cases come a day.
    volume
        With --alerts-per-day: how many cases come a day; where that varies, how many came on each of some days:
        --volume 912,1104,870,…
    unlabelled
        With --alerts-per-day: cases as they come, without labels, to certify the cap on.
    group_new
        With --unlabelled: its column that says which rows belong together, such as a patient's.
    price
        Choose nothing; say how many positives certifying --subject-to recall=… takes, and what to expect of it.
    target
        The column with the labels. By default that of training.
    group
        A column that says which rows belong together, such as a patient's.
    path_column
        In a table of image files: the column with their paths. By default path.
    scores
        In place of RUN: a table (CSV, TSV, JSON lines, Parquet or NPZ) of labels and scores, by any classifier.
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
    from lossdial.cli.questions import Question, budget, column_of

    question = Question(
        name=name,
        calibration=calibration,
        maximize=maximize,
        minimize=minimize,
        subject_to=subject_to or {},
        cost_fn=cost_fn,
        cost_fp=cost_fp,
        prevalence=prevalence,
        confidence=confidence,
        jointly=jointly,
        refer=refer,
        alerts_per_day=alerts_per_day,
        volume=volume,
        sample_size=sample_size,
    )
    if scores is not None:
        if run is not None or data is not None:
            raise UsageError("give RUN, with --data or without, or --scores; not both.")
        from lossdial.cli.scores import Columns, tune_scores

        if unlabelled is not None:
            raise UsageError("--unlabelled goes with RUN; with --scores the cap is certified on all its rows.")
        if group_new is not None:
            raise UsageError("--group-new goes with --unlabelled; with --scores give --group.")
        tune_scores(
            scores, Columns(target, score, score_is, positive, group, weight, by), question, out or "point.json"
        )
        return
    if run is None:
        raise UsageError("RUN is needed, the folder that `lossdial train` wrote; or --scores, a file of scores.")
    alone = {"score": score, "score-is": score_is, "positive": positive, "weight": weight, "out": out}
    if given := [option for option, value in alone.items() if value is not None]:
        raise UsageError(f"--{given[0]} goes with --scores; a model knows its own.")
    from lossdial import Bundle
    from lossdial.dial import SampleSize

    if unlabelled is not None and alerts_per_day is None:
        raise UsageError("--unlabelled goes with --alerts-per-day and --volume, the cap to certify on it.")
    if group_new is not None and unlabelled is None:
        raise UsageError("--group-new names a column of --unlabelled, which is not given.")
    if by is not None and data is None:
        raise UsageError("--by names a column of --data, which is not given.")
    console = Console(soft_wrap=True, highlight=False)
    bundle = Bundle.load(run)
    dial, table = labelled_dial(bundle, data, target, group, path_column)
    parts = None if by is None else column_of(table, by, "--by", str(data)).to_numpy()
    started = time.perf_counter()
    if unlabelled is not None:
        found: OperatingPoint | SampleSize = budget(bundle, dial, unlabelled, path_column, group_new, question)
    else:
        found = question.ask(dial, parts)
    if isinstance(found, SampleSize):
        console.print(str(found), markup=False)
        return
    sheet = point_sheet(found)  # computes the figures, which are part of the time
    bundle.with_point(found).save(run)
    console.print(sheet)
    if question.busy and unlabelled is None:
        console.print(f"{question.busy}.", markup=False)
    elapsed = time.perf_counter() - started
    console.print(f"tuned in {1000 * elapsed:.0f} ms; kept in {run} as {name!r}. {_next(run, name)}")


def adapt(
    run: str,
    /,
    prevalence: float | None = None,
    cost_fn: float = 1.0,
    cost_fp: float = 1.0,
    unlabelled: str | None = None,
    group_new: str | None = None,
    data: str | None = None,
    target: str | None = None,
    group: str | None = None,
    path_column: str | None = None,
    name: str = "default",
    confidence: float | None = None,
) -> None:
    """Move to another prevalence and other costs, by a look-up: no labels, no training.

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
        In place of --prevalence: rows or images from there, without labels, to estimate it from. Where no share of
        positives explains their scores, because something else has changed too, this declines and says what moved.
    group_new
        With --unlabelled: its column that says which rows belong together, such as a patient's.
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
    confidence
        Certify recall and FPR of the point anew, on samples set aside: they hold with this probability. Without, the
        point is not certified.
    """
    from rich.console import Console

    from lossdial import Bundle
    from lossdial.base.errors import warn
    from lossdial.cli.points import point_sheet
    from lossdial.cli.questions import probed

    if (prevalence is None) == (unlabelled is None):
        raise UsageError("give one of --prevalence and --unlabelled.")
    if group_new is not None and unlabelled is None:
        raise UsageError("--group-new names a column of --unlabelled, which is not given.")
    bundle = Bundle.load(run)
    console = Console(soft_wrap=True, highlight=False)
    if data is None and prevalence is not None and confidence is None:
        point = bundle.adapt(prevalence=prevalence, cost_fn=cost_fn, cost_fp=cost_fp, name=name)
    else:
        dial, _ = labelled_dial(bundle, data, target, group, path_column if data is not None else None)
        new = None if unlabelled is None else probed(bundle, dial, unlabelled, path_column, group_new)
        if new is not None and new.spent:
            warn(f"--unlabelled {unlabelled}: {new.spent}, so their scores are not those of new cases.")
        point = dial.adapt(
            prevalence=prevalence,
            cost_fn=cost_fn,
            cost_fp=cost_fp,
            name=name,
            score_new=None if new is None else new.scores,
            groups_new=None if new is None else new.groups,
            point="default" if new is None else new.point,
            confidence=confidence,
        )
        if new is not None:
            fit = dial.fit_mixture(new.scores, new.point, new.groups)
            console.print(f"prevalence in {unlabelled}: {fit.share}", markup=False)
            console.print(fit.blind, markup=False)
    bundle.with_point(point).save(run)
    console.print(point_sheet(point))
    console.print(f"kept in {run} as {name!r}. {_next(run, name)}")


def labelled_dial(
    bundle: Bundle, data: str | None, target: str | None, group: str | None, path_column: str | None
) -> tuple[Dial, pd.DataFrame | None]:
    """The dial over labelled data, with their table; or over the samples that were held out."""
    from lossdial.cli.inputs import Columns, read_inputs

    if data is None:
        if given := [o for o, v in (("target", target), ("group", group), ("path-column", path_column)) if v]:
            raise UsageError(f"--{given[0]} names a column of --data, which is not given.")
        return bundle.held_out(), None
    inputs = read_inputs(bundle, data, Columns(target, group, path_column), labelled=True)
    return bundle.dial(inputs.X, inputs.labels, groups=inputs.groups), inputs.table.iloc[inputs.kept]


def dial_with_points(
    bundle: Bundle, data: str | None, target: str | None, group: str | None, path_column: str | None
) -> tuple[Dial, list[OperatingPoint]]:
    """The dial over the grid of λ and those of the points, and the points that it can judge."""
    return judging(bundle, data, target, group, path_column)[:2]


def judging(
    bundle: Bundle, data: str | None, target: str | None, group: str | None, path_column: str | None
) -> tuple[Dial, list[OperatingPoint], Inputs | None]:
    """The dial over the grid of λ and those of the points, the points that it can judge, and what was read."""
    from lossdial.base.errors import warn
    from lossdial.cli.inputs import Columns, read_inputs

    points = list(bundle.points.values())
    if data is None:
        dial, _ = labelled_dial(bundle, None, target, group, path_column)
        known = [dict(lam) for lam in dial.lams]
        for point in points:
            if dict(point.lam) not in known:
                warn(f"{point.name} is left out: of held-out samples no scores at its λ are kept. Give --data.")
        return dial, [point for point in points if dict(point.lam) in known], None
    inputs = read_inputs(bundle, data, Columns(target, group, path_column), labelled=True)
    return bundle.dial(inputs.X, inputs.labels, groups=inputs.groups, lams=grid_with_points(bundle)), points, inputs


def grid_with_points(bundle: Bundle) -> Lam:
    """The grid of λ that a dial has, and the λ of the points where they are others."""
    import json

    from lossdial.bundle.predictor import dial_grid

    space = bundle.predictor.space
    grid = [lam.as_dict() for lam in dial_grid(space)]
    own = [dict(p.lam) for p in bundle.points.values() if dict(p.lam) not in grid]
    return space.stack([*grid, *{json.dumps(lam): lam for lam in own}.values()])


def _next(run: str, name: str) -> str:
    return f"Next: lossdial predict {run} --data … --out …" + (f" --point {name}" if name != "default" else "")
