"""A table of results, ours beside the paper's, and its four faces: terminal, Markdown, LaTeX and CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from lossdial_studies.protocols import Best, Protocol

__all__ = [
    "Cell",
    "Marks",
    "ResultTable",
    "Row",
    "escape_latex",
    "escape_markdown",
    "to_csv",
    "to_latex",
    "to_markdown",
    "to_terminal",
]

_COST: Final = "trainings (seeds)"
_MISSING: Final = "–"
_MARKDOWN: Final = str.maketrans({c: f"\\{c}" for c in "\\|*_<"})
_LATEX: Final = str.maketrans(
    {
        **{c: f"\\{c}" for c in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "λ": r"$\lambda$", "σ": r"$\sigma$", "τ": r"$\tau$"},
        **{"φ": r"$\phi$", "±": r"$\pm$", "≥": r"$\geq$", "†": r"\dag{}", "–": "--"},
    }
)


@dataclass(frozen=True)
class Marks:
    """best: of its column, bold. better: of a method with and without LCT, underlined."""

    best: bool = False
    better: bool = False


@dataclass(frozen=True)
class Cell:
    """Our figure and the paper's of one metric and method on one data set; either may be missing."""

    metric: str
    method: str
    data: str
    beta: float
    ours: Best | None
    paper: float | None = None
    marks: Marks = Marks()
    paper_marks: Marks = Marks()


@dataclass(frozen=True)
class Row:
    """A line of a table; a rule follows where a section ends."""

    label: str
    cells: tuple[Cell, ...]
    ends_section: bool = False


@dataclass(frozen=True)
class ResultTable:
    """What every face is drawn from."""

    title: str
    protocol: Protocol
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def to_terminal(table: ResultTable) -> Table:
    """For a rich console; one with ``soft_wrap`` runs over its width rather than cut a table of many columns."""
    result = Table(title=Text(table.title), caption=Text("\n".join(table.notes)), box=SIMPLE_HEAD, pad_edge=False)
    result.title_justify = result.caption_justify = "left"
    # A figure may be broken between its words, never within: each column is as wide as its longest.
    result.add_column("", min_width=max((len(row.label) for row in table.rows), default=1))
    for heading in (*table.headings, _COST):
        word = max(map(len, [*heading.split(), "(0.000)"]))
        result.add_column(Text(heading), justify="right", min_width=word)
    for row in table.rows:
        cells = [Text(" ").join(Text.assemble(*map(_styled, part)) for part in _parts(cell)) for cell in row.cells]
        result.add_row(Text(row.label), *cells, Text(_cost(row)), end_section=row.ends_section)
    return result


def to_markdown(table: ResultTable) -> str:
    """A GitHub table under its title, the notes as a list below; underlines are ``<u>``."""
    lines = [["", *map(escape_markdown, table.headings), _COST], ["---", *["---:"] * (len(table.headings) + 1)]]
    for row in table.rows:
        cells = (" ".join(_written(cell, escape_markdown, "**{}**", "<u>{}</u>")) for cell in row.cells)
        lines.append([escape_markdown(row.label), *cells, _cost(row)])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "\n".join(f"- {escape_markdown(note)}" for note in table.notes)
    return f"**{escape_markdown(table.title)}**\n\n{body}\n\n{notes}\n"


def to_latex(table: ResultTable) -> str:
    """A ``table`` environment that needs no package; the paper's figure is below ours, for nine columns to fit."""
    headings = (_stacked(escape_latex(heading).split(" ", 1)) for heading in (*table.headings, _COST))
    lines = [r"\hline", f"Method & {' & '.join(headings)} \\\\", r"\hline"]
    for row in table.rows:
        cells = (_stacked(_written(cell, escape_latex, r"\textbf{{{}}}", r"\underline{{{}}}")) for cell in row.cells)
        lines.append(f"{escape_latex(row.label)} & {' & '.join([*cells, escape_latex(_cost(row))])} \\\\")
        if row.ends_section:
            lines.append(r"\hline")
    if lines[-1] != r"\hline":
        lines.append(r"\hline")
    body = "\n".join(lines)
    spec = "l" + "c" * (len(table.headings) + 1)
    notes = "\n\n".join(escape_latex(note) for note in table.notes)
    return (
        f"\\begin{{table}}[tb]\n\\caption{{{escape_latex(table.title)}}}\n\\centering\\scriptsize\n"
        f"\\setlength{{\\tabcolsep}}{{3pt}}\n\\begin{{tabular}}{{{spec}}}\n{body}\n\\end{{tabular}}\n\n"
        f"\\raggedright\n{notes}\n\\end{{table}}\n"
    )


def to_csv(table: ResultTable) -> str:
    """One line per cell, figures unrounded; ``best`` and ``better`` are the marks of ours."""
    lines = [
        {
            "metric": cell.metric,
            "protocol": table.protocol,
            "method": cell.method,
            "data": cell.data,
            "beta": cell.beta,
            "value": cell.ours.value if cell.ours else None,
            "spread": cell.ours.spread if cell.ours else None,
            "seeds": cell.ours.n_seeds if cell.ours else None,
            "trainings": cell.ours.trainings if cell.ours else None,
            "paper": cell.paper,
            "best": cell.marks.best,
            "better": cell.marks.better,
        }
        for row in table.rows
        for cell in row.cells
    ]
    # Int64 has a missing value of its own: counts stay whole numbers beside an empty cell.
    return pd.DataFrame(lines).astype({"seeds": "Int64", "trainings": "Int64"}).to_csv(index=False)


@dataclass(frozen=True)
class _Span:
    text: str
    marks: Marks = Marks()


def _parts(cell: Cell) -> list[list[_Span]]:
    """Our figure, then the paper's if there is one."""
    ours = [_Span(_MISSING)]
    if cell.ours is not None:
        ours = [_Span(f"{cell.ours.value:.3f}", cell.marks)]
        if not math.isnan(cell.ours.spread):
            ours.append(_Span(f" ±{cell.ours.spread:.3f}".replace("±0.", "±.")))
    if cell.paper is None:
        return [ours]
    return [ours, [_Span("("), _Span(f"{cell.paper:.3f}", cell.paper_marks), _Span(")")]]


def _written(cell: Cell, escape: Callable[[str], str], bold: str, underline: str) -> list[str]:
    parts = []
    for spans in _parts(cell):
        text = ""
        for span in spans:
            piece = escape(span.text)
            piece = underline.format(piece) if span.marks.better else piece
            text += bold.format(piece) if span.marks.best else piece
        parts.append(text)
    return parts


def _styled(span: _Span) -> Text:
    styles = [name for name, on in (("bold", span.marks.best), ("underline", span.marks.better)) if on]
    return Text(span.text, style=" ".join(styles))


def _cost(row: Row) -> str:
    """How many trainings, and of how many seeds, a figure of this row took; a range where columns differ."""
    found = [cell.ours for cell in row.cells if cell.ours is not None]
    if not found:
        return _MISSING
    return f"{_range([b.trainings for b in found])} ({_range([b.n_seeds for b in found])})"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


def escape_markdown(text: str) -> str:
    return text.translate(_MARKDOWN)


def escape_latex(text: str) -> str:
    return text.translate(_LATEX)


def _stacked(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else rf"\shortstack{{{parts[0]}\\{parts[1]}}}"
