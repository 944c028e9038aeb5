"""The commands that measure: evaluate, certify and compare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lossdial
from lossdial.base.errors import InputError
from lossdial.base.files import require_writable, write
from lossdial.base.report import Sheet, show, write_report
from lossdial.cli.options import Columns

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lossdial import Dial
    from lossdial.dial import Evaluation, OperatingPoint


def evaluate(
    run: str,
    /,
    *,
    data: str | None = None,
    out: str | None = None,
    purpose: str | None = None,
    by: str | None = None,
    cost_fn: str | None = None,
    cost_fp: str | None = None,
    columns: Columns,
) -> None:
    """Measure every operating point on labelled data: figures, intervals, pictures.

    They are printed, and written as JSON and as one page for those who decide: what each point does, what is certified,
    and on which evidence. Use data that neither training nor tuning has seen: figures on the data that chose a point
    flatter it.

    Parameters
    ----------
    out
        The folder for report.html, evaluation.json and the pictures. By default one of its own in RUN/evaluation.
    purpose
        For the page: what the model is for, in a sentence or two.
    by
        A column of --data (sex, site, scanner): what each point does in each of its subgroups, and the gaps.
    cost_fn
        What a miss costs, a number or a column of --data: a threshold per case is judged by it.
    cost_fp
        With --cost-fn: what a false alarm costs, a number or a column of --data.
    """
    from lossdial.cli.inputs import case_amounts, column_of, dial_at_points
    from lossdial.cli.report import Findings
    from lossdial.dial import evaluate_points
    from lossdial.dial.checks import statable

    for option, value in {"by": by, "cost_fn": cost_fn, "cost_fp": cost_fp}.items():
        if value is not None and data is None:
            raise InputError(option, "needs {data}, labelled samples that training has not seen")
    folder = Path(out) if out is not None else Path(run) / "evaluation" / folder_name(data)
    require_writable(folder / "evaluation.json")
    bundle = lossdial.Bundle.load(run)
    dial, points, inputs = dial_at_points(bundle, data, columns)
    subgroups, lines = [], []
    if inputs is not None:
        if by is not None:
            column = column_of(inputs.rows, by, "by", str(data)).to_numpy()
            subgroups = [_subgroups(dial, point, column, by) for point in points]
        costs = case_amounts(inputs.rows, cost_fn, cost_fp, str(data))
        if costs is not None:
            lines = [f"cost, at the λ of {point.name}: {dial.case_costs(*costs, point)}." for point in points]
    evaluations = evaluate_points(dial, points)
    counts = (dial.surface.n_positive, dial.surface.n_negative)
    reason = statable(*counts)
    verdict = reason if reason is not None else str(dial.verdict())
    notes = _notes(dial, points, data)
    content = {
        "data": data,
        "n_positive": counts[0],
        "n_negative": counts[1],
        "held_out_in_training": data is None,
        "points": {evaluation.name: evaluation.to_json() for evaluation in evaluations},
        "verdict": verdict,
    }
    write(folder / "evaluation.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    sheets = [*_sheets(evaluations, counts, notes), *subgroups]
    findings = Findings(run, bundle, dial, evaluations, data, purpose, notes, verdict, sheets, lines)
    pictures = {} if reason is not None else _pictures(dial, points)
    title = f"{Path(run).name}: what it does, and what is certified"
    page = write_report(folder, title, findings.blocks(), pictures)[0]
    show(*sheets, verdict, *lines, f"look at: {page}")


def certify(
    run: str, /, *, data: str, point: list[str] | None = None, confidence: float = 0.95, columns: Columns
) -> None:
    """Certify recall and FPR of operating points on fresh labelled data.

    The certificates are printed and kept in RUN. Data that chose a point, or that trained the model, are refused.

    Parameters
    ----------
    data
        Labelled data that neither training nor tuning has seen, of any kind that was trained on.
    point
        The points to certify, by name. By default the one called default.
    """
    from lossdial.cli.inputs import dial_at_points, point_of

    bundle = lossdial.Bundle.load(run)
    chosen = [point_of(bundle, run, name) for name in dict.fromkeys(point or ["default"])]
    dial, _, _ = dial_at_points(bundle, data, columns)
    certified = [dial.certify(before, confidence) for before in chosen]
    for after in certified:
        bundle = bundle.with_point(after)
    bundle.save(run)
    for before, after in zip(chosen, certified, strict=True):
        show(*_certified(before, after))


def compare(run: str, other: str, /, *, data: str, columns: Columns) -> None:
    """Compare two models on the same labelled samples.

    It says what RUN gains over OTHER for each of several objectives, with intervals that hold for all of them at once.

    Parameters
    ----------
    other
        The folder of another model, which looks for the same label.
    data
        Labelled data that neither of the two has seen in training.
    """
    from lossdial.cli.inputs import read_inputs
    from lossdial.dial import OBJECTIVES
    from lossdial.dial.choice import verdict

    bundles = [lossdial.Bundle.load(folder) for folder in (run, other)]
    ours, theirs = (list(map(str, bundle.predictor.classes)) for bundle in bundles)
    if ours != theirs:
        raise InputError("", f"{other} looks for {theirs[1]!r}, and {run} for {ours[1]!r}; they must look for the same")
    surfaces = []
    for bundle in bundles:
        inputs = read_inputs(bundle, data, columns, labelled=True)
        surfaces.append(bundle.dial(inputs.X, inputs.y, groups=inputs.groups).surface)
    gain = verdict.compare(surfaces[0], surfaces[1], OBJECTIVES, Path(run).name, Path(other).name)
    show(str(gain))


def _certified(before: OperatingPoint, after: OperatingPoint) -> Iterator[str]:
    """The new certificate, the one that it replaces, and which bounds of the objective it does not certify."""
    certificate = after.certificate
    if certificate is None:
        return
    instead = "" if before.certificate is None else f" In place of: {before.certificate}"
    yield f"{after.name}: {certificate}{instead}"
    values = {"recall": certificate.recall, "fpr": certificate.fpr, "specificity": 1 - certificate.fpr}
    for name, bound in {} if after.objective is None else after.objective.subject_to.items():
        sign = "<=" if name == "fpr" else ">="
        if name not in values:
            yield f"{after.name}: its objective bounds {name}, about which this certificate says nothing."
        elif values[name] > bound if sign == "<=" else values[name] < bound:
            yield (
                f"{after.name}: its objective, {name} {sign} {bound:g}, is NOT certified here: only {name} {sign} "
                f"{values[name]:.4g} is."
            )


def _subgroups(dial: Dial, point: OperatingPoint, subgroups: ArrayLike, by: str) -> Sheet:
    measured = dial.by_subgroup(subgroups, point)
    rows = [
        (
            str(part.name),
            part.counts,
            *("–" if e is None else str(e) for e in (part.recall, part.fpr, part.precision, part.alert_rate)),
        )
        for part in measured.subgroups
    ]
    gaps = ("–" if gap is None else str(gap) for gap in (measured.recall_gap, measured.fpr_gap))
    columns = (by, "rows", "recall", "fpr", "precision", "alert rate")
    return Sheet(f"{point.name} by {by}", columns, [*rows, ("gap", "", *gaps, "", "")], measured.note, words=("rows",))


def _pictures(dial: Dial, points: Sequence[OperatingPoint]) -> Mapping[str, Any]:
    from lossdial.dial.plots import (
        decision_curve_figure,
        heat_map_figure,
        precision_recall_figure,
        reliability_figure,
        roc_figure,
    )

    surface = dial.surface
    drawn: dict[str, Any] = {
        "precision_recall": precision_recall_figure(surface, points),
        "roc": roc_figure(surface, points),
        "reliability": reliability_figure(surface, points),
        "decision_curve": decision_curve_figure(surface, points),
    }
    return drawn if surface.n_lams == 1 else drawn | {"heat_map": heat_map_figure(surface, "auc", points)}


def _sheets(evaluations: Sequence[Evaluation], counts: tuple[int, int], notes: Sequence[str]) -> list[Sheet]:
    about = Sheet(
        f"operating points on {counts[0]:,} positives and {counts[1]:,} negatives",
        ("point", "objective", "counts", "its bounds here", "expected cost"),
        [
            (
                evaluation.name,
                evaluation.description,
                _counts(evaluation),
                "; ".join(map(str, evaluation.bounds)) or "none",
                "" if evaluation.expected_cost is None else str(evaluation.expected_cost),
            )
            for evaluation in evaluations
        ],
        words=("objective", "counts", "its bounds here"),
    )
    measured = [evaluation for evaluation in evaluations if evaluation.figures]
    if not measured:
        return [about]
    names = list(dict.fromkeys(name for evaluation in measured for name in evaluation.figures))
    rows = [(name, *(str(evaluation.figures.get(name, "")) for evaluation in measured)) for name in names]
    columns = ("metric", *(evaluation.name for evaluation in measured))
    return [about, Sheet("figures", columns, rows, " ".join(["95 % intervals.", *notes]))]


def _counts(evaluation: Evaluation) -> str:
    """The confusion counts; for a point with two cuts, those of each action."""
    actions = [f"{action} {p:g} positives, {n:g} negatives" for action, (p, n) in evaluation.actions.items()]
    return "; ".join(actions) or str(evaluation.counts)


def _notes(dial: Dial, points: Sequence[OperatingPoint], data: str | None) -> list[str]:
    """What a reader must know about these figures."""
    from lossdial.dial.certificates.evidence import are_known

    notes = ["These samples may have been tuned on: the figures flatter."] if data is None else []
    surface = dial.surface
    for point in points if data is not None else ():
        score = surface.score(surface.column(point.lam, f"point {point.name!r}"))
        if are_known(point.chosen_on.split(), surface.labels, score):
            notes.append(f"{point.name} was chosen on these samples, or some of them: its figures flatter.")
    return notes + [
        f"{point.name} is made for prevalence {point.prevalence:g}; its figures are restated there, counts are not."
        for point in points
        if point.prevalence is not None
    ]


def folder_name(data: str | None) -> str:
    """A folder name that the evaluation of other data does not have."""
    import hashlib

    if data is None:
        return "held-out"
    digest = hashlib.sha256(str(Path(data).resolve()).encode()).hexdigest()[:6]
    return f"{Path(data).stem}-{digest}"
