"""What a command shows: a table for the terminal, and the same with pictures as a page to look at.

A table is as wide as its terminal, of 80 columns or more: one that is wider is shown in parts, each with the
first column again, and no figure is ever cut.
"""

from __future__ import annotations

import base64
import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

__all__ = ["CAPTIONS", "Html", "Sheet", "note", "page", "pictures", "png_of", "table", "write_report"]

_GAP: Final = 2  # between columns
CAPTIONS: Final = {
    "precision_recall": "Precision and recall. A shaded box is where a certificate says that the truth lies.",
    "roc": "Found against raised in vain (ROC), with the same boxes.",
    "reliability": "Do the probabilities keep their word? They do where the curve follows the diagonal; the shaded "
    "band is certain for the whole curve at once. The axes are stretched towards 0.",
    "decision_curve": "Is acting on it worth more than acting on everyone, or on no one? Shaded: 95 % intervals.",
    "heat_map": "One figure at every λ; hatched is what these samples cannot tell from the best.",
}
_NARROWEST: Final = 14  # that a column of words may be folded to
_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --quiet: #55606e; --line: #d4dae2; --head: #f2f5f8;
  --held: #eef5fa; --open: #fdf3ec; --edge: rgba(28, 36, 48, .35) }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #12171d; --ink: #e6ebf1; --quiet: #a3afbd;
  --line: #333d49; --head: #1c242d; --held: #12293a; --open: #3a2415; --edge: rgba(230, 235, 241, .4) } }
* { box-sizing: border-box }
body { font: 15px/1.55 system-ui, "Segoe UI", sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 0 auto; padding: 2rem 1.25rem 3rem; overflow-wrap: break-word }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem;
  border-bottom: 2px solid var(--ink); padding-bottom: .2rem } h3 { font-size: 1.02rem; margin: 1.1rem 0 .3rem }
p { margin: .4rem 0; max-width: 48rem } .lead { font-size: 1.08rem } .quiet { color: var(--quiet); font-size: .9rem }
.point { border: 1px solid var(--line); border-radius: .5rem; padding: .4rem 1.1rem 1rem; margin: 1rem 0 }
/* A table that is wider than its place scrolls; a shadow at an edge says that there is more behind it. */
.scroll { overflow-x: auto; margin: .5rem 0; background: linear-gradient(90deg, var(--paper) 40%, transparent) 0 0,
  linear-gradient(270deg, var(--paper) 40%, transparent) 100% 0, linear-gradient(90deg, var(--edge), transparent) 0 0,
  linear-gradient(270deg, var(--edge), transparent) 100% 0; background-repeat: no-repeat;
  background-size: 3rem 100%, 3rem 100%, .8rem 100%, .8rem 100%; background-attachment: local, local, scroll, scroll }
table { border-collapse: collapse; font-size: .93rem } caption { text-align: left; font-weight: 600; padding: .5rem 0 }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
th { font-weight: 600 } td.n { font-variant-numeric: tabular-nums; white-space: nowrap }
.held { border-left: .35rem solid #0072b2; background: var(--held); padding: .5rem .9rem; margin: .7rem 0 }
.open { border-left: .35rem solid #d55e00; background: var(--open); padding: .5rem .9rem; margin: .7rem 0 }
:is(.held, .open) { --paper: var(--held) } .open { --paper: var(--open) }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.2rem;
  margin-top: 1.2rem }
figure { margin: 0 } figcaption { font-size: .9rem; color: var(--quiet) }
img { width: 100%; height: auto; background: #fff; border-radius: .4rem }
code { font-size: .9em; overflow-wrap: anywhere }
@media print { body { max-width: none; padding: 0 } .point, figure { break-inside: avoid } }
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
        note = f'<p class="quiet">{escape(self.note)}</p>' if self.note else ""
        return f"<h2>{escape(self.title)}</h2>{table(self.rows, self.columns)}{note}"


class Html(str):
    """Markup of our own, not to be escaped."""

    __slots__ = ()


def page(title: str, parts: Iterable[str]) -> bytes:
    """A page that needs no other file, on any screen, light or dark."""
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    )
    return "\n".join([head, f"<h1>{escape(title)}</h1>", *parts, "</html>\n"]).encode()


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A table for the page; the first cell of a row is its name."""

    def cell(text: str, k: int) -> str:
        figure = ' class="n"' if k and text[:1].isdigit() and len(text) < 32 else ""
        return f"<td{figure}>{text if isinstance(text, Html) else escape(text)}</td>"

    top = "<tr>" + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr>" if head else ""
    body = "".join("<tr>" + "".join(cell(text, k) for k, text in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table>{top}{body}</table></div>'


def pictures(figures: Mapping[str, bytes], captions: Mapping[str, str]) -> str:
    """PNGs with what they show."""
    shown = ""
    for name, png in figures.items():
        caption = escape(captions.get(name, name))
        source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
        shown += f'<figure><img alt="{caption}" src="{source}"><figcaption>{caption}</figcaption></figure>'
    return f'<div class="pictures">{shown}</div>'


def png_of(figure: Figure) -> bytes:
    """A picture as a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


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
    drawn = {name: png_of(figure) for name, figure in figures.items()}
    shown = [pictures(drawn, CAPTIONS)] if drawn else []
    lines = [f"<p>{escape(line)}</p>" for line in summary.splitlines()]
    write(folder / "report.html", page(title, [*lines, *(sheet.html() for sheet in sheets), *shown]))
    for name, png in drawn.items():
        write(folder / f"{name}.png", png)
    return [folder / "report.html", *(folder / f"{name}.png" for name in drawn)]
