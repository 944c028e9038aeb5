"""``lossdial monitor``: does a certificate still hold, as outcomes come in?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossdial.base.errors import InputError
from lossdial.base.report import show
from lossdial.cli.options import Columns

if TYPE_CHECKING:
    from lossdial import Bundle
    from lossdial.cli.inputs import ModelInputs
    from lossdial.dial import Monitor, OperatingPoint

__all__ = ["monitor"]


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
    state: str | None = None,
    restart: bool = False,
    columns: Columns,
) -> None:
    """Show a certified point new outcomes, and say if its certificate still holds.

    Call it as often as you like: the evidence is kept from call to call, and the chance of ever raising a false alarm
    is at most 1 less --confidence. Without --data it says how the certificate stands.

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
    state
        The file that keeps the evidence. By default one of its own in RUN/monitor.
    restart
        Begin anew, and forget what was seen.
    """
    from lossdial import Bundle
    from lossdial.base.files import exclusive
    from lossdial.cli.inputs import point_of
    from lossdial.dial import Monitor

    bundle = Bundle.load(run)
    chosen = point_of(bundle, run, point)
    fresh = Monitor.of(chosen, confidence, alerts_only, prevalence, precision)
    file = Path(state) if state is not None else Monitor.file(run, point)
    file.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(file.parent):
        current = fresh if restart or not file.exists() else Monitor.load(file)
        if not current.continues(fresh):
            raise InputError(
                "state",
                f"monitors something else: point {point!r} was tuned anew since, or other options were given",
                got=str(file),
                remedy="Give the former options, or {restart} to begin anew.",
            )
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
    bundle: Bundle, point: OperatingPoint, data: str, columns: Columns, alerts_only: bool, current: Monitor
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
        y = bundle.predictor.labels(inputs.labels)
        current.require_new(y, scores)
    rows = np.arange(len(scores)) if inputs.groups is None else one_of_each(inputs.groups, np.ones(len(y), bool), 0)
    return scores[rows], y[rows]


def _alerts_labelled(bundle: Bundle, inputs: ModelInputs, data: str, target: str | None, alerts: Any) -> Any:
    """Labels (n,) in {0, 1} of the alerts; those of other rows, which may be missing, are 0."""
    import numpy as np

    from lossdial.base.labels import match_labels
    from lossdial.cli.inputs import column_of, require_target

    name = require_target(bundle, target, inputs.table)
    column = column_of(inputs.table, name, "target", data, gaps=True).iloc[inputs.kept]
    missing = column.isna().to_numpy()
    if (missing & alerts).any():
        raise InputError(
            "target",
            f"{name} of {data} is empty for {int((missing & alerts).sum()):,} of {int(alerts.sum()):,} alerts",
            remedy="Give those whose outcome is known; the others would look like failures.",
        )
    y = np.zeros(len(column), dtype=np.int64)
    known = alerts & ~missing
    named = match_labels(column.to_numpy()[known], bundle.predictor.classes, f"--target {name} of {data}")
    y[known] = bundle.predictor.labels(named)
    return y
