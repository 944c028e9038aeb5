"""``lossdial evaluate --report card.html``: one page for those who decide whether a model may be used.

One file that needs no other: what the model is for, what each operating point promises and does, on what evidence, what
holds elsewhere, and what nobody knows.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lossdial.base.files import file_sha256, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lossdial import Bundle, Dial
    from lossdial.cli.report import Sheet
    from lossdial.dial import BandEvaluation, Estimate, Evaluation

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
_PICTURES: Final = {
    "precision_recall": "Precision and recall. A shaded box is where a certificate says that the truth lies.",
    "roc": "Found against raised in vain (ROC), with the same boxes.",
    "reliability": "Do the probabilities keep their word? They do where the curve follows the diagonal; the shaded "
    "band is certain for the whole curve at once.",
    "decision_curve": "Is acting on it worth more than acting on everyone, or on no one? Shaded: 95 % intervals.",
}
_STYLE: Final = """
:root { color-scheme: light } * { box-sizing: border-box }
body { font: 15px/1.55 system-ui, "Segoe UI", sans-serif; color: #1c2430; background: #fff; max-width: 62rem;
  margin: 0 auto; padding: 2rem 1.25rem 3rem }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem;
  border-bottom: 2px solid #1c2430; padding-bottom: .2rem } h3 { font-size: 1.02rem; margin: 1.1rem 0 .3rem }
p { margin: .4rem 0; max-width: 48rem } .lead { font-size: 1.08rem } .quiet { color: #55606e; font-size: .9rem }
.point { border: 1px solid #d4dae2; border-radius: .5rem; padding: .4rem 1.1rem 1rem; margin: 1rem 0 }
.scroll { overflow-x: auto } table { border-collapse: collapse; margin: .5rem 0; font-size: .93rem }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #e1e6ec; text-align: left; vertical-align: top }
th { font-weight: 600; color: #3c4653 } td.n { font-variant-numeric: tabular-nums; white-space: nowrap }
.held { border-left: .35rem solid #0072b2; background: #eef5fa; padding: .5rem .9rem; margin: .7rem 0 }
.open { border-left: .35rem solid #d55e00; background: #fdf3ec; padding: .5rem .9rem; margin: .7rem 0 }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.2rem }
figure { margin: 0 } figcaption { font-size: .9rem; color: #3c4653 } img { width: 100%; height: auto }
code { font-size: .9em; overflow-wrap: anywhere }
@media print { body { max-width: none; padding: 0 } .point, figure { break-inside: avoid } }
"""


class _Html(str):
    """Markup of our own, not to be escaped."""

    __slots__ = ()


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
    title = f"Is {Path(card.run).name} fit for use?"
    parts = [
        f"<h1>{escape(title)}</h1>",
        *_about(card),
        *_points(card),
        *_bands(card),
        *_more(card),
        *_pictures(figures),
        *_limits(card),
    ]
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    )
    write(path, (head + "\n".join(parts) + "</html>\n").encode())


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
        rows.insert(2, ("that file's SHA-256", _Html(f"<code>{file_sha256(Path(card.data))}</code>")))
    yield _table(rows)
    for note in card.notes:
        yield f'<p class="open">{escape(note)}</p>'


def _points(card: Card) -> Iterator[str]:
    yield "<h2>What each operating point does</h2>"
    yield (
        '<p class="quiet">An operating point is a threshold chosen for an aim. Figures come with 95 % intervals: '
        "value [low, high].</p>"
    )
    for evaluation in card.points:
        point, counts = evaluation.point, evaluation.counts
        yield f'<section class="point"><h3>‘{escape(evaluation.name)}’</h3>'
        yield f"<p>Its aim: {escape(evaluation.objective)}.</p>"
        yield (
            f"<p>An alert where the probability exceeds {point.threshold_probability:.3g}. Here it flags "
            f"{_count(counts.tp)} of {_count(counts.tp + counts.fn)} {escape(card.positive)} and misses "
            f"{_count(counts.fn)}; of {_count(counts.fp + counts.tn)} others it flags {_count(counts.fp)} in vain.</p>"
        )
        if evaluation.note:
            yield f'<p class="open">{escape(evaluation.note)}</p>'
        else:
            found = card.dial.metrics(list(_FIGURES), point)
            at = "" if point.prevalence is None else f" (restated at prevalence {point.prevalence:.3g})"
            rows = [(_FIGURES[name].format(positive=card.positive), _figure(found[name])) for name in _FIGURES]
            yield _table(rows, ("figure" + at, "here"))
            yield f"<p>{escape(_thousand(found, evaluation.prevalence, card.positive))}</p>"
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
    yield _table(rows, ("what", "how much", "accepted where certified"))
    note = f" {escape(' '.join(filter(None, [certificate.note, certificate.together])))}"
    yield f'<p class="quiet">On {certificate.rows}; data <code>{certificate.data[:16]}</code>.{note}</p>'
    try:
        shares = sorted({*_ELSEWHERE, *([] if point.prevalence is None else [point.prevalence])})
        there = [point.at(share) for share in shares]
    except NotCertified as reason:
        yield f'<p class="quiet">{escape(str(reason))}</p></div>'
        return
    yield "<p>If only the share of positives changes, these hold, too, at the same confidence:</p>"
    yield _table(
        [
            (
                f"{100 * found.prevalence[0]:.3g} %",
                f"at least {found.precision:.3g}",
                f"at least {found.npv:.5g}",
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
            seen = "" if figure is None else f"{name} {_figure(figure)}"
            each = f"{1000 * share.value:.0f} [{1000 * share.low:.0f}, {1000 * share.high:.0f}]"
            rows.append((action, each, promised, seen))
        yield _table(rows, ("action", "cases of 1,000", f"certified at {100 * band.confidence:.4g} %", "here"))
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
        yield _table([tuple(map(escape, row)) for row in sheet.rows], tuple(map(escape, sheet.columns)), plain=False)
        yield f'<p class="quiet">{escape(sheet.note)}</p>'
    for line in card.lines:
        yield f"<p>{escape(line[0].upper() + line[1:])}</p>"
    yield f'<p class="quiet">Was tuning the loss worth it? {escape(card.verdict)}</p>'


def _pictures(figures: Mapping[str, Figure]) -> Iterator[str]:
    if not figures:
        return
    yield '<h2>Pictures</h2><div class="pictures">'
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130)
        encoded = base64.b64encode(buffer.getvalue()).decode()
        caption = escape(_PICTURES.get(name, name))
        image = f'<img alt="{caption}" src="data:image/png;base64,{encoded}">'
        yield f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    yield "</div>"


def _limits(card: Card) -> Iterator[str]:
    certified = any(evaluation.point.certificate is not None for evaluation in card.points) or card.bands
    yield "<h2>What this page cannot say</h2><ul>"
    if certified:
        yield (
            "<li>A certificate holds for new cases drawn like those that certified it. Where cases look different "
            "(another scanner, another hospital's patients) it promises nothing; a different share of positives alone "
            "does it no harm.</li>"
        )
    yield (
        "<li>Whether it still holds next year. <code>lossdial watch</code> looks at outcomes as they come and says "
        "when a certificate is refuted.</li><li>What acting, or not acting, does to a patient. The figures are of "
        "labels, not of outcomes of care.</li></ul>"
    )


def _thousand(found: Mapping[str, Estimate], prevalence: float, positive: str) -> str:
    """The figures as counts of people."""
    ill = 1000 * prevalence
    caught = ill * found["recall"].value
    vain = (1000 - ill) * (1 - found["specificity"].value)
    return (
        f"Of 1,000 cases at a share of {100 * prevalence:.3g} % there are {ill:.0f} {positive}: about {caught:.0f} are "
        f"flagged and {ill - caught:.0f} missed, and {vain:.0f} others are flagged in vain."
    )


def _count(cases: float) -> str:
    """A number of cases; weights may make parts of one."""
    return f"{cases:,.0f}" if float(cases).is_integer() else f"{cases:,.1f}"


def _figure(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), plain: bool = True) -> str:
    """Cells hold text without markup of strangers; the first of a row is its name."""

    def cell(text: str, k: int) -> str:
        safe = text if not plain or isinstance(text, _Html) else escape(text)
        return f'<td class="n">{safe}</td>' if k and text[:1].isdigit() and len(text) < 32 else f"<td>{safe}</td>"

    top = "<tr>" + "".join(f"<th>{escape(h) if plain else h}</th>" for h in head) + "</tr>" if head else ""
    body = "".join("<tr>" + "".join(cell(text, k) for k, text in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="scroll"><table>{top}{body}</table></div>'
