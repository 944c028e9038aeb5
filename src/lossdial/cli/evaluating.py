"""``lossdial evaluate``: what every stored point is worth on labelled data, in figures and pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossdial.base.files import require_writable, write
from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    from lossdial import Dial
    from lossdial.base.report import Sheet
    from lossdial.dial import Evaluation, OperatingPoint

__all__ = ["evaluate"]


def evaluate(
    run: str,
    /,
    data: str | None = None,
    target: str | None = None,
    group: str | None = None,
    path_column: str | None = None,
    out: str | None = None,
    heat_map: str = "auc",
    report: str | None = None,
    purpose: str | None = None,
    certify: list[str] | None = None,
    confidence: float = 0.95,
    by: str | None = None,
    against: str | None = None,
    cost_fn: str | None = None,
    cost_fp: str | None = None,
) -> None:
    """Measure every operating point on labelled data: figures, intervals, pictures.

    They are printed, and written as a page, as JSON and as pictures. Use data that neither training nor tuning has
    seen; figures on the tuning data flatter.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    data
        Labelled data: a table, a folder with one folder of images per class, a table of image paths, or a data set by
        name. By default the samples held out in training, on which points may have been tuned.
    target
        The column with the labels. By default that of training.
    group
        A column that says which rows belong together, such as a patient's.
    path_column
        In a table of image files: the column with their paths. By default path.
    out
        The folder for report.html, evaluation.json and the pictures. By default one of its own in RUN/evaluation.
    heat_map
        The metric to draw over λ.
    report
        Also write one page for those who decide, to this file (.html): what each point promises, on what evidence.
    purpose
        With --report: what the model is for, in a sentence or two.
    certify
        Certify recall and FPR of these points, by name, on --data, and keep the certificates in RUN. Data that chose a
        point, or trained the model, are refused.
    confidence
        With --certify: with which probability the certificates hold.
    by
        A column of --data (sex, site, scanner): what each point does in every part of it, and the gaps.
    against
        Another model, the folder that `lossdial train` wrote: what this one gains over it on the same samples.
    cost_fn
        What missing a case costs: a number, or a column of --data, by which a threshold per case is judged.
    cost_fp
        With --cost-fn: what a false alarm costs, a number or a column.
    """
    from rich.console import Console

    from lossdial import Bundle
    from lossdial.base.report import write_report
    from lossdial.cli.dialing import judging
    from lossdial.cli.further import Wanted, further
    from lossdial.dial import as_metric, evaluate_points
    from lossdial.dial.checks import statable

    as_metric(heat_map, "heat_map")  # a wrong name is told before anything is computed
    if report is not None and Path(report).suffix not in (".html", ".htm"):
        raise ValueError(f"report must end in .html; got {report!r}.")
    if purpose is not None and report is None:
        raise UsageError("--purpose goes with --report.")
    folder = Path(out) if out is not None else Path(run) / "evaluation" / _place(data)
    for file in (folder / "evaluation.json", *([] if report is None else [Path(report)])):
        require_writable(file)
    wanted = Wanted(run, data, tuple(certify or ()), confidence, by, against, cost_fn, cost_fp)
    bundle = Bundle.load(run)
    dial, points, inputs = judging(bundle, data, target, group, path_column)
    console = Console(soft_wrap=True, highlight=False)
    extra = further(wanted, bundle, dial, points, inputs)
    points = [extra.certified.get(point.name, point) for point in points]
    found = evaluate_points(dial, points)
    counts = (dial.surface.n_positive, dial.surface.n_negative)
    reason = statable(*counts)
    verdict = reason if reason is not None else str(dial.verdict())
    notes = _notes(dial, points, data)
    sheets = [*_sheets(found, counts, notes), *extra.sheets]
    content = {
        "data": data,
        "n_positive": counts[0],
        "n_negative": counts[1],
        "held_out_in_training": data is None,
        "points": {evaluation.name: evaluation.to_json() for evaluation in found},
        "verdict": verdict,
    }
    write(folder / "evaluation.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    pictures = {} if reason is not None else _pictures(dial, points, heat_map)
    title = f"{Path(run).name} on {data or 'samples held out in training'}"
    written = write_report(folder, title, verdict, sheets, pictures)
    for sheet in sheets:
        console.print(sheet)
    for line in (verdict, *extra.lines):
        console.print(line, markup=False)
    if report is not None:
        from lossdial.cli.card import Card, write_card

        seen = {name: figure for name, figure in pictures.items() if name != "heat_map"}
        card = Card(run, bundle, dial, found, data, purpose, notes, verdict, (*extra.sheets,), (*extra.lines,))
        write_card(Path(report), card, seen)
        console.print(f"for those who decide: {report}", markup=False)
    console.print(f"look at: {written[0]}", markup=False)


def _pictures(dial: Dial, points: Sequence[OperatingPoint], heat_map: str) -> Mapping[str, Any]:
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
    return drawn if surface.n_lams == 1 else drawn | {"heat_map": heat_map_figure(surface, heat_map, points)}


def _sheets(found: Sequence[Evaluation], counts: tuple[int, int], notes: Sequence[str]) -> list[Sheet]:
    from lossdial.base.report import Sheet

    about = Sheet(
        f"operating points on {counts[0]:,} positives and {counts[1]:,} negatives",
        ("point", "aim", "counts", "its bounds here", "expected cost"),
        [
            (
                evaluation.name,
                evaluation.description,
                _counts(evaluation),
                "; ".join(map(str, evaluation.bounds)) or "none",
                "" if evaluation.expected_cost is None else str(evaluation.expected_cost),
            )
            for evaluation in found
        ],
        words=("aim", "counts", "its bounds here"),
    )
    stated = [evaluation for evaluation in found if evaluation.figures]
    if not stated:
        return [about]
    names = list(dict.fromkeys(name for evaluation in stated for name in evaluation.figures))
    rows = [(name, *(str(evaluation.figures.get(name, "")) for evaluation in stated)) for name in names]
    columns = ("metric", *(evaluation.name for evaluation in stated))
    return [about, Sheet("figures", columns, rows, " ".join(["95 % intervals.", *notes]))]


def _counts(evaluation: Evaluation) -> str:
    """The confusion counts; of a point with two cuts, what each action takes."""
    actions = [f"{action} {p:g} positives, {n:g} negatives" for action, (p, n) in evaluation.actions.items()]
    return "; ".join(actions) or str(evaluation.counts)


def _notes(dial: Dial, points: Sequence[OperatingPoint], data: str | None) -> list[str]:
    """What a reader must know of these figures."""
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


def _place(data: str | None) -> str:
    """A folder name that the evaluation of other data does not have."""
    import hashlib

    if data is None:
        return "held-out"
    digest = hashlib.sha256(str(Path(data).resolve()).encode()).hexdigest()[:6]
    return f"{Path(data).stem}-{digest}"
