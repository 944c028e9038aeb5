"""What a command shows: a table for the terminal, and the same with pictures as a page to look at.

A table is as wide as its terminal, of 80 columns or more: one that is wider is shown in parts, each with the
first column again, and no figure is ever cut.
"""

from __future__ import annotations

import base64
import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from lossdial.base.files import write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Sheet", "note", "write_report"]

_GAP: Final = 2  # between columns
_NARROWEST: Final = 14  # that a column of words may be folded to
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2430; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1.5rem 0 } caption { text-align: left; font-weight: 600; padding: .5rem 0 }
th, td { padding: .35rem .9rem; border-bottom: 1px solid #d8dee6; text-align: right }
td { font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left } th { background: #f2f5f8 } .note { color: #5a6676 }
figure { margin: 1.5rem 0 } img { max-width: 100%; height: auto }
"""


@dataclass(frozen=True)
class Sheet:
    """A table of text: the first column is names, the others figures; those in ``words`` may be folded."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """For the terminal, in as many parts as its width asks for."""
        width = options.max_width
        yield from _paragraph(self.title, "italic", options)
        for number, part in enumerate(self._parts(width)):
            if number:
                yield ""
            yield self._table(part, width)
        yield from _paragraph(self.note, "dim italic", options)

    def _parts(self, width: int) -> Iterator[list[int]]:
        """Which columns go together: as many as fit beside the first."""
        widths = [self._width(i) for i in range(len(self.columns))]
        part, used = [0], widths[0]
        for i in range(1, len(widths)):
            if used + _GAP + widths[i] > width and len(part) > 1:
                yield part
                part, used = [0], widths[0]
            part.append(i)
            used += _GAP + widths[i]
        yield part

    def _width(self, i: int) -> int:
        """How wide a column must be for its figures to be whole; headings are folded between their words."""
        cells = max((cell_len(line) for row in self.rows for line in row[i].split("\n")), default=0)
        heading = max(cell_len(word) for word in _folded(self.columns[i]).split("\n"))
        return max(heading, min(cells, _NARROWEST) if self._folds(i) else cells)

    def _folds(self, i: int) -> bool:
        return self.columns[i] in self.words

    def _table(self, part: Sequence[int], width: int) -> Table:
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        fits = sum(self._natural(i) for i in part) + _GAP * (len(part) - 1) <= width
        for i in part:
            heading = self.columns[i] if fits else _folded(self.columns[i])
            folds = self._folds(i)
            right = i > 0 and not folds
            table.add_column(Text(heading), justify="right" if right else "left", no_wrap=not folds, overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(row[i]) for i in part))
        return table

    def _natural(self, i: int) -> int:
        return max(self._width(i), cell_len(self.columns[i]))

    def html(self) -> str:
        """For the page."""
        head = "".join(f"<th>{escape(c)}</th>" for c in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.rows)
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return f"<table><caption>{escape(self.title)}</caption><tr>{head}</tr>{body}</table>{note}"


def _paragraph(text: str, style: str, options: ConsoleOptions) -> Iterator[Text]:
    """Lines of text; between words on a terminal, which would fold them anywhere."""
    for line in text.splitlines():
        for piece in textwrap.wrap(line, options.max_width) if options.is_terminal else [line]:
            yield Text(piece, style)


def _folded(heading: str) -> str:
    """A heading on several lines, where its words meet: precision_at_recall@0.99."""
    lines: list[str] = []
    for word in re.findall(r"[^\s_@]+[_@]?|[_@]", heading):
        if lines and len(lines[-1]) + len(word) <= 10:
            lines[-1] += word if lines[-1][-1] in "_@" else f" {word}"
        else:
            lines.append(word)
    return "\n".join(lines)


def note(text: str) -> None:
    """A line that a reader should know of, beside the results."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"note: {text}", style="yellow", markup=False)


def write_report(
    folder: Path, title: str, summary: str, sheets: Sequence[Sheet], figures: Mapping[str, Figure]
) -> list[Path]:
    """Write ``report.html``, which needs no other file, and each figure as a PNG beside it; the paths.

    A line of the summary is a paragraph.
    """
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in summary.splitlines())
    parts = [f"<h1>{escape(title)}</h1>{paragraphs}", *(sheet.html() for sheet in sheets)]
    paths = [folder / "report.html"]
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150)
        paths.append(folder / f"{name}.png")
        write(paths[-1], buffer.getvalue())
        encoded = base64.b64encode(buffer.getvalue()).decode()
        parts.append(f'<figure><img alt="{escape(name)}" src="data:image/png;base64,{encoded}"></figure>')
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    write(paths[0], (page + "".join(parts) + "</html>\n").encode())
    return paths
