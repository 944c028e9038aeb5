"""``lossdial monitor``: does a certificate still hold, outcomes coming in?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    from lossdial import Bundle
    from lossdial.cli.inputs import Inputs
    from lossdial.dial import Monitor, OperatingPoint

__all__ = ["monitor"]


def monitor(
    run: str,
    /,
    data: str | None = None,
    point: str = "default",
    alerts_only: bool = False,
    prevalence: float | None = None,
    precision: float | None = None,
    confidence: float = 0.95,
    target: str | None = None,
    group: str | None = None,
    path_column: str | None = None,
    state: str | None = None,
    restart: bool = False,
) -> None:
    """Show a certified point the outcomes that came since, and say if its certificate holds.

    Look as often as you like: the evidence is kept from call to call, and the chance of a false alarm, ever, is 1 less
    --confidence. Without --data it says where it stands.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    data
        The cases whose outcomes came since the last call, labelled. Calls are looked at in their order, the rows of one
        in a random order, so that a sorted file does no harm.
    point
        The operating point to watch, by name; it has a certificate (`lossdial tune --confidence 0.95`).
    alerts_only
        Only alerts get an outcome, the other labels may be missing: recall cannot be watched then, precision is.
    prevalence
        With --alerts-only: the share of positives at which the certificate's precision is watched.
    precision
        With --alerts-only: a floor on precision to watch, in place of the certificate's.
    confidence
        How sure to be before it is called broken.
    target
        The column with the labels. By default that of training.
    group
        A column that says which rows belong together, such as a patient's: one row of each is looked at.
    path_column
        In a table of image files: the column with their paths. By default path.
    state
        The file that keeps the evidence. By default one of its own in RUN/watch.
    restart
        Begin anew, and forget what was seen.
    """
    from rich.console import Console

    from lossdial import Bundle
    from lossdial.base.files import exclusive
    from lossdial.dial import Monitor

    bundle = Bundle.load(run)
    chosen = _point(bundle, run, point)
    fresh = Monitor.of(chosen, confidence, alerts_only, prevalence, precision)
    file = Path(state) if state is not None else Monitor.file(run, point)
    file.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(file.parent):
        current = fresh if restart or not file.exists() else Monitor.load(file)
        if not current.goes_on(fresh):
            raise UsageError(
                f"{file} watches something else: point {point!r} was tuned anew since, or other options were given. "
                "Give those of before, or --restart to begin anew."
            )
        current = replace(current, made_on=fresh.made_on, unmonitored=fresh.unmonitored)
        if data is not None:
            current = current.see(*_outcomes(bundle, chosen, data, target, group, path_column, alerts_only, current))
        current.save(file)
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"{point}: {chosen.certificate if precision is None else chosen.description}", markup=False)
    console.print(str(current), markup=False, style="bold red" if current.broken else None)
    told = (
        "Stop relying on it: label recent cases and tune anew." if current.broken else "Show it the outcomes that come."
    )
    console.print(f"kept in {file}. {told}", markup=False)


def _point(bundle: Bundle, run: str, name: str) -> OperatingPoint:
    from lossdial.base.errors import closest

    if name not in bundle.points:
        raise ValueError(f"{run} has no operating point {name!r}; {closest(name, bundle.points)}")
    return bundle.points[name]


def _outcomes(
    bundle: Bundle,
    point: OperatingPoint,
    data: str,
    target: str | None,
    group: str | None,
    path_column: str | None,
    alerts_only: bool,
    current: Monitor,
) -> tuple[Any, Any]:
    """Scores (k,) at the point's λ and outcomes (k,) in {0, 1}."""
    import numpy as np

    from lossdial.cli.inputs import Columns, read_inputs
    from lossdial.dial.certificates.evidence import one_of_each

    columns = Columns(target, group, path_column)
    inputs = read_inputs(bundle, data, columns, labelled=not alerts_only)
    scores = bundle.predictor.margins(bundle.predictor.features(inputs.X), point.lam)
    alerts = point.predict(scores)
    if alerts_only:
        y = _alerts_labelled(bundle, inputs, data, target, alerts)
    else:
        y = bundle.predictor.labels(inputs.labels)
        current.require_new(y, scores)
    keep = np.arange(len(scores)) if inputs.groups is None else one_of_each(inputs.groups, np.ones(len(y), bool), 0)
    return scores[keep], y[keep]


def _alerts_labelled(bundle: Bundle, inputs: Inputs, data: str, target: str | None, alerts: Any) -> Any:
    """Labels (n,) in {0, 1} of the alerts; those of other rows, which may be missing, are 0."""
    import numpy as np

    from lossdial.base.labels import match_labels
    from lossdial.cli.questions import column_of

    name = target or bundle.training.target
    if name is None:
        raise UsageError("this model was saved without the name of its labels' column: give --target COLUMN.")
    column = column_of(inputs.table, name, "--target", data).iloc[inputs.kept]
    missing = column.isna().to_numpy()
    if (missing & alerts).any():
        raise UsageError(
            f"--target {name} of {data} is empty for {int((missing & alerts).sum()):,} of {int(alerts.sum()):,} "
            "alerts: give those whose outcome is known. The others would look like failures."
        )
    y = np.zeros(len(column), dtype=np.int64)
    known = alerts & ~missing
    named = match_labels(column.to_numpy()[known], bundle.predictor.classes, f"--target {name} of {data}")
    y[known] = bundle.predictor.labels(named)
    return y
