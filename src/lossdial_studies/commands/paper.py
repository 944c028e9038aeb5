"""``lossdial table`` and ``figure``: what a store holds, as the paper shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from lossdial.base.files import write
from lossdial_studies.commands.results import filtered, tell_damaged

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from lossdial_studies import Experiment, Store
    from lossdial_studies.sheets import TextTable
    from lossdial_studies.tables import ResultTable

AGAINST: Final = "one-against-search"
CLAIM: Final = "claim"
__all__ = ["AGAINST", "CLAIM", "against", "figure", "print_study", "table", "written_table"]


def table(
    name: str,
    /,
    store: str = "runs/store",
    protocol: Literal["both", "paper", "held-out"] = "both",
    data: str | None = None,
    beta: float | None = None,
    preset: str | None = None,
    epochs: int | None = None,
    setting: int | None = None,
    format: Literal["terminal", "markdown", "latex", "csv"] = "terminal",
    out: str | None = None,
) -> None:
    """Draw a table of the paper from a store, our figures beside the paper's.

    Parameters
    ----------
    name
        auc, average_precision, brier, max_f1, max_balanced_accuracy, precision_at_recall@0.99, film, ablation;
        one-against-search: LCT trained once against the best of a search, AUC with bounds, from the scores; or claim:
        the same for the study of that name, against the best, the mean and the ensemble of two searches.
    store
        The folder of results.
    protocol
        paper: best on the evaluation split itself. held-out: chosen on one half, reported on the other.
    data
        Only this data set.
    beta
        Only this imbalance.
    preset
        Only this preset.
    epochs
        Only runs of so many epochs.
    setting
        Only this one of the 16 settings: what a single training per seed would have given.
    format
        terminal, markdown, latex or csv.
    out
        A file to write; by default the terminal.
    """
    from rich.console import Console

    from lossdial.base.errors import closest
    from lossdial_studies import PROTOCOLS, Store
    from lossdial_studies.tables import TABLES, make_table

    if name not in (*TABLES, AGAINST, CLAIM):
        raise ValueError(f"no table is called {name!r}; {closest(name, [*TABLES, AGAINST, CLAIM])}")
    console = Console(soft_wrap=True)
    there = Store.open(store)
    asked = {"data": data, "beta": beta, "preset": preset, "epochs": epochs, "setting": setting}
    frame = filtered(there.frame(), asked)
    protocols = [p for p in PROTOCOLS if protocol in ("both", p)]
    if name in (AGAINST, CLAIM):
        tables = against(there, frame) if name == AGAINST else claimed(there, frame)
        _print_texts(name, tables, format, out, console)
    elif format == "terminal" and out is None:
        for one in protocols:
            _print(make_table(name, frame, one), console)
    else:
        text = written_table(name, frame, "markdown" if format == "terminal" else format, protocols)
        if out is None:
            console.print(text, markup=False, highlight=False)
        else:
            write(Path(out), text)
            console.print(f"{name} in {out}")
    tell_damaged(there, console)


def _print_texts(name: str, tables: Sequence[TextTable], format: str, out: str | None, console: Console) -> None:
    from lossdial.base.report import Sheet
    from lossdial_studies.sheets import written

    if format == "terminal" and out is None:
        for one in tables:
            console.print(Sheet(one.title, one.headings, one.rows))
            for note in one.notes:
                console.print(note, markup=False, highlight=False, soft_wrap=False)
        return
    text = "\n".join(written(one, "markdown" if format == "terminal" else format) for one in tables)
    if out is None:
        console.print(text, markup=False, highlight=False)
    else:
        write(Path(out), text)
        console.print(f"{name} in {out}")


def claimed(store: Store, frame: pd.DataFrame) -> tuple[TextTable, ...]:
    """One training against a search and its control, for each data set and β of the frame."""
    from lossdial.base.progress import ProgressBar
    from lossdial_studies.against import RESAMPLES
    from lossdial_studies.claims import claim_tables, claims
    from lossdial_studies.metric_claims import metric_claims, metric_table

    tables: list[TextTable] = []
    for (data, beta, preset, epochs), rows in frame.groupby(["data", "beta", "preset", "epochs"]):
        with ProgressBar("resampling", RESAMPLES, delay=2.0) as bar:

            def advance(done: int, bar: ProgressBar = bar) -> None:
                bar.advance(done, {})

            found = claims(rows, store, advance=advance)
        about = f"{data}, β = {beta:g}, preset {preset}, {epochs} epochs"
        tables += [*claim_tables(found, about), metric_table(metric_claims(rows), about)]
    return tuple(tables)


def against(store: Store, frame: pd.DataFrame) -> tuple[TextTable, ...]:
    """One training against a search, and the settings of the search."""
    from lossdial.base.progress import ProgressBar
    from lossdial_studies.against import RESAMPLES, one_against_search
    from lossdial_studies.sheets import against_tables

    with ProgressBar("resampling", RESAMPLES, delay=2.0) as bar:
        return against_tables(one_against_search(frame, store, advance=lambda done: bar.advance(done, {})))


def figure(
    name: str,
    /,
    store: str = "runs/store",
    data: str | None = None,
    beta: float | None = None,
    preset: str | None = None,
    epochs: int | None = None,
    out: str | None = None,
) -> None:
    """Draw a figure of the paper from a store, as PNG and PDF.

    Parameters
    ----------
    name
        precision, adaptability-vs, adaptability-focal, heat-maps or densities.
    store
        The folder of results.
    data
        Only this data set.
    beta
        Only this imbalance.
    preset
        Only this preset.
    epochs
        Only runs of so many epochs.
    out
        The file to write, without its ending. By default the figure's name.
    """
    from rich.console import Console

    from lossdial_studies import Store
    from lossdial_studies.figures import FIGURES, make_figure, save_figure

    console = Console(soft_wrap=True)
    asked = {"data": data, "beta": beta, "preset": preset, "epochs": epochs}
    if name == "densities" or name not in FIGURES:
        drawn = make_figure(name)
    else:
        there = Store.open(store)
        drawn = make_figure(name, filtered(there.frame(), asked))
        tell_damaged(there, console)
    console.print(f"{name} in {', '.join(str(p) for p in save_figure(drawn, Path(out or name)))}")


def print_study(store: Store, wanted: Sequence[Experiment], console: Console) -> None:
    """AUC under both protocols, ours beside the paper's, and the ablations, as far as the runs asked for are there."""
    from lossdial_studies import ABLATIONS, METHODS, PROTOCOLS
    from lossdial_studies.tables import make_table

    frame = store.frame()
    if frame.empty:
        return
    frame = frame[frame["key"].isin({experiment.key for experiment in wanted})]
    names = [("auc", METHODS), ("ablation", ABLATIONS)]
    for name in [name for name, methods in names if frame["method"].isin(methods).any()]:
        for protocol in PROTOCOLS:
            _print(make_table(name, frame, protocol), console)


def written_table(name: str, frame: pd.DataFrame, format: str, protocols: Sequence[Any]) -> str:
    """A table as Markdown, LaTeX or CSV, once for each protocol."""
    from lossdial_studies.tables import make_table, to_csv, to_latex, to_markdown

    writer = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}[format]
    return "\n".join(writer(make_table(name, frame, protocol)) for protocol in protocols)


def _print(table: ResultTable, console: Console) -> None:
    """A table on the terminal; one that is too wide in parts."""
    from lossdial_studies.tables import to_terminal

    for part in _parts(table, console):
        console.print(to_terminal(part))


def _parts(table: ResultTable, console: Console) -> Iterator[ResultTable]:
    """Its columns, as many at a time as the terminal has room for."""
    from rich.segment import Segment

    from lossdial_studies.tables import to_terminal

    def width(part: ResultTable) -> int:  # as it is drawn: what a column needs may be more than what is measured
        bare = to_terminal(replace(part, title="", notes=()))
        return max(Segment.get_line_length(line) for line in Segment.split_lines(console.render(bare)))

    start, stop = 0, len(table.headings)
    while start < stop:
        end = stop
        while end > start + 1 and width(_columns(table, start, end)) > console.width:
            end -= 1
        part = _columns(table, start, end)
        yield replace(part, title=table.title if not start else "", notes=table.notes if end == stop else ())
        start = end


def _columns(table: ResultTable, start: int, end: int) -> ResultTable:
    rows = tuple(replace(row, cells=row.cells[start:end]) for row in table.rows)
    return replace(table, headings=table.headings[start:end], rows=rows)
