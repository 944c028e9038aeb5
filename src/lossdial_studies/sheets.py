"""A table of words and figures that is not the paper's, and how it is written: Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from typing import Final

from lossdial_studies.against import BAR, CONFIDENCE, HALVINGS, LEARNED, SETTING, Against, Difference
from lossdial_studies.methods import method
from lossdial_studies.rendering import escape_latex, escape_markdown

__all__ = ["TextTable", "against_tables", "written"]

_HEADINGS: Final = (
    "",
    "AUC",
    "search, same seeds",
    "difference",
    f"at least ({CONFIDENCE:.0%})",
    f"not worse by more than {BAR:g}",
    "trainings",
    "seconds (seeds)",
)
_LAM: Final = "γ ~ L(0, 0.3, 0), τ ~ L(0, 3, 0.33)"


@dataclass(frozen=True)
class TextTable:
    """Text in rows, the first column names; notes stand below."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def against_tables(found: Against) -> tuple[TextTable, TextTable]:
    """The differences, each with its verdict; and what every setting of the search gave by itself."""
    search, n = method(found.search).title, found.trainings
    baseline = (f"{search}, best of {n}", f"{found.auc:.4f}")
    best = TextTable(
        f"One training against the best of {n}: AUC, {found.about}",
        _HEADINGS,
        (
            (*baseline, *[""] * 4, str(n), f"{found.seconds:,.0f} ({len(found.seeds)})"),
            *(_line(one) for one in found.differences),
        ),
        (
            f"LCT is trained over {_LAM} (setting {SETTING}). The search's setting and LCT's λ are chosen on "
            "one half of the evaluation data and measured on the other, halves swapped, for each seed; figures "
            f"and bounds are means over {HALVINGS} random halvings, with the share whose own bound is within the bar.",
            "Runs of the same seed have the same training images, and are compared seed by seed. Bounds are one-sided, "
            "over seeds and test rows, as for readers and cases (Obuchowski and Rockette; Hillis).",
            "Seconds are by the clock of a machine that had other work, of one training and of the whole search.",
            *(
                [f"Left out: seed {', '.join(map(str, found.left_out))}, of which the search is not complete."]
                * bool(found.left_out)
            ),
        ),
    )
    notes = []
    plain, top, last = found.plain, found.settings[0], found.settings[-1]
    if plain is not None:
        verdict = "reached" if plain.auc >= LEARNED else f"missed by {LEARNED - plain.auc:.4f}"
        notes.append(f"Cross entropy, {plain.lam}: {plain.auc:.4f}; the bar of {LEARNED:g} is {verdict}.")
        verdict = "reached" if top.auc >= LEARNED else f"missed by {LEARNED - top.auc:.4f}"
        notes.append(f"The best fixed setting, {top.lam}: {top.auc:.4f}; the bar of {LEARNED:g} is {verdict}.")
    averaged = "; ".join(f"{size}: {auc:.4f}" for size, auc in found.averaged)
    notes.append(f"The scores of so many of a seed's trainings averaged, at random: {averaged}.")
    notes.append(
        f"From the best to the worst setting: {top.auc - last.auc:.4f}. All of the evaluation data; ±: over seeds."
    )
    each = TextTable(
        f"{search} at each setting: AUC, {found.about}",
        ("λ", "AUC", "±", "seeds"),
        tuple(
            (s.lam, f"{s.auc:.4f}", "" if s.n_seeds < 2 else f"{s.spread:.4f}", str(s.n_seeds)) for s in found.settings
        ),
        tuple(notes),
    )
    return best, each


def _line(one: Difference) -> tuple[str, ...]:
    verdict = f"{'reached' if one.reached else 'missed'} ({100 * one.kept:.0f} %)"
    return (
        f"{method(one.method).title}, one",
        f"{one.auc:.4f}",
        f"{one.search:.4f}",
        f"{one.difference:+.4f}",
        "–" if math.isnan(one.low) else f"{one.low:+.4f}",
        verdict,
        "1",
        f"{one.seconds:,.0f} ({len(one.seeds)})",
    )


def written(table: TextTable, format: str) -> str:
    """As Markdown, LaTeX or CSV."""
    if format == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([table.headings, *table.rows])
        return buffer.getvalue()
    if format == "latex":
        lines = [" & ".join(map(escape_latex, row)) + r" \\" for row in (table.headings, *table.rows)]
        body = "\n".join([r"\hline", lines[0], r"\hline", *lines[1:], r"\hline"])
        notes = "\n\n".join(map(escape_latex, table.notes))
        return (
            f"\\begin{{table}}[tb]\n\\caption{{{escape_latex(table.title)}}}\n\\centering\\scriptsize\n"
            f"\\begin{{tabular}}{{l{'r' * (len(table.headings) - 1)}}}\n{body}\n\\end{{tabular}}\n\n"
            f"\\raggedright\n{notes}\n\\end{{table}}\n"
        )
    rule = ["---", *["---:"] * (len(table.headings) - 1)]
    body = "\n".join(f"| {' | '.join(map(escape_markdown, row))} |" for row in (table.headings, rule, *table.rows))
    notes = "\n".join(f"- {escape_markdown(note)}" for note in table.notes)
    return f"**{escape_markdown(table.title)}**\n\n{body}\n\n{notes}\n"
