"""The commands for new cases: predict scores them, and monitor looks at their outcomes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lossdial
from lossdial.base.errors import InputError, warn
from lossdial.base.report import show
from lossdial.cli.options import Columns

if TYPE_CHECKING:
    import pandas as pd

    from lossdial.cli.inputs import ModelInputs
    from lossdial.dial import Monitor, OperatingPoint


def predict(
    run: str,
    /,
    *,
    data: str,
    out: str,
    point: str = "default",
    path_column: str | None = None,
    cost_fn: str | None = None,
    cost_fp: str | None = None,
) -> None:
    """Score new rows, or new images, with a trained model.

    The table --out is the input with two more columns: `probability` of the positive label, at the λ of the operating
    point, and `prediction`, by its threshold; a point with two thresholds says clear, refer or act. For images it has a
    row for each file; a file that cannot be read has no prediction, and a column `note` says why.

    Parameters
    ----------
    data
        The table to score (CSV, TSV, JSON lines, Parquet or NPZ), a folder of images, a table of their paths, or a data
        set by name.
    out
        The table to write (CSV or Parquet).
    point
        The operating point to use, by the name that `lossdial tune --name` gave it.
    cost_fn
        What a miss costs, a number or a column of --data: each case then has a threshold of its own, by the point's
        probabilities.
    cost_fp
        With --cost-fn: what a false alarm costs, a number or a column of --data.
    """
    import numpy as np
    import pandas as pd

    from lossdial.base.files import require_writable
    from lossdial.cli.inputs import case_amounts, point_of, read_inputs

    target = Path(out)
    if target.suffix not in (".csv", ".parquet"):
        raise InputError("out", "must end in .csv or .parquet", got=out)
    if target.exists() and Path(data).exists() and target.samefile(data):
        raise InputError("out", "must be another file than {data}", got=out)
    require_writable(target)
    bundle = lossdial.Bundle.load(run)
    chosen = point_of(bundle, run, point)
    if chosen.lower is not None and cost_fn is not None:
        raise InputError("cost_fn", f"goes with a point of one threshold; {point} has two")
    inputs = read_inputs(bundle, data, Columns(path_column=path_column), labelled=False)
    if taken := [name for name in ("probability", "prediction") if name in inputs.table]:
        warn(f"{data} has a column {' and '.join(taken)} already; in {out} it is this model's.")
    predictor, rows = bundle.predictor, inputs.rows
    costs = case_amounts(rows, cost_fn, cost_fp, data)
    decisions = predictor.decide(predictor.features(inputs.X), chosen, costs)
    if decisions.action is not None:
        prediction = decisions.action
        clear, refer, act = (int((prediction == action).sum()) for action in ("clear", "refer", "act"))
        summary = f"{clear:,} to clear, {refer:,} to refer to a person, {act:,} to act on"
    else:
        prediction = np.array(predictor.classes)[decisions.positive.astype(int)]
        own = ", each by a threshold of its own" if costs is not None else ""
        summary = f"{int(decisions.positive.sum()):,} flagged {predictor.classes[1]}{own}"
    scored = inputs.table.assign(
        probability=pd.Series(decisions.probability, index=rows.index),
        prediction=pd.Series(prediction, index=rows.index),
    )
    unread = ""
    if inputs.unreadable:
        scored = scored.assign(note=[inputs.unreadable.get(i, "") for i in range(len(scored))])
        unread = f", {len(inputs.unreadable):,} could not be read (see the column note)"
    _write(scored, target)
    show(f"{len(inputs.kept):,} scored at point {point!r}, {summary}{unread}; in {out}")


def _write(frame: pd.DataFrame, target: Path) -> None:
    from lossdial.base.files import replacing

    with replacing(target) as temporary:
        if target.suffix == ".csv":
            frame.to_csv(temporary, index=False)
        else:
            frame.to_parquet(temporary, index=False)


def monitor(
    run: str,
    /,
    *,
    data: str | None = None,
    point: str = "default",
    alerts_only: bool = False,
    prevalence: float | None = None,
    precision: float | None = None,
    confidence: float = 0.95,
    restart: bool = False,
    columns: Columns,
) -> None:
    """Show a certified point new outcomes, and say if its certificate still holds.

    Call it as often as you like: the evidence is kept in RUN/monitor from call to call, and the chance of ever raising
    a false alarm is at most 1 less --confidence. Without --data it says how the certificate stands.

    Parameters
    ----------
    data
        The labelled cases whose outcomes came since the last call. Give calls in the order in which outcomes come; the
        rows of one call are taken in a random order, so that a sorted file does no harm.
    point
        The operating point to monitor, by name; it has a certificate (`lossdial tune --confidence 0.95`).
    alerts_only
        Only alerts get an outcome, and other labels may be missing: recall cannot be monitored then, precision is.
    prevalence
        With --alerts-only: the share of positives at which the certificate's precision is monitored.
    precision
        With --alerts-only: a floor on precision to monitor, in place of the certificate's.
    confidence
        How sure to be before the certificate is called broken.
    restart
        Begin anew, and forget what was seen.
    """
    from lossdial.base.files import exclusive
    from lossdial.cli.inputs import point_of
    from lossdial.dial import Monitor

    bundle = lossdial.Bundle.load(run)
    chosen = point_of(bundle, run, point)
    fresh = Monitor.of(chosen, confidence, alerts_only, prevalence, precision)
    file = Monitor.file(run, point)
    file.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(file.parent):
        current = fresh if restart or not file.exists() else Monitor.load(file)
        if not current.continues(fresh):
            problem = f"point {point!r} was tuned anew since, or other options were given: {file} monitors another"
            raise InputError("", problem, remedy="Give the former options, or {restart} to begin anew.")
        current = replace(current, made_on=fresh.made_on, unmonitored=fresh.unmonitored)
        if data is not None:
            current = current.see(*_outcomes(bundle, chosen, data, columns, alerts_only, current))
        current.save(file)
    show(f"{point}: {chosen.certificate if precision is None else chosen.description}")
    show(str(current), style="bold red" if current.broken else None)
    advice = "Show it the outcomes that come."
    if current.broken:
        advice = "Stop relying on it: label recent cases and tune anew."
    show(f"kept in {file}. {advice}")


def _outcomes(
    bundle: lossdial.Bundle, point: OperatingPoint, data: str, columns: Columns, alerts_only: bool, current: Monitor
) -> tuple[Any, Any]:
    """Scores (k,) at the point's λ and outcomes (k,) in {0, 1}, of one row of each group."""
    import numpy as np

    from lossdial.cli.inputs import read_inputs
    from lossdial.dial.certificates.evidence import one_of_each

    inputs = read_inputs(bundle, data, columns, labelled=not alerts_only)
    scores = bundle.predictor.margins(bundle.predictor.features(inputs.X), point.lam)
    if alerts_only:
        y = _alerts_labelled(bundle, inputs, data, columns.target, point.predict(scores))
    else:
        y = bundle.predictor.labels(inputs.y)
        current.require_new(y, scores)
    rows = np.arange(len(scores)) if inputs.groups is None else one_of_each(inputs.groups, np.ones(len(y), bool), 0)
    return scores[rows], y[rows]


def _alerts_labelled(bundle: lossdial.Bundle, inputs: ModelInputs, data: str, target: str | None, alerts: Any) -> Any:
    """Labels (n,) in {0, 1} of the alerts; those of other rows, which may be missing, are 0."""
    import numpy as np

    from lossdial.base.labels import match_labels
    from lossdial.cli.inputs import column_of, require_target

    name = require_target(bundle, target, inputs.table)
    column = column_of(inputs.rows, name, "target", data, gaps=True)
    unknown = column.isna().to_numpy() & alerts
    if unknown.any():
        problem = f"{name} of {data} is empty for {int(unknown.sum()):,} of {int(alerts.sum()):,} alerts"
        remedy = "Give those whose outcome is known; the others would look like failures."
        raise InputError("target", problem, remedy=remedy)
    y = np.zeros(len(column), dtype=np.int64)
    named = match_labels(column.to_numpy()[alerts], bundle.predictor.classes, f"--target {name} of {data}")
    y[alerts] = bundle.predictor.labels(named)
    return y
