"""What a command shows: a table for the terminal, and the same with pictures as a page to look at."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.table import Table

from lossdial.base.files import write

__all__ = ["Sheet", "write_report"]

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
    """A table of text: the first column is words, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def rich(self) -> Table:
        """For the terminal."""
        table = Table(
            title=self.title, caption=self.note or None, box=SIMPLE_HEAD, title_justify="left", pad_edge=False
        )
        table.collapse_padding = True
        table.caption_justify = "left"
        for i, column in enumerate(self.columns):
            table.add_column(column, justify="right" if i else "left", no_wrap=not i)
        for row in self.rows:
            table.add_row(*row)
        return table

    def html(self) -> str:
        """For the page."""
        head = "".join(f"<th>{escape(c)}</th>" for c in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.rows)
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return f"<table><caption>{escape(self.title)}</caption><tr>{head}</tr>{body}</table>{note}"


def write_report(
    folder: Path, title: str, summary: str, sheets: Sequence[Sheet], figures: Mapping[str, Figure]
) -> list[Path]:
    """Write ``report.html``, which needs no other file, and each figure as a PNG beside it; the paths."""
    parts = [f"<h1>{escape(title)}</h1><p>{escape(summary)}</p>", *(sheet.html() for sheet in sheets)]
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
