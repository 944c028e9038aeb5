"""``lossdial points``: the operating points of a model, and how one is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    from lossdial import Bundle
    from lossdial.cli.report import Sheet
    from lossdial.dial import OperatingPoint

__all__ = ["point_sheet", "points"]


def points(run: str, /, delete: list[str] | None = None, import_: str | None = None) -> None:
    """List the operating points of a model, delete some, or take up those of a page.

    Of each: its aim, λ, the threshold as a margin and as a probability, and the figures that it was chosen by.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    delete
        The points to delete, by name: --delete clinic,screening.
    import_
        A file of points that an explorer page saved. They are somebody's choice: none is certified by that.
    """
    from rich.console import Console

    from lossdial import Bundle
    from lossdial.base.names import closest

    console = Console(soft_wrap=True, highlight=False)
    bundle = Bundle.load(run)
    if import_ is not None:
        if delete:
            raise UsageError("give one of --delete and --import.")
        console.print(_take(run, bundle, import_), markup=False)
        return
    if delete:
        for name in delete:  # all of them before the first is deleted
            if name not in bundle.points:
                raise ValueError(f"{run} has no operating point {name!r}; {closest(name, bundle.points)}")
            if name == "default":
                raise ValueError("default is the point that `predict` uses; it can be tuned anew, not deleted.")
        for name in dict.fromkeys(delete):
            Bundle.delete_point(run, name)
        left = [name for name in bundle.points if name not in delete]
        console.print(f"deleted from {run}: {', '.join(delete)}. Left: {', '.join(left)}", markup=False)
        return
    for point in bundle.points.values():
        console.print(_listed(point))
        console.print()
    text = f"{len(bundle.points)} point(s) in {run}. Next: lossdial evaluate {run} --data … measures them all"
    console.print(text, markup=False)


def _take(run: str, bundle: Bundle, path: str) -> str:
    """Take up the points of a file, and say what became of each.

    A page shows the model's own points beside those set on it, and saves both: one that the model has just so is left
    alone, with its certificate.
    """
    from lossdial.explorer import read_points

    found = read_points(path)
    if not found:
        raise ValueError(f"{path} holds no point; name one on the page (Add), then save them.")
    for point in found:
        bundle.predictor.lam(point.lam)  # a λ of another model is an error
    known = [point.name for point in found if _same(point, bundle.points.get(point.name))]
    replaced = [point.name for point in found if point.name in bundle.points and point.name not in known]
    new = [point.name for point in found if point.name not in bundle.points]
    for point in found:
        if point.name not in known:
            bundle = bundle.with_point(point)
    if new or replaced:
        bundle.save(run)
    told = (("taken", new), ("put in the place of another", replaced), ("there already", known))
    return f"points of {run}: " + "; ".join(f"{what}: {', '.join(names)}" for what, names in told if names)


def _same(point: OperatingPoint, own: OperatingPoint | None) -> bool:
    """Whether they are one point, but for a certificate, which no file brings."""
    return own is not None and replace(own, certificate=None).to_json() == replace(point, certificate=None).to_json()


def point_sheet(point: OperatingPoint) -> Sheet:
    """A point's figures, on the data it was chosen on and cross-fitted."""
    from lossdial.cli.report import Sheet

    note = (
        f"{point.n_positive} positives, {point.n_negative} negatives; 95 % intervals. "
        "Cross-fitted: chosen on one half, measured on the other."
    )
    return Sheet(_title(point), _COLUMNS, _rows(point, list(point.metrics)), note)


_COLUMNS = ("metric", "where it was chosen", "cross-fitted")


def _listed(point: OperatingPoint) -> Sheet:
    """The same in short: of the figures, those that the point was chosen by."""
    from lossdial.cli.report import Sheet

    return Sheet(_title(point), _COLUMNS, _rows(point, list(point.crossfit or point.metrics)))


def _title(point: OperatingPoint) -> str:
    lam = ", ".join(f"{name} {value:.3g}" for name, value in point.lam.items())
    lines = [f"{point.name}: {point.objective}", *([f"λ: {lam}"] if lam else []), f"threshold: {_threshold(point)}"]
    return "\n".join([*lines, *([point.note] if point.note else [])])


def _threshold(point: OperatingPoint) -> str:
    """As the score is, and as the probability that it states."""
    at = "" if point.prevalence is None else f" at prevalence {point.prevalence:g}"
    return f"margin {point.threshold:.4g}, probability {float(point.probability(point.threshold)):.3g}{at}"


def _rows(point: OperatingPoint, metrics: list[str]) -> list[tuple[str, str, str]]:
    return [(m, str(point.metrics.get(m, "")), str(point.crossfit.get(m, ""))) for m in metrics]
