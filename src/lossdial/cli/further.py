"""What ``lossdial evaluate`` may be asked besides figures: certificates on fresh data, every part, a rival, money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lossdial import Bundle, Dial
    from lossdial.base.report import Sheet
    from lossdial.cli.inputs import Inputs
    from lossdial.dial import Estimate, OperatingPoint

__all__ = ["Found", "Wanted", "further"]


@dataclass(frozen=True)
class Wanted:
    """What was asked for, by its options."""

    run: str
    data: str | None
    certify: tuple[str, ...] = ()
    confidence: float = 0.95
    by: str | None = None
    against: str | None = None
    cost_fn: str | None = None
    cost_fp: str | None = None

    def __post_init__(self) -> None:
        if (self.cost_fn is None) != (self.cost_fp is None):
            raise UsageError("--cost-fn and --cost-fp go together, each a number or a column of --data.")
        needs = {"certify": self.certify, "by": self.by, "against": self.against, "cost-fn": self.cost_fn}
        given = [option for option, value in needs.items() if value]
        if given and self.data is None:
            raise UsageError(f"--{given[0]} needs --data, labelled samples that training has not seen.")


@dataclass(frozen=True)
class Found:
    """Tables and lines to show, and points that were certified here, by name."""

    sheets: Sequence[Sheet] = ()
    lines: Sequence[str] = ()
    certified: Mapping[str, OperatingPoint] = field(default_factory=dict)


def further(
    wanted: Wanted, bundle: Bundle, dial: Dial, points: Sequence[OperatingPoint], inputs: Inputs | None
) -> Found:
    """The answers; certified points are kept in the run."""
    if inputs is None or wanted.data is None:
        return Found()
    certified = _certify(wanted, bundle, dial)
    sheets = []
    lines = [line for name, point in certified.items() for line in _told(point, bundle.points[name])]
    table = inputs.table.iloc[inputs.kept]
    if wanted.by is not None:
        from lossdial.cli.questions import column_of

        parts = column_of(table, wanted.by, "--by", wanted.data).to_numpy()
        sheets += [_parts(dial, point, parts, wanted.by) for point in points]
    if wanted.cost_fn is not None and wanted.cost_fp is not None:
        import numpy as np

        from lossdial.cli.questions import amounts_of

        miss = amounts_of(table, wanted.cost_fn, "--cost-fn", wanted.data)
        alarm = amounts_of(table, wanted.cost_fp, "--cost-fp", wanted.data)
        if np.ptp(miss) or np.ptp(alarm):
            lines += [f"money, at the λ of {point.name}: {dial.case_costs(miss, alarm, point)}." for point in points]
        else:
            lines.append(_money(dial, points, float(miss[0]), float(alarm[0])))
    if wanted.against is not None:
        lines.append(_against(wanted.against, bundle, dial, inputs))
    return Found(sheets, lines, certified)


def _certify(wanted: Wanted, bundle: Bundle, dial: Dial) -> dict[str, OperatingPoint]:
    from lossdial.base.errors import closest
    from lossdial.dial.certificates.evidence import require_confidence

    require_confidence(wanted.confidence)
    for name in wanted.certify:
        if name not in bundle.points:
            raise UsageError(f"--certify {name}: {wanted.run} has no such point; {closest(name, bundle.points)}")
    certified = {name: dial.certify(bundle.points[name], wanted.confidence) for name in wanted.certify}
    for point in certified.values():
        bundle = bundle.with_point(point)
    if certified:
        bundle.save(wanted.run)
    return certified


def _told(point: OperatingPoint, before: OperatingPoint) -> list[str]:
    """A new certificate, that in whose place it is, and what the point's aim asks for that it does not give."""
    found = point.certificate
    if found is None:
        return []
    instead = "" if before.certificate is None else f" In place of: {before.certificate}"
    lines = [f"{point.name}: {found}{instead}"]
    given = {"recall": (found.recall, ">="), "fpr": (found.fpr, "<="), "specificity": (1 - found.fpr, ">=")}
    for name, asked in {} if point.objective is None else point.objective.subject_to.items():
        value, sign = given.get(name, (None, ""))
        if value is None:
            lines.append(f"{point.name}: its aim bounds {name}, of which this certificate says nothing.")
        elif value < asked if sign == ">=" else value > asked:
            lines.append(
                f"{point.name}: its aim, {name} {sign} {asked:g}, is NOT certified here: only {name} {sign} "
                f"{value:.4g} is."
            )
    return lines


def _money(dial: Dial, points: Sequence[OperatingPoint], miss: float, alarm: float) -> str:
    """What each point costs where every case costs the same, so that no case has a threshold of its own."""
    from lossdial.dial.evaluation import confusion

    surface = dial.surface
    found = [(point.name, confusion(surface.at(surface.column(point.lam)), point.threshold)) for point in points]
    n = sum(surface.samples.totals)
    costs = (f"{name} {(miss * counts.fn + alarm * counts.fp) / n:.4g}" for name, counts in found)
    return f"money a case, at {miss:g} for a missed positive and {alarm:g} for a false alarm: {', '.join(costs)}."


def _parts(dial: Dial, point: OperatingPoint, parts: ArrayLike, by: str) -> Sheet:
    from lossdial.base.report import Sheet

    found = dial.by_subgroup(parts, point)
    rows = [
        (
            str(part.name),
            part.counts,
            *(_or_dash(figure) for figure in (part.recall, part.fpr, part.precision, part.alert_rate)),
        )
        for part in found.parts
    ]
    rows.append(("gap", "", _or_dash(found.recall_gap), _or_dash(found.fpr_gap), "", ""))
    columns = (by, "rows", "recall", "fpr", "precision", "alert rate")
    return Sheet(f"{point.name} by {by}", columns, rows, found.note, words=("rows",))


def _or_dash(estimate: Estimate | None) -> str:
    return "–" if estimate is None else str(estimate)


def _against(other: str, bundle: Bundle, dial: Dial, inputs: Inputs) -> str:
    """What this model gains over another on the same samples."""
    from pathlib import Path

    from lossdial import Bundle as Loaded
    from lossdial.dial import OBJECTIVES
    from lossdial.dial.choice.verdict import compare

    rival = Loaded.load(other)
    if list(map(str, rival.predictor.classes)) != list(map(str, bundle.predictor.classes)):
        raise UsageError(
            f"--against {other} looks for {rival.predictor.classes[1]!r}, and this model for "
            f"{bundle.predictor.classes[1]!r}."
        )
    theirs = rival.dial(inputs.X, inputs.labels, groups=inputs.groups)
    found = compare(dial.surface, theirs.surface, OBJECTIVES, "this model", Path(other).name)
    return str(found)
