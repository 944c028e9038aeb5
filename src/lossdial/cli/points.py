"""``lossdial points``: the operating points of a model, and how one is shown."""

from __future__ import annotations

from math import inf, isinf
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from lossdial.cli.values import UsageError
from lossdial.cli.wording import in_words

if TYPE_CHECKING:
    from lossdial import Bundle
    from lossdial.base.report import Sheet
    from lossdial.dial import Estimate, OperatingPoint

__all__ = ["point_sheet", "points", "promise"]

_WIDTH: Final = 79
UNCERTIFIED: Final = "not certified"


def points(
    run: str,
    /,
    delete: list[str] | None = None,
    import_: str | None = None,
    prevalence: float | None = None,
    cost_fn: float | None = None,
    cost_fp: float | None = None,
) -> None:
    """List the operating points of a model, delete some, or take up those of a page.

    Of each: its aim, λ, the threshold as a score, as the model's own probability and as the
    calibrated one, the figures that it was chosen by, and its
    certificate; with --prevalence also what that promises where such a share is positive.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    delete
        The points to delete, by name: --delete clinic,screening.
    import_
        A file of points that an explorer page saved. They are somebody's choice: none is certified by that.
    prevalence
        Say what every certificate promises where this share is positive: precision, NPV, alert rate.
    cost_fn
        With --prevalence: the cost of a missed positive, for a cap on the cost per case.
    cost_fp
        With --prevalence: the cost of a false alarm.
    """
    from rich.console import Console

    from lossdial import Bundle
    from lossdial.base.errors import closest
    from lossdial.dial import NotCertified

    console = Console(soft_wrap=True, highlight=False)
    bundle = Bundle.load(run)
    if import_ is not None:
        if delete:
            raise UsageError("give one of --delete and --import.")
        console.print(_take(run, bundle, import_), markup=False)
        return
    if delete:
        there = list(bundle.points)
        for name in delete:  # all of them before the first is deleted
            if name not in there:
                raise ValueError(f"{run} has no operating point {name!r}; {closest(name, there)}")
            if name == "default":
                raise ValueError("default is the point that `predict` uses; it can be tuned anew, not deleted.")
        for name in dict.fromkeys(delete):
            Bundle.delete_point(run, name)
        left = [name for name in there if name not in delete]
        console.print(f"deleted from {run}: {', '.join(delete)}. Left: {', '.join(left)}", markup=False)
        return
    if prevalence is None and (cost_fn is not None or cost_fp is not None):
        raise UsageError("--cost-fn and --cost-fp go with --prevalence.")
    for point in bundle.points.values():
        console.print(_listed(point))
        if prevalence is not None and point.certificate is None:
            console.print("not certified: nothing holds for sure at another prevalence.", markup=False)
        elif prevalence is not None:
            try:
                promised = str(point.at(prevalence, cost_fn, cost_fp))
            except NotCertified as reason:  # a cap on alerts alone does not travel
                promised = f"{reason}"
            console.print("\n".join(wrap(promised, _WIDTH)), markup=False)
        console.print()
    text = f"{len(bundle.points)} point(s) in {run}. Next: lossdial evaluate {run} --data … measures them all"
    console.print(text, markup=False)


def _take(run: str, bundle: Bundle, path: str) -> str:
    """Take up the points of a file, and say what became of each."""
    from lossdial.explorer import read_points

    found = read_points(path)
    if not found:
        raise ValueError(f"{path} holds no point; name one on the page (Add), then save them.")
    for point in found:
        bundle.predictor.lam(point.lam)  # a λ of another model is an error
    taken = bundle.take_up(found)
    if taken.new or taken.replaced:
        taken.bundle.save(run)
    told = (("taken", taken.new), ("put in the place of another", taken.replaced), ("there already", taken.known))
    return f"points of {run}: " + "; ".join(f"{what}: {', '.join(names)}" for what, names in told if names)


def point_sheet(point: OperatingPoint) -> Sheet:
    """A point's figures, on the data it was chosen on and cross-fitted."""
    from lossdial.base.report import Sheet

    if point.lower is not None:
        return _actions(point)
    note = (
        f"{point.n_positive} positives, {point.n_negative} negatives; 95 % intervals. "
        "Cross-fitted: chosen on one half, measured on the other."
    )
    return Sheet(_title(point), _COLUMNS, _rows(point, list(point.metrics)), note)


_COLUMNS = ("metric", "where it was chosen", "cross-fitted")


def _listed(point: OperatingPoint) -> Sheet:
    """The same in short: of the figures, those that the point was chosen by."""
    from lossdial.base.report import Sheet

    if point.lower is not None:
        return _actions(point)
    return Sheet(_title(point), _COLUMNS, _rows(point, list(point.crossfit or point.metrics)))


def _title(point: OperatingPoint) -> str:
    lam = ", ".join(f"{name} {value:.3g}" for name, value in point.lam.items())
    lines = [f"{point.name}: {point.description}", *([f"λ: {lam}"] if lam else [])]
    lines += [*wrap(f"threshold: {point.spelled_threshold}", _WIDTH), *([point.note] if point.note else [])]
    return "\n".join([*lines, *wrap(promise(point), _WIDTH)])


def promise(point: OperatingPoint) -> str:
    """What holds on new data: the certificate, or how likely the bounds do."""
    if point.certificate is not None:
        return str(point.certificate)
    if not point.holding or point.holding == UNCERTIFIED:
        return UNCERTIFIED
    return f"{UNCERTIFIED}; how sure: {in_words(point.holding, ['confidence'])}"


def _actions(point: OperatingPoint) -> Sheet:
    """The actions of a point with two cuts, their bounds, and the workload."""
    from lossdial.base.report import Sheet
    from lossdial.dial.points import spell_threshold

    bounds = () if point.certificate is None else point.certificate.bounds
    promised = {bound.metric: str(bound) for bound in bounds}
    lower = -inf if point.lower is None else point.lower
    shares = {name: _percent(share) for name, share in point.metrics.items()}
    rows = [
        (
            "clear",
            "nothing" if isinf(lower) else f"score <= {spell_threshold(lower)}",
            shares.get("cleared", ""),
            promised.get("npv", ""),
        ),
        ("refer", "between", shares.get("referred", ""), ""),
        (
            "act",
            "nothing" if isinf(point.threshold) else f"score > {spell_threshold(point.threshold)}",
            shares.get("acted", ""),
            promised.get("precision", ""),
        ),
    ]
    return Sheet(_title(point), ("action", "where", "share of cases", "holds"), rows, words=("where",))


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.3g} % [{100 * share.low:.3g}, {100 * share.high:.3g}]"


def _rows(point: OperatingPoint, metrics: list[str]) -> list[tuple[str, str, str]]:
    return [(m, str(point.metrics.get(m, "")), str(point.crossfit.get(m, ""))) for m in metrics]
