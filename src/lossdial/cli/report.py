"""The page that `lossdial evaluate` writes, for those who decide whether a model may be used.

It says what the model is for, what each operating point does and what is certified, on which data, what then holds at
another prevalence, and what nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Final

import lossdial
from lossdial.base.files import file_sha256
from lossdial.base.report import Block, Items, Section, Sheet, Text
from lossdial.dial import Dial, Estimate, Evaluation, NotCertified
from lossdial.dial.certificates.certificate import Certificate
from lossdial.dial.uncertainty.intervals import rounded
from lossdial.explorer.people import adding_up, people

_PREVALENCES: Final = (0.001, 0.01, 0.05, 0.2)
#: an action of a point with two cuts, the figure that is its share of cases, and the metric of these cases
_ACTIONS: Final = (("clear", "cleared", "npv"), ("refer", "referred", ""), ("act", "acted", "precision"))


@dataclass(frozen=True, eq=False)
class Findings:
    """What the page reports on; ``lines`` are about costs, ``sheets`` are the tables that the terminal shows."""

    run: str
    bundle: lossdial.Bundle
    dial: Dial
    evaluations: Sequence[Evaluation]
    data: str | None
    purpose: str | None
    notes: Sequence[str]
    verdict: str
    sheets: Sequence[Sheet]
    lines: Sequence[str]

    def called(self, side: int) -> str:
        """What the negatives (0) or positives (1) are called; a label that is a number is no name."""
        label = str(self.bundle.predictor.classes[side])
        try:
            float(label)
        except ValueError:
            return label if label not in ("True", "False") else ("negatives", "positives")[side]
        return ("negatives", "positives")[side]

    def blocks(self) -> list[Block]:
        """The page, without its pictures."""
        about = "An operating point is a threshold chosen for an objective. The brackets are 95 % intervals."
        return [
            *_about(self),
            Section("In short", [*_answers(self)]),
            Section(
                "What each operating point does", [Text(about, "quiet"), *(_point(self, e) for e in self.evaluations)]
            ),
            Section("Looked at more closely", [*_closer(self)]),
            Section("What this page cannot say", [Items([*_limits(self)])]),
        ]


def _about(findings: Findings) -> Iterator[Block]:
    training, surface, data = findings.bundle.training, findings.dial.surface, findings.data
    negative, positive = map(str, findings.bundle.predictor.classes)
    yield Text(findings.purpose or f"It looks for {positive!r} among cases that are otherwise {negative!r}.", "lead")
    source = data or f"{findings.bundle.source(None)}, on which points may have been tuned"
    counts = f"{surface.n_positive:,} {findings.called(1)} and {surface.n_negative:,} {findings.called(0)}"
    rows = [
        ("looks for", f"{positive!r} (the other label: {negative!r})"),
        ("measured on", f"{source}: {counts}"),
        ("share of positives", f"{training.prevalence:.3g} in training, {surface.prevalence:.3g} where measured"),
        ("trained with", f"the loss {training.loss.get('name', 'of its own')}, {training.steps:,} steps"),
    ]
    if data is not None and Path(data).is_file():
        rows.insert(2, ("that file's SHA-256", f"`{file_sha256(Path(data))}`"))
    yield Sheet("", (), rows)
    yield from (Text(note, "open") for note in findings.notes)


def _answers(findings: Findings) -> Iterator[Block]:
    """For each point: what holds for new cases, and what it did on these data."""
    for evaluation in findings.evaluations:
        certificate, counts = evaluation.point.certificate, evaluation.counts
        claim = "nothing is certified for new cases"
        if certificate is not None:
            bounds = " and ".join(f"{b.metric} {'≥' if b.at_least else '≤'} {b.value:.4g}" for b in certificate.bounds)
            verb = "holds" if len(certificate.bounds) == 1 else "hold"
            claim = f"{bounds} {verb} for new cases, certified at {_confidence(certificate)}"
        missed = [str(bound) for bound in evaluation.bounds if not bound.met]
        met = " and meets its bounds" if evaluation.bounds and not missed else ""
        positives = f"{_count(counts.tp)} of {_count(counts.tp + counts.fn)} {findings.called(1)}"
        text = f"**‘{evaluation.name}’**: {'; '.join([claim, f'here it flags {positives}{met}', *missed])}."
        yield Text(text, "open" if certificate is None or missed else "good")


def _confidence(certificate: Certificate) -> str:
    return f"{100 * certificate.confidence:.4g} %{' over groups' if certificate.unit == 'group' else ''}"


def _point(findings: Findings, evaluation: Evaluation) -> Section:
    blocks: list[Block] = [Text(f"Its objective: {evaluation.description}.")]
    blocks += _alerts(findings, evaluation) if evaluation.point.lower is None else _actions(evaluation)
    blocks += [Text(evaluation.note, "open")] if evaluation.note else []
    if evaluation.bounds:
        blocks.append(Text(f"Its bounds on these data: {'; '.join(map(str, evaluation.bounds))}."))
    return Section(f"‘{evaluation.name}’", [*blocks, *_certificate(evaluation)], boxed=True)


def _alerts(findings: Findings, evaluation: Evaluation) -> Iterator[Block]:
    """What a point with one threshold flags."""
    counts, positive = evaluation.counts, findings.called(1)
    yield Text(
        f"It raises an alert where the score exceeds {evaluation.point.spelled_threshold}. Here it flags "
        f"{_count(counts.tp)} of {_count(counts.tp + counts.fn)} {positive} and misses {_count(counts.fn)}; it also "
        f"flags {_count(counts.fp)} of {_count(counts.fp + counts.tn)} others."
    )
    if evaluation.figures:
        yield Text(_people(evaluation.figures, evaluation.prevalence, positive))


def _actions(evaluation: Evaluation) -> Iterator[Block]:
    """What a point with two cuts clears, refers and acts on."""
    yield Text(
        "It has two thresholds: cases below both are cleared, cases above both are acted on, and a person decides on "
        f"those between. Per 1,000 cases at a share of {100 * evaluation.prevalence:.3g} % positives:"
    )
    rows = []
    for action, share, metric in _ACTIONS:
        if share not in evaluation.figures:
            return
        estimate, figure = evaluation.figures[share], evaluation.figures.get(metric)
        value, low, high = (rounded(1000 * x, 1, 1000) for x in (estimate.value, estimate.low, estimate.high))
        here = "" if figure is None or isnan(figure.value) else f"{metric} {figure}"
        rows.append((action, f"{value} [{low}, {high}]", here))
    yield Sheet("", ("action", "cases of 1,000", "here"), rows, f"{evaluation.point.spelled_threshold}.")


def _certificate(evaluation: Evaluation) -> Iterator[Block]:
    """What is certified, on how many cases of which data, and what follows at other prevalences."""
    point, certificate = evaluation.point, evaluation.point.certificate
    if certificate is None:
        likely = f" {point.holding.partition(' (')[0]}." if point.holding not in ("", "not certified") else ""
        yield Text(f"**Not certified.**{likely} Nothing is certified for new cases.", "open")
        return
    over = ", over groups, one row of each drawn at random" if certificate.unit == "group" else ""
    yield Text(
        f"**Certified at {100 * certificate.confidence:.4g} %**{over}: all of these hold at once for new cases drawn "
        "like those that certified it.",
        "good",
    )
    rows = []
    for bound in certificate.bounds:
        accepted = f"{bound.hits} of {bound.n}" if bound.n else ""
        rows.append((f"{bound.metric} is at {'least' if bound.at_least else 'most'}", f"{bound.value:.4g}", accepted))
    data = f"On {certificate.rows}; data `{certificate.data[:16]}`."
    note = " ".join(filter(None, [data, certificate.note, certificate.together]))
    yield Sheet("", ("bound", "value", "accepted where certified"), rows, note)
    try:
        shares = sorted({*_PREVALENCES, *([] if point.prevalence is None else [point.prevalence])})
        bounds_at = [point.at(share) for share in shares]
    except NotCertified as reason:
        yield Text(str(reason), "quiet")
        return
    yield Text("If only the share of positives changes, these hold too, at the same confidence:")
    cells = [
        (
            f"{100 * bounds.prevalence[0]:.3g} %",
            f"at least {rounded(bounds.precision)}",
            f"at least {rounded(bounds.npv)}",
            f"{bounds.alert_rate[0]:.3g} to {bounds.alert_rate[1]:.3g}",
        )
        for bounds in bounds_at
    ]
    yield Sheet("", ("share of positives", "precision", "NPV", "alerts, share of cases"), cells)


def _closer(findings: Findings) -> Iterator[Block]:
    yield from findings.sheets
    positive = findings.called(1)
    yield Items(
        [
            f"recall: of all {positive}, the share that it flags",
            "specificity: of all others, the share that it leaves alone",
            "precision: of all alerts, the share that is right",
            f"auc: how often one of the {positive} scores above one of the others",
            "brier: the mean squared error of the probabilities",
        ]
    )
    yield from (Text(line[0].upper() + line[1:]) for line in findings.lines)
    yield Text(f"Was tuning the loss worth it? {findings.verdict}", "quiet")


def _limits(findings: Findings) -> Iterator[str]:
    if any(evaluation.point.certificate is not None for evaluation in findings.evaluations):
        yield (
            "A certificate holds for new cases drawn like those that certified it. Where cases look different (from "
            "another source, or of other people) it says nothing. A different share of positives alone does it no harm."
        )
    yield (
        "Whether it still holds next year. `lossdial monitor` looks at outcomes as they come and says when a "
        "certificate is refuted."
    )
    yield "What follows from acting, or from not acting. The figures are of labels, not of what happens afterwards."
    yield "Whether that is enough: those who decide weigh the misses and the false alarms above."


def _people(figures: Mapping[str, Estimate], prevalence: float, positive: str) -> str:
    """The figures as counts of cases, of as many thousands as it takes for no count to be rounded to 0."""
    rates = figures["recall"].value, 1 - figures["specificity"].value
    counts, digits = adding_up(people(*rates, prevalence))
    caught, missed, false_alarms = (counts[kind] for kind in ("caught", "missed", "false_alarms"))
    of_these = f"at a share of {100 * prevalence:.3g} % there are {caught + missed:,} {positive}"
    return (
        f"Of {1000 * 10**digits:,} cases {of_these}: about {caught:,} are flagged and {missed:,} missed, "
        f"and {false_alarms:,} others are flagged in vain."
    )


def _count(cases: float) -> str:
    """A number of cases; with weights it may be a fraction."""
    return f"{cases:,.0f}" if float(cases).is_integer() else f"{cases:,.1f}"
