"""A report: text, tables and pictures, for a terminal, as a page of HTML, or as Markdown.

The blocks of a report are plain text. In it, `` `x` `` is code and ``**x**`` is bold, in both formats.
"""

from __future__ import annotations

import base64
import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from lossdial.base.files import write

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text as RichText

_GAP: Final = 2  # between columns
_NARROWEST: Final = 14  # that a column of words may be folded to
_CAPTIONS: Final = {
    "precision_recall": "Precision and recall. A shaded box shows where a certificate says that the true figures lie.",
    "roc": "Recall against false positive rate (ROC), with the same boxes.",
    "reliability": "Are the probabilities calibrated? They are where the curve follows the diagonal. The shaded band "
    "holds for the whole curve at once. The axes are stretched towards 0.",
    "decision_curve": "Is acting on the model worth more than acting on everyone, or on no one? Shaded: 95 % "
    "intervals.",
    "row": "What each column adds to the score of this row: blue raises it, red lowers it.",
    "summary": "How much each column moves the scores of these rows, up or down, on average.",
    "heat_map": "One metric at every λ. These samples cannot tell a hatched λ from the best.",
}
_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --quiet: #55606e; --line: #d4dae2; --head: #f2f5f8;
  --good: #eef5fa; --open: #fdf3ec; --edge: rgba(28, 36, 48, .35) }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #12171d; --ink: #e6ebf1; --quiet: #a3afbd;
  --line: #333d49; --head: #1c242d; --good: #12293a; --open: #3a2415; --edge: rgba(230, 235, 241, .4) } }
* { box-sizing: border-box }
body { font: 15px/1.55 system-ui, "Segoe UI", sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 0 auto; padding: 2rem 1.25rem 3rem; overflow-wrap: break-word }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem;
  border-bottom: 2px solid var(--ink); padding-bottom: .2rem } h3 { font-size: 1.02rem; margin: 1.1rem 0 .3rem }
p { margin: .4rem 0; max-width: 48rem } .lead { font-size: 1.08rem } .quiet { color: var(--quiet); font-size: .9rem }
.box { border: 1px solid var(--line); border-radius: .5rem; padding: .4rem 1.1rem 1rem; margin: 1rem 0 }
/* A table that is wider than its place scrolls; a shadow at an edge says that there is more behind it. */
.scroll { overflow-x: auto; margin: .5rem 0; background: linear-gradient(90deg, var(--paper) 40%, transparent) 0 0,
  linear-gradient(270deg, var(--paper) 40%, transparent) 100% 0, linear-gradient(90deg, var(--edge), transparent) 0 0,
  linear-gradient(270deg, var(--edge), transparent) 100% 0; background-repeat: no-repeat;
  background-size: 3rem 100%, 3rem 100%, .8rem 100%, .8rem 100%; background-attachment: local, local, scroll, scroll }
table { border-collapse: collapse; font-size: .93rem }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
th { font-weight: 600 } td.n { font-variant-numeric: tabular-nums; white-space: nowrap }
.good { border-left: .35rem solid #0072b2; background: var(--good); padding: .5rem .9rem; margin: .7rem 0 }
.open { border-left: .35rem solid #d55e00; background: var(--open); padding: .5rem .9rem; margin: .7rem 0 }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.2rem;
  margin-top: 1.2rem }
figure { margin: 0 } figcaption { font-size: .9rem; color: var(--quiet) }
img { width: 100%; height: auto; background: #fff; border-radius: .4rem }
code { font-size: .9em; overflow-wrap: anywhere }
@media print { body { max-width: none; padding: 0 } .box, figure { break-inside: avoid } }
"""


@dataclass(frozen=True)
class Text:
    """A paragraph. Its tone is ``good`` where something is certain, ``open`` where it is not."""

    text: str
    tone: Literal["", "lead", "quiet", "good", "open"] = ""


@dataclass(frozen=True)
class Items:
    """A list."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Sheet:
    """A table of text. The first column holds names, the others figures; those in ``words`` may be folded.

    On a terminal a table that is too wide is shown in several parts, each with the first column. No figure is cut.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table for a terminal, in as many parts as its width asks for."""
        width = options.max_width
        yield from _paragraph(self.title, "italic", options)
        for number, columns in enumerate(self._parts(width)):
            if number:
                yield ""
            yield self._table(columns, width)
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
        from rich.cells import cell_len

        cells = max((cell_len(line) for row in self.rows for line in row[i].split("\n")), default=0)
        heading = max(cell_len(word) for word in _folded(self.columns[i]).split("\n"))
        return max(heading, min(cells, _NARROWEST) if self.columns[i] in self.words else cells)

    def _table(self, part: Sequence[int], width: int) -> Table:
        from rich.box import SIMPLE_HEAD
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text as RichText

        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        natural = sum(max(self._width(i), cell_len(self.columns[i])) for i in part)
        fits = natural + _GAP * (len(part) - 1) <= width
        for i in part:
            heading = self.columns[i] if fits else _folded(self.columns[i])
            folds = self.columns[i] in self.words
            right = i > 0 and not folds
            table.add_column(
                RichText(heading), justify="right" if right else "left", no_wrap=not folds, overflow="fold"
            )
        for row in self.rows:
            table.add_row(*(RichText(row[i]) for i in part))
        return table


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; in a box of their own where ``boxed``."""

    title: str
    blocks: Sequence[Block]
    boxed: bool = False


Block = Text | Items | Sheet | Section


@dataclass(frozen=True)
class Report:
    """A title and blocks; ``pictures`` are PNG images by name, which stand at the end of the page itself.

    >>> report = Report("A model", [Section("Points", [Text("One point, `default`.")])])
    >>> report.markdown()
    '# A model\\n\\n## Points\\n\\nOne point, `default`.\\n'
    >>> "<p>One point, <code>default</code>.</p>" in report.html()
    True
    """

    title: str
    blocks: Sequence[Block]
    pictures: Mapping[str, bytes] = field(default_factory=dict)

    def html(self) -> str:
        """A page that needs no other file, on any screen, light or dark."""
        head = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{escape(self.title)}</title><style>{_STYLE}</style>"
        )
        shown = [_html(block, 2) for block in self.blocks]
        if self.pictures:
            figures = "".join(_figure(name, png) for name, png in self.pictures.items())
            shown.append(f'<h2>Pictures</h2><div class="pictures">{figures}</div>')
        return "\n".join([head, f"<h1>{escape(self.title)}</h1>", *shown, "</html>\n"])

    def markdown(self) -> str:
        """The report as Markdown, without its pictures."""
        return "\n\n".join([f"# {self.title}", *(_markdown(block, 2) for block in self.blocks)]) + "\n"


def show(*blocks: str | Sheet | Table, style: str | None = None, errors: bool = False) -> None:
    """Print lines and tables to the terminal, or to its stream of errors."""
    from rich.console import Console

    console = Console(stderr=errors, soft_wrap=True, highlight=False)
    for block in blocks:
        console.print(block, style=style, markup=False)


def write_report(folder: Path, title: str, blocks: Sequence[Block], figures: Mapping[str, Figure]) -> list[Path]:
    """Write ``report.html``, which needs no other file, and each figure as a PNG beside it; return the paths."""
    drawn = {name: _png(figure) for name, figure in figures.items()}
    write(folder / "report.html", Report(title, blocks, drawn).html())
    for name, png in drawn.items():
        write(folder / f"{name}.png", png)
    return [folder / "report.html", *(folder / f"{name}.png" for name in drawn)]


def _png(figure: Figure) -> bytes:
    """A matplotlib figure as a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _html(block: Block, level: int) -> str:
    """A block as HTML, its headings at this level."""
    match block:
        case Text(text, tone):
            return f'<p class="{tone}">{_inline(text)}</p>' if tone else f"<p>{_inline(text)}</p>"
        case Items(lines):
            return f"<ul>{''.join(f'<li>{_inline(line)}</li>' for line in lines)}</ul>"
        case Sheet(title, columns, rows, note):
            head = f"<h{level}>{escape(title)}</h{level}>" if title else ""
            top = f"<tr>{''.join(f'<th>{_inline(name)}</th>' for name in columns)}</tr>" if columns else ""
            body = "".join(f"<tr>{''.join(map(_cell, row, range(len(row))))}</tr>" for row in rows)
            below = f'<p class="quiet">{_inline(note)}</p>' if note else ""
            return f'{head}<div class="scroll" tabindex="0"><table>{top}{body}</table></div>{below}'
        case Section(title, blocks, boxed):
            content = "\n".join(_html(inner, level + 1) for inner in blocks)
            whole = f"<h{level}>{escape(title)}</h{level}>{content}"
            return f'<section class="box">{whole}</section>' if boxed else whole


def _markdown(block: Block, level: int) -> str:
    """A block as Markdown, its headings at this level."""
    match block:
        case Text(text):
            return text
        case Items(lines):
            return "\n".join(f"- {line}" for line in lines)
        case Sheet(title, columns, rows, note):
            cells = [[text.replace("|", "\\|").replace("\n", " ") for text in row] for row in rows]
            table = [columns, ["---"] * len(columns), *cells]
            lines = [f"| {' | '.join(row)} |" for row in table]
            return "\n".join(
                [*([f"{'#' * level} {title}", ""] if title else []), *lines, *(["", note] if note else [])]
            )
        case Section(title, blocks):
            return "\n\n".join([f"{'#' * level} {title}", *(_markdown(inner, level + 1) for inner in blocks)])


def _figure(name: str, png: bytes) -> str:
    caption = escape(_CAPTIONS.get(name, name))
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return f'<figure><img alt="{caption}" src="{source}"><figcaption>{caption}</figcaption></figure>'


def _inline(text: str) -> str:
    """Text as HTML, with its code and bold words."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)


def _cell(text: str, column: int) -> str:
    figure = ' class="n"' if column and text[:1].isdigit() and len(text) < 32 else ""
    return f"<td{figure}>{_inline(text)}</td>"


def _paragraph(text: str, style: str, options: ConsoleOptions) -> Iterator[RichText]:
    """Lines of text, wrapped between words; a terminal itself would wrap them anywhere."""
    from rich.text import Text as RichText

    for line in text.splitlines():
        for piece in textwrap.wrap(line, options.max_width) if options.is_terminal else [line]:
            yield RichText(piece, style)


def _folded(heading: str) -> str:
    """A heading on several lines, broken where its words meet: precision_at_recall@0.99."""
    lines: list[str] = []
    for word in re.findall(r"[^\s_@]+[_@]?|[_@]", heading):
        if lines and len(lines[-1]) + len(word) <= 10:
            lines[-1] += word if lines[-1][-1] in "_@" else f" {word}"
        else:
            lines.append(word)
    return "\n".join(lines)
