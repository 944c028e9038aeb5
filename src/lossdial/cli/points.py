"""``lossdial points``: the operating points of a model, and how a point is shown."""

from __future__ import annotations

from math import inf, isinf
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import lossdial
from lossdial.base.errors import InputError
from lossdial.base.report import Sheet, show

if TYPE_CHECKING:
    from lossdial.dial import Estimate, OperatingPoint

_WIDTH: Final = 79
_UNCERTIFIED: Final = "not certified"
_CROSS_FITTED: Final = "Cross-fitted: chosen on one half, measured on the other."


def points(
    run: str,
    /,
    *,
    delete: list[str] | None = None,
    import_: str | None = None,
    prevalence: float | None = None,
    cost_fn: float | None = None,
    cost_fp: float | None = None,
) -> None:
    """List the operating points of a model, delete some, or import those of a page.

    For each point: its objective, λ, the threshold as a score, as the model's own probability and as the calibrated
    one, the figures that it was chosen by, and its certificate. With --prevalence also what the certificate says where
    such a share is positive.

    Parameters
    ----------
    delete
        The points to delete, by name: --delete clinic,screening.
    import_
        A file of points that an explorer page saved. They are somebody's choice, so an import certifies none.
    prevalence
        Say what every certificate means where this share is positive: precision, NPV, alert rate.
    cost_fn
        With --prevalence and --cost-fp: the cost of a missed positive, for a bound on the cost per case.
    """
    from lossdial.dial import NotCertified

    bundle = lossdial.Bundle.load(run)
    if import_ is not None:
        if delete:
            raise InputError("", "give one of {delete} and {import_}")
        show(_import(run, bundle, import_))
        return
    if delete:
        show(_delete(run, bundle, delete))
        return
    if prevalence is None and (cost_fn is not None or cost_fp is not None):
        raise InputError("", "{cost_fn} and {cost_fp} go with {prevalence}")
    for point in bundle.points.values():
        show(point_sheet(point, short=True))
        if prevalence is not None and point.certificate is None:
            show(f"{_UNCERTIFIED}: nothing holds for sure at another prevalence.")
        elif prevalence is not None:
            try:
                text = str(point.at(prevalence, cost_fn, cost_fp))
            except NotCertified as reason:  # a cap on alerts alone says nothing at another prevalence
                text = str(reason)
            show("\n".join(wrap(text, _WIDTH)))
        show("")
    text = f"{len(bundle.points)} point(s) in {run}. Next: lossdial evaluate {run} --data … measures them all"
    show(text)


def _delete(run: str, bundle: lossdial.Bundle, names: list[str]) -> str:
    """Delete points, and say which are left."""
    from lossdial.cli.inputs import point_of

    for name in names:  # all of them before the first is deleted
        point_of(bundle, run, name, "delete")
        if name == "default":
            raise InputError("delete", "must not name default, the point that `lossdial predict` uses; tune it anew")
    for name in dict.fromkeys(names):
        lossdial.Bundle.delete_point(run, name)
    left = [name for name in bundle.points if name not in names]
    return f"deleted from {run}: {', '.join(names)}. Left: {', '.join(left)}"


def _import(run: str, bundle: lossdial.Bundle, path: str) -> str:
    """Import the points of a file, and say what was done with each."""
    from lossdial.explorer import read_points

    new_points = read_points(path)
    if not new_points:
        raise InputError("import_", f"holds no point; name one on the page (Add), then save them: {path}")
    for point in new_points:
        bundle.predictor.lam(point.lam)  # a λ of another model is an error
    taken = bundle.take_up(new_points)
    if taken.new or taken.replaced:
        taken.bundle.save(run)
    outcomes = (("imported", taken.new), ("replaced", taken.replaced), ("known already", taken.known))
    return f"points of {run}: " + "; ".join(f"{what}: {', '.join(names)}" for what, names in outcomes if names)


def point_sheet(point: OperatingPoint, short: bool = False) -> Sheet:
    """A point's figures, on the data it was chosen on and cross-fitted; ``short`` shows those it was chosen by."""
    lam = ", ".join(f"{name} {value:.3g}" for name, value in point.lam.items())
    lines = [f"{point.name}: {point.description}", *([f"λ: {lam}"] if lam else [])]
    lines += wrap(f"threshold: {point.spelled_threshold}", _WIDTH) if point.lower is None else []  # else in the table
    lines += [point.note] if point.note else []
    title = "\n".join([*lines, *wrap(_certainty(point), _WIDTH)])
    if point.lower is not None:
        return Sheet(title, ("action", "where", "share of cases", "holds"), _actions(point), words=("where",))
    names = (point.crossfit or point.metrics) if short else point.metrics
    rows = [(name, str(point.metrics.get(name, "")), str(point.crossfit.get(name, ""))) for name in names]
    note = f"{point.n_positive} positives, {point.n_negative} negatives; 95 % intervals. {_CROSS_FITTED}"
    return Sheet(title, ("metric", "where it was chosen", "cross-fitted"), rows, "" if short else note)


def _certainty(point: OperatingPoint) -> str:
    """What holds on new data: the certificate, or else how likely the bounds are to hold."""
    if point.certificate is not None:
        return str(point.certificate)
    if not point.holding or point.holding == _UNCERTIFIED:
        return _UNCERTIFIED
    likely = point.holding.partition(" (")[0]
    return f"{_UNCERTIFIED}; how sure: {likely} (`lossdial tune --confidence 0.95` makes sure)"


def _actions(point: OperatingPoint) -> list[tuple[str, str, str, str]]:
    """For a point with two cuts: where each action is taken, on which share of cases, and what is certified."""
    from lossdial.dial.points import spell_threshold

    certified = {bound.metric: str(bound) for bound in (point.certificate.bounds if point.certificate else ())}
    lower = -inf if point.lower is None else point.lower
    clear = "nothing" if isinf(lower) else f"score <= {spell_threshold(lower)}"
    act = "nothing" if isinf(point.threshold) else f"score > {spell_threshold(point.threshold)}"
    shares = {name: _percent(share) for name, share in point.metrics.items()}
    return [
        ("clear", clear, shares.get("cleared", ""), certified.get("npv", "")),
        ("refer", "between", shares.get("referred", ""), ""),
        ("act", act, shares.get("acted", ""), certified.get("precision", "")),
    ]


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.3g} % [{100 * share.low:.3g}, {100 * share.high:.3g}]"
