"""``lossdial evaluate --report card.html``: one page for those who decide whether a model may be used.

One file that needs no other: what the model is for, what each operating point promises and does, on what evidence, what
holds elsewhere, and what nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lossdial.base.files import file_sha256, write
from lossdial.cli.report import CAPTIONS, Html, Sheet, page, pictures, png_of, table
from lossdial.dial import rounded
from lossdial.explorer.figures import Sizes, adding_up, people

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lossdial import Bundle, Dial
    from lossdial.dial import BandEvaluation, Estimate, Evaluation, Referral
    from lossdial.dial.certificates.certificate import Certificate

__all__ = ["Card", "write_card"]

_ELSEWHERE: Final = (0.001, 0.01, 0.05, 0.2)
_FIGURES: Final = {
    "recall": "of all {positive}, the share that it flags (recall)",
    "specificity": "of all others, the share that it leaves alone (specificity)",
    "precision": "of all alerts, the share that is right (precision)",
    "npv": "of all cases without an alert, the share that is rightly so (NPV)",
    "alert_rate": "share of all cases that raise an alert",
    "auc": "ranking: how often one of the {positive} scores above one of the others (AUC)",
    "brier": "mean squared error of the probabilities (Brier score)",
}


@dataclass(frozen=True, eq=False)
class Card:
    """What the page tells of."""

    run: str
    bundle: Bundle
    dial: Dial
    points: Sequence[Evaluation]
    bands: Sequence[BandEvaluation]
    data: str | None
    purpose: str | None
    notes: Sequence[str]
    verdict: str
    sheets: Sequence[Sheet] = ()
    lines: Sequence[str] = ()

    @property
    def positive(self) -> str:
        """What the cases looked for are called; a label that is a number is no name."""
        return self._called(1, "positives")

    @property
    def negative(self) -> str:
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
    parts = [
        *_about(card),
        *_answer(card),
        *_points(card),
        *_bands(card),
        *_more(card),
        *(["<h2>Pictures</h2>", pictures(drawn, CAPTIONS)] if drawn else []),
        *_limits(card),
    ]
    write(path, page(f"{Path(card.run).name}: what it does, and what it promises", parts))


def _about(card: Card) -> Iterator[str]:
    training, surface = card.bundle.training, card.dial.surface
    other, sought = map(str, card.bundle.predictor.classes)
    purpose = card.purpose or f"It looks for {sought!r} among cases that are otherwise {other!r}."
    yield f'<p class="lead">{escape(purpose)}</p>'
    source = card.data or "the samples held out in training, on which points may have been tuned"
    held = f"{surface.n_positive:,} {card.positive} and {surface.n_negative:,} {card.negative}"
    rows = [
        ("looks for", f"{sought!r} (the other label: {other!r})"),
        ("measured on", f"{source}: {held}"),
        ("share of positives", f"{training.prevalence:.3g} in training, {surface.prevalence:.3g} where measured"),
        ("trained with", f"the loss {training.loss.get('name', 'of its own')}, {training.steps:,} steps"),
    ]
    if card.data is not None and Path(card.data).is_file():
        rows.insert(2, ("that file's SHA-256", Html(f"<code>{file_sha256(Path(card.data))}</code>")))
    yield table(rows)
    for note in card.notes:
        yield f'<p class="open">{escape(note)}</p>'


def _answer(card: Card) -> Iterator[str]:
    """In short, of each point: what holds for new cases, and what came of it here."""
    yield "<h2>In short</h2>"
    for evaluation in card.points:
        certificate, counts = evaluation.point.certificate, evaluation.counts
        if certificate is None:
            promise = "nothing is promised for new cases"
        else:
            bounds = " and ".join(f"{b.metric} {'≥' if b.at_least else '≤'} {b.value:.4g}" for b in certificate.bounds)
            promise = f"{bounds} hold{'s' if len(certificate.bounds) == 1 else ''} for new cases, {_sure(certificate)}"
        missed = [f"{floor}" for floor in evaluation.floors if not floor.met]
        kept = " and its bounds are kept" if evaluation.floors and not missed else ""
        here = f"here it flags {_count(counts.tp)} of {_count(counts.tp + counts.fn)} {card.positive}{kept}"
        text = "; ".join([promise, here, *missed])
        style = "open" if certificate is None or missed else "held"
        yield f'<p class="{style}"><b>‘{escape(evaluation.name)}’</b>: {escape(text)}.</p>'
    for each in card.bands:
        yield f'<p class="held"><b>‘{escape(each.name)}’</b>: {escape(each.band.objective)}, {_sure(each.band)}.</p>'


def _sure(promise: Certificate | Referral) -> str:
    return f"certified at {100 * promise.confidence:.4g} %{' over groups' if promise.unit == 'group' else ''}"


def _points(card: Card) -> Iterator[str]:
    yield "<h2>What each operating point does</h2>"
    yield (
        '<p class="quiet">An operating point is a threshold chosen for an aim. Figures come with 95 % intervals: '
        "value [low, high].</p>"
    )
    for evaluation in card.points:
        point, counts = evaluation.point, evaluation.counts
        yield f'<section class="point"><h3>‘{escape(evaluation.name)}’</h3>'
        yield f"<p>Its aim: {escape(evaluation.description)}.</p>"
        yield (
            f"<p>An alert where the score exceeds {escape(point.spelled_threshold)}. Here it flags "
            f"{_count(counts.tp)} of {_count(counts.tp + counts.fn)} {escape(card.positive)} and misses "
            f"{_count(counts.fn)}; of {_count(counts.fp + counts.tn)} others it flags {_count(counts.fp)} in vain.</p>"
        )
        if evaluation.note:
            yield f'<p class="open">{escape(evaluation.note)}</p>'
        else:
            found = card.dial.metrics(list(_FIGURES), point)
            at = "" if point.prevalence is None else f" (restated at prevalence {point.prevalence:.3g})"
            rows = [(_FIGURES[name].format(positive=card.positive), str(found[name])) for name in _FIGURES]
            yield table(rows, ("figure" + at, "here"))
            yield f"<p>{escape(_people(found, evaluation.prevalence, card.positive))}</p>"
        floors = [f"{floor}" for floor in evaluation.floors]
        if floors:
            yield f"<p>Its bounds on these data: {escape('; '.join(floors))}.</p>"
        yield from _promised(evaluation)
        yield "</section>"


def _promised(evaluation: Evaluation) -> Iterator[str]:
    """The certificate: what, how much, on how many, which data; and what follows elsewhere."""
    from lossdial.dial import NotCertified

    point = evaluation.point
    certificate = point.certificate
    if certificate is None:
        likely = f" {point.holding.partition(' (confidence')[0]}." if point.holding not in ("", "not certified") else ""
        yield f'<div class="open"><b>Not certified.</b>{escape(likely)} Nothing is promised for new cases.</div>'
        return
    over = ", over groups, one row of each drawn at random" if certificate.unit == "group" else ""
    yield (
        f'<div class="held"><b>Certified at {100 * certificate.confidence:.4g} %</b>{over}: all of these hold at once '
        "for new cases drawn like those that certified it."
    )
    rows = [
        (
            f"{bound.metric} is at {'least' if bound.at_least else 'most'}",
            f"{bound.value:.4g}",
            f"{bound.hits} of {bound.n}",
        )
        for bound in certificate.bounds
    ]
    yield table(rows, ("what", "how much", "accepted where certified"))
    note = f" {escape(' '.join(filter(None, [certificate.note, certificate.together])))}"
    yield f'<p class="quiet">On {certificate.rows}; data <code>{certificate.data[:16]}</code>.{note}</p>'
    try:
        shares = sorted({*_ELSEWHERE, *([] if point.prevalence is None else [point.prevalence])})
        there = [point.at(share) for share in shares]
    except NotCertified as reason:
        yield f'<p class="quiet">{escape(str(reason))}</p></div>'
        return
    yield "<p>If only the share of positives changes, these hold, too, at the same confidence:</p>"
    yield table(
        [
            (
                f"{100 * found.prevalence[0]:.3g} %",
                f"at least {rounded(found.precision)}",
                f"at least {rounded(found.npv)}",
                f"{found.alert_rate[0]:.3g} to {found.alert_rate[1]:.3g}",
            )
            for found in there
        ],
        ("share of positives", "precision", "NPV", "alerts, share of cases"),
    )
    yield "</div>"


def _bands(card: Card) -> Iterator[str]:
    if not card.bands:
        return
    yield "<h2>Where a person looks</h2>"
    for evaluation in card.bands:
        band = evaluation.band
        yield f'<section class="point"><h3>‘{escape(band.name)}’</h3>'
        yield (
            f"<p>Two thresholds: cases below are cleared, cases above acted on, and those between go to a person. Per "
            f"1,000 cases at a share of {100 * band.prevalence:.3g} % positives:</p>"
        )
        ends = {"clear": ("NPV", evaluation.npv, band.npv), "act": ("precision", evaluation.precision, band.precision)}
        rows = []
        for action, share in evaluation.shares.items():
            name, figure, floor = ends.get(action, ("", None, 0.0))
            promised = f"{name} at least {floor:.4g}" if figure is not None else ""
            seen = "" if figure is None else f"{name} {figure}"
            each = "{} [{}, {}]".format(*(rounded(1000 * x, 1, 1000) for x in (share.value, share.low, share.high)))
            rows.append((action, each, promised, seen))
        yield table(rows, ("action", "cases of 1,000", f"certified at {100 * band.confidence:.4g} %", "here"))
        over = ", over groups" if band.unit == "group" else ""
        yield (
            f'<p class="quiet">Certified on {band.n_positive} positives and {band.n_negative} negatives{over}; data '
            f"<code>{band.data[:16]}</code>. {escape(band.note)}</p></section>"
        )


def _more(card: Card) -> Iterator[str]:
    if card.sheets or card.lines:
        yield "<h2>Looked at more closely</h2>"
    for sheet in card.sheets:
        yield f"<h3>{escape(sheet.title)}</h3>"
        yield table(sheet.rows, sheet.columns)
        yield f'<p class="quiet">{escape(sheet.note)}</p>'
    for line in card.lines:
        yield f"<p>{escape(line[0].upper() + line[1:])}</p>"
    yield f'<p class="quiet">Was tuning the loss worth it? {escape(card.verdict)}</p>'


def _limits(card: Card) -> Iterator[str]:
    certified = any(evaluation.point.certificate is not None for evaluation in card.points) or card.bands
    yield "<h2>What this page cannot say</h2><ul>"
    if certified:
        yield (
            "<li>A certificate holds for new cases drawn like those that certified it. Where cases look different "
            "(from another source, or of other people) it promises nothing; a different share of positives alone does "
            "it no harm.</li>"
        )
    yield (
        "<li>Whether it still holds next year. <code>lossdial monitor</code> looks at outcomes as they come and says "
        "when a certificate is refuted.</li><li>What comes of acting, or of not acting. The figures are of labels, "
        "not of what happens afterwards.</li><li>Whether that is enough: those who decide weigh the misses and the "
        "false alarms above.</li></ul>"
    )


def _people(found: Mapping[str, Estimate], prevalence: float, positive: str) -> str:
    """The figures as counts of cases: of as many thousands as it takes for nobody to be rounded away."""
    rates = found["recall"].value, 1 - found["specificity"].value
    counts, digits = adding_up(people(*rates, Sizes(1, 1, 1, 1), prevalence))
    caught, missed, vain = (counts[kind] for kind in ("caught", "missed", "false_alarms"))
    there = f"at a share of {100 * prevalence:.3g} % there are {caught + missed:,} {positive}"
    return (
        f"Of {1000 * 10**digits:,} cases {there}: about {caught:,} are flagged and {missed:,} missed, "
        f"and {vain:,} others are flagged in vain."
    )


def _count(cases: float) -> str:
    """A number of cases; weights may make parts of one."""
    return f"{cases:,.0f}" if float(cases).is_integer() else f"{cases:,.1f}"
