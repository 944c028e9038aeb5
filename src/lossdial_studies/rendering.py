"""Tables, and how they are written: the paper's with our figures beside its own, and tables of words and figures."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lossdial_studies.protocols import Best, Protocol

Format = Literal["markdown", "latex", "csv"]

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
class ResultCell:
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
class ResultRow:
    """A line of a table; a rule follows where a section ends."""

    label: str
    cells: tuple[ResultCell, ...]
    ends_section: bool = False


@dataclass(frozen=True)
class ResultTable:
    """A table of the paper."""

    title: str
    protocol: Protocol
    headings: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TextTable:
    """Text in rows, the first column names; notes stand below."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def written(table: ResultTable | TextTable, format: Format) -> str:
    """A table as Markdown for GitHub, as LaTeX that needs no package, or as CSV with its figures unrounded."""
    if isinstance(table, TextTable):
        return _written_text(table, format)
    return {"markdown": _markdown, "latex": _latex, "csv": _csv}[format](table)


def _written_text(table: TextTable, format: Format) -> str:
    if format == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([table.headings, *table.rows])
        return buffer.getvalue()
    lines = (table.headings, *table.rows)
    if format == "markdown":
        return _markdown_of(table.title, [list(map(_escape_markdown, line)) for line in lines], table.notes)
    headings, *rows = (" & ".join(map(_escape_latex, line)) + r" \\" for line in lines)
    body = [r"\hline", headings, r"\hline", *rows, r"\hline"]
    return _latex_of(table.title, "l" + "r" * (len(table.headings) - 1), body, table.notes)


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


def fitted(table: ResultTable, console: Console) -> Iterator[Table]:
    """For a console: as many columns at a time as it has room for."""

    def width(some: ResultTable) -> int:  # as it is drawn: what a column needs may be more than what is measured
        bare = to_terminal(replace(some, title="", notes=()))
        return max(Segment.get_line_length(line) for line in Segment.split_lines(console.render(bare)))

    def columns(start: int, end: int) -> ResultTable:
        rows = tuple(replace(row, cells=row.cells[start:end]) for row in table.rows)
        return replace(table, headings=table.headings[start:end], rows=rows)

    start, stop = 0, len(table.headings)
    while start < stop:
        end = stop
        while end > start + 1 and width(columns(start, end)) > console.width:
            end -= 1
        title, notes = "" if start else table.title, table.notes if end == stop else ()
        yield to_terminal(replace(columns(start, end), title=title, notes=notes))
        start = end


def _markdown(table: ResultTable) -> str:
    lines = [["", *map(_escape_markdown, table.headings), _COST]]
    for row in table.rows:
        cells = (" ".join(_spelled(cell, _escape_markdown, "**{}**", "<u>{}</u>")) for cell in row.cells)
        lines.append([_escape_markdown(row.label), *cells, _cost(row)])
    return _markdown_of(table.title, lines, table.notes)


def _markdown_of(title: str, lines: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    rule = ["---", *["---:"] * (len(lines[0]) - 1)]
    body = "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))
    listed = "\n".join(f"- {_escape_markdown(note)}" for note in notes)
    return f"**{_escape_markdown(title)}**\n\n{body}\n\n{listed}\n"


def _latex(table: ResultTable) -> str:
    """The paper's figure is below ours, for nine columns to fit."""
    headings = (_stacked(_escape_latex(heading).split(" ", 1)) for heading in (*table.headings, _COST))
    lines = [r"\hline", f"Method & {' & '.join(headings)} \\\\", r"\hline"]
    for row in table.rows:
        cells = (_stacked(_spelled(cell, _escape_latex, r"\textbf{{{}}}", r"\underline{{{}}}")) for cell in row.cells)
        lines.append(f"{_escape_latex(row.label)} & {' & '.join([*cells, _escape_latex(_cost(row))])} \\\\")
        if row.ends_section:
            lines.append(r"\hline")
    if lines[-1] != r"\hline":
        lines.append(r"\hline")
    columns = "l" + "c" * (len(table.headings) + 1)
    return _latex_of(table.title, columns, lines, table.notes, "\\setlength{\\tabcolsep}{3pt}\n")


def _latex_of(title: str, columns: str, lines: Sequence[str], notes: Sequence[str], setting: str = "") -> str:
    body, below = "\n".join(lines), "\n\n".join(map(_escape_latex, notes))
    return (
        f"\\begin{{table}}[tb]\n\\caption{{{_escape_latex(title)}}}\n\\centering\\scriptsize\n{setting}"
        f"\\begin{{tabular}}{{{columns}}}\n{body}\n\\end{{tabular}}\n\n\\raggedright\n{below}\n\\end{{table}}\n"
    )


def _csv(table: ResultTable) -> str:
    """One line per cell; ``best`` and ``better`` are the marks of ours."""
    lines = [
        {
            **{"metric": cell.metric, "protocol": table.protocol, "method": cell.method},
            **{"data": cell.data, "beta": cell.beta},
            "value": cell.ours.value if cell.ours else None,
            "spread": cell.ours.spread if cell.ours else None,
            "seeds": cell.ours.n_seeds if cell.ours else None,
            "trainings": cell.ours.trainings if cell.ours else None,
            **{"paper": cell.paper, "best": cell.marks.best, "better": cell.marks.better},
        }
        for row in table.rows
        for cell in row.cells
    ]
    # Int64 has a missing value of its own: counts stay whole numbers beside an empty cell.
    return pd.DataFrame(lines).astype({"seeds": "Int64", "trainings": "Int64"}).to_csv(index=False)


_Span = tuple[str, Marks]


def _parts(cell: ResultCell) -> list[list[_Span]]:
    """Our figure, then the paper's if there is one."""
    plain = Marks()
    ours = [(_MISSING, plain)]
    if cell.ours is not None:
        ours = [(f"{cell.ours.value:.3f}", cell.marks)]
        if not math.isnan(cell.ours.spread):
            ours.append((f" ±{cell.ours.spread:.3f}".replace("±0.", "±."), plain))
    if cell.paper is None:
        return [ours]
    return [ours, [("(", plain), (f"{cell.paper:.3f}", cell.paper_marks), (")", plain)]]


def _spelled(cell: ResultCell, escape: Callable[[str], str], bold: str, underline: str) -> list[str]:
    parts = []
    for spans in _parts(cell):
        text = ""
        for piece, marks in spans:
            piece = underline.format(escape(piece)) if marks.better else escape(piece)
            text += bold.format(piece) if marks.best else piece
        parts.append(text)
    return parts


def _styled(span: _Span) -> Text:
    text, marks = span
    return Text(text, style=" ".join(["bold"] * marks.best + ["underline"] * marks.better))


def _cost(row: ResultRow) -> str:
    """How many trainings, and of how many seeds, a figure of this row took; a range where columns differ."""
    figures = [cell.ours for cell in row.cells if cell.ours is not None]
    if not figures:
        return _MISSING
    return f"{_range([b.trainings for b in figures])} ({_range([b.n_seeds for b in figures])})"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


def _escape_markdown(text: str) -> str:
    return text.translate(_MARKDOWN)


def _escape_latex(text: str) -> str:
    return text.translate(_LATEX)


def _stacked(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else rf"\shortstack{{{parts[0]}\\{parts[1]}}}"
