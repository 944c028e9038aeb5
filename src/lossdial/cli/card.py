"""``lossdial evaluate --report card.html``: one page for those who decide whether a model may be used.

It says what the model is for, what each operating point does and what is certified, on which data, what then holds at
another prevalence, and what nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lossdial.base.files import file_sha256, write
from lossdial.base.report import Block, Items, Pictures, Report, Section, Sheet, Text, png_of
from lossdial.dial.uncertainty.intervals import rounded
from lossdial.explorer.figures import Sizes, adding_up, people

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lossdial import Bundle, Dial
    from lossdial.dial import Estimate, Evaluation
    from lossdial.dial.certificates.certificate import Certificate

__all__ = ["Card", "write_card"]

_PREVALENCES: Final = (0.001, 0.01, 0.05, 0.2)
_FIGURES: Final = {
    "recall": "of all {positive}, the share that it flags (recall)",
    "specificity": "of all others, the share that it leaves alone (specificity)",
    "precision": "of all alerts, the share that is right (precision)",
    "npv": "of all cases without an alert, the share that is rightly so (NPV)",
    "alert_rate": "share of all cases that raise an alert",
    "auc": "ranking: how often one of the {positive} scores above one of the others (AUC)",
    "brier": "mean squared error of the probabilities (Brier score)",
}
#: an action of a point with two cuts, the figure that is its share of cases, and the metric of these cases
_ACTIONS: Final = (("clear", "cleared", "npv"), ("refer", "referred", ""), ("act", "acted", "precision"))


@dataclass(frozen=True, eq=False)
class Card:
    """What the page reports on."""

    run: str
    bundle: Bundle
    dial: Dial
    points: Sequence[Evaluation]
    data: str | None
    purpose: str | None
    notes: Sequence[str]
    verdict: str
    sheets: Sequence[Sheet] = ()
    lines: Sequence[str] = ()

    @property
    def positive(self) -> str:
        """What the positives are called; a label that is a number is no name."""
        return self._called(1, "positives")

    @property
    def negative(self) -> str:
        """What the negatives are called."""
        return self._called(0, "negatives")

    def _called(self, side: int, otherwise: str) -> str:
        label = str(self.bundle.predictor.classes[side])
        try:
            float(label)
        except ValueError:
            return otherwise if label in ("True", "False") else label
        return otherwise


def write_card(path: Path, card: Card, figures: Mapping[str, Figure]) -> None:
    """Write the page."""
    drawn = {name: png_of(figure) for name, figure in figures.items()}
    about = "An operating point is a threshold chosen for an objective. The brackets are 95 % intervals."
    blocks = [
        *_about(card),
        Section("In short", [*_answers(card)]),
        Section("What each operating point does", [Text(about, "quiet"), *(_point(card, e) for e in card.points)]),
        Section("Looked at more closely", [*_more(card)]),
        *([Section("Pictures", [Pictures(drawn)])] if drawn else []),
        Section("What this page cannot say", [Items([*_limits(card)])]),
    ]
    write(path, Report(f"{Path(card.run).name}: what it does, and what is certified", blocks).html())


def _about(card: Card) -> Iterator[Block]:
    training, surface = card.bundle.training, card.dial.surface
    negative, positive = map(str, card.bundle.predictor.classes)
    yield Text(card.purpose or f"It looks for {positive!r} among cases that are otherwise {negative!r}.", "lead")
    source = card.data or f"{card.bundle.source(None)}, on which points may have been tuned"
    counts = f"{surface.n_positive:,} {card.positive} and {surface.n_negative:,} {card.negative}"
    rows = [
        ("looks for", f"{positive!r} (the other label: {negative!r})"),
        ("measured on", f"{source}: {counts}"),
        ("share of positives", f"{training.prevalence:.3g} in training, {surface.prevalence:.3g} where measured"),
        ("trained with", f"the loss {training.loss.get('name', 'of its own')}, {training.steps:,} steps"),
    ]
    if card.data is not None and Path(card.data).is_file():
        rows.insert(2, ("that file's SHA-256", f"`{file_sha256(Path(card.data))}`"))
    yield Sheet("", (), rows)
    yield from (Text(note, "open") for note in card.notes)


def _answers(card: Card) -> Iterator[Block]:
    """For each point: what holds for new cases, and what it did on these data."""
    for evaluation in card.points:
        certificate, counts = evaluation.point.certificate, evaluation.counts
        if certificate is None:
            claim = "nothing is certified for new cases"
        else:
            bounds = " and ".join(f"{b.metric} {'≥' if b.at_least else '≤'} {b.value:.4g}" for b in certificate.bounds)
            claim = (
                f"{bounds} hold{'s' if len(certificate.bounds) == 1 else ''} for new cases, {_certified(certificate)}"
            )
        missed = [f"{bound}" for bound in evaluation.bounds if not bound.met]
        met = " and meets its bounds" if evaluation.bounds and not missed else ""
        here = f"here it flags {_count(counts.tp)} of {_count(counts.tp + counts.fn)} {card.positive}{met}"
        text = f"**‘{evaluation.name}’**: {'; '.join([claim, here, *missed])}."
        yield Text(text, "open" if certificate is None or missed else "good")


def _certified(certificate: Certificate) -> str:
    over = " over groups" if certificate.unit == "group" else ""
    return f"certified at {100 * certificate.confidence:.4g} %{over}"


def _point(card: Card, evaluation: Evaluation) -> Section:
    blocks: list[Block] = [Text(f"Its objective: {evaluation.description}.")]
    blocks += _alerts(card, evaluation) if evaluation.point.lower is None else _actions(evaluation)
    if evaluation.bounds:
        blocks.append(Text(f"Its bounds on these data: {'; '.join(map(str, evaluation.bounds))}."))
    return Section(f"‘{evaluation.name}’", [*blocks, *_certificate(evaluation)], boxed=True)


def _alerts(card: Card, evaluation: Evaluation) -> Iterator[Block]:
    """What a point with one threshold flags."""
    point, counts = evaluation.point, evaluation.counts
    yield Text(
        f"It raises an alert where the score exceeds {point.spelled_threshold}. Here it flags {_count(counts.tp)} of "
        f"{_count(counts.tp + counts.fn)} {card.positive} and misses {_count(counts.fn)}; it also flags "
        f"{_count(counts.fp)} of {_count(counts.fp + counts.tn)} others."
    )
    if evaluation.note:
        yield Text(evaluation.note, "open")
        return
    figures = card.dial.metrics(list(_FIGURES), point)
    at = "" if point.prevalence is None else f" (restated at prevalence {point.prevalence:.3g})"
    rows = [(text.format(positive=card.positive), str(figures[name])) for name, text in _FIGURES.items()]
    yield Sheet("", ("figure" + at, "here"), rows)
    yield Text(_people(figures, evaluation.prevalence, card.positive))


def _certificate(evaluation: Evaluation) -> Iterator[Block]:
    """What is certified, on how many cases of which data, and what follows at other prevalences."""
    from lossdial.dial import NotCertified

    point = evaluation.point
    certificate = point.certificate
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
    rows = [
        (
            f"{bound.metric} is at {'least' if bound.at_least else 'most'}",
            f"{bound.value:.4g}",
            f"{bound.hits} of {bound.n}" if bound.n else "",
        )
        for bound in certificate.bounds
    ]
    note = " ".join(filter(None, [certificate.note, certificate.together]))
    yield Sheet(
        "",
        ("bound", "value", "accepted where certified"),
        rows,
        f"On {certificate.rows}; data `{certificate.data[:16]}`. {note}".strip(),
    )
    try:
        shares = sorted({*_PREVALENCES, *([] if point.prevalence is None else [point.prevalence])})
        bounds_at = [point.at(share) for share in shares]
    except NotCertified as reason:
        yield Text(str(reason), "quiet")
        return
    yield Text("If only the share of positives changes, these hold too, at the same confidence:")
    yield Sheet(
        "",
        ("share of positives", "precision", "NPV", "alerts, share of cases"),
        [
            (
                f"{100 * bounds.prevalence[0]:.3g} %",
                f"at least {rounded(bounds.precision)}",
                f"at least {rounded(bounds.npv)}",
                f"{bounds.alert_rate[0]:.3g} to {bounds.alert_rate[1]:.3g}",
            )
            for bounds in bounds_at
        ],
    )


def _actions(evaluation: Evaluation) -> Iterator[Block]:
    """What a point with two cuts clears, refers and acts on."""
    yield Text(
        "It has two thresholds: cases below both are cleared, cases above both are acted on, and a person decides on "
        f"those between. Per 1,000 cases at a share of {100 * evaluation.prevalence:.3g} % positives:"
    )
    if evaluation.note:
        yield Text(evaluation.note, "open")
        return
    rows = []
    for action, share, metric in (
        ("clear", "cleared", "npv"),
        ("refer", "referred", ""),
        ("act", "acted", "precision"),
    ):
        estimate, figure = evaluation.figures[share], evaluation.figures.get(metric)
        cases = "{} [{}, {}]".format(
            *(rounded(1000 * x, 1, 1000) for x in (estimate.value, estimate.low, estimate.high))
        )
        rows.append((action, cases, "" if figure is None or isnan(figure.value) else f"{metric} {figure}"))
    yield Sheet("", ("action", "cases of 1,000", "here"), rows, f"{evaluation.point.spelled_threshold}.")


def _more(card: Card) -> Iterator[Block]:
    yield from card.sheets
    yield from (Text(line[0].upper() + line[1:]) for line in card.lines)
    yield Text(f"Was tuning the loss worth it? {card.verdict}", "quiet")


def _limits(card: Card) -> Iterator[str]:
    if any(evaluation.point.certificate is not None for evaluation in card.points):
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
    counts, digits = adding_up(people(*rates, Sizes(1, 1, 1, 1), prevalence))
    caught, missed, false_alarms = (counts[kind] for kind in ("caught", "missed", "false_alarms"))
    of_these = f"at a share of {100 * prevalence:.3g} % there are {caught + missed:,} {positive}"
    return (
        f"Of {1000 * 10**digits:,} cases {of_these}: about {caught:,} are flagged and {missed:,} missed, "
        f"and {false_alarms:,} others are flagged in vain."
    )


def _count(cases: float) -> str:
    """A number of cases; with weights it may be a fraction."""
    return f"{cases:,.0f}" if float(cases).is_integer() else f"{cases:,.1f}"
