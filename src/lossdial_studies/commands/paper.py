"""``lossdial table``, ``figure`` and ``draw``: what a store holds, as the paper shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from lossdial.base.files import write
from lossdial_studies.commands.results import filtered, tell_damaged

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from lossdial_studies.experiment import Experiment
    from lossdial_studies.rendering import ResultTable, TextTable
    from lossdial_studies.store import Store

_AGAINST: Final = "one-against-search"
_CLAIM: Final = "claim"
_ENDINGS: Final[dict[Any, str]] = {"markdown": "md", "latex": "tex", "csv": "csv"}


def table(
    name: str,
    /,
    store: str = "runs/store",
    protocol: Literal["both", "paper", "held-out"] = "both",
    data: str | None = None,
    beta: float | None = None,
    preset: str | None = None,
    epochs: int | None = None,
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
    format
        terminal, markdown, latex or csv.
    out
        A file to write; by default the terminal.
    """
    from rich.console import Console

    from lossdial.base.errors import closest
    from lossdial_studies.rendering import written
    from lossdial_studies.store import Store
    from lossdial_studies.tables import TABLES

    known = (*TABLES, _AGAINST, _CLAIM)
    if name not in known:
        raise ValueError(f"no table is called {name!r}; {closest(name, known)}")
    console = Console(soft_wrap=True)
    results = Store.open(store)
    asked = {"data": data, "beta": beta, "preset": preset, "epochs": epochs}
    tables = _tables(name, results, filtered(results.frame(), asked), protocol)
    if format == "terminal" and out is None:
        for one in tables:
            _print(one, console)
    else:
        text = "\n".join(written(one, "markdown" if format == "terminal" else format) for one in tables)
        if out is None:
            console.print(text, markup=False, highlight=False)
        else:
            write(Path(out), text)
            console.print(f"{name} in {out}")
    tell_damaged(results, console)


def _tables(name: str, store: Store, frame: pd.DataFrame, protocol: str = "both") -> Sequence[ResultTable | TextTable]:
    """A table of the paper under each protocol, or the tables of one training against a search."""
    from lossdial.base.progress import ProgressBar
    from lossdial_studies.claims import against_tables, claim_tables
    from lossdial_studies.comparisons import RESAMPLES
    from lossdial_studies.protocols import PROTOCOLS
    from lossdial_studies.tables import make_table

    if name not in (_AGAINST, _CLAIM):
        return [make_table(name, frame, one) for one in PROTOCOLS if protocol in ("both", one)]
    cells = [rows for _, rows in frame.groupby(["data", "beta", "preset", "epochs"])] if name == _CLAIM else [frame]
    make = claim_tables if name == _CLAIM else against_tables
    tables: list[TextTable] = []
    for rows in cells:
        with ProgressBar("resampling", RESAMPLES, delay=2.0) as bar:
            tables += make(rows, store, advance=lambda done, bar=bar: bar.advance(done, {}))  # type: ignore[misc]
    return tables


def _print(table: ResultTable | TextTable, console: Console) -> None:
    from lossdial.base.report import Sheet
    from lossdial_studies.rendering import TextTable, fitted

    if isinstance(table, TextTable):
        console.print(Sheet(table.title, table.headings, table.rows))
        for note in table.notes:
            console.print(note, markup=False, highlight=False, soft_wrap=False)
    else:
        for part in fitted(table, console):
            console.print(part)


def print_study(store: Store, wanted: Sequence[Experiment], console: Console) -> None:
    """AUC under both protocols, ours beside the paper's, and the ablations, as far as the runs asked for are there."""
    from lossdial_studies.methods import ABLATIONS, METHODS

    frame = store.frame()
    if frame.empty:
        return
    frame = frame[frame["key"].isin({experiment.key for experiment in wanted})]
    for name, methods in (("auc", METHODS), ("ablation", ABLATIONS)):
        if frame["method"].isin(methods).any():
            for one in _tables(name, store, frame):
                _print(one, console)


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

    from lossdial_studies.figures import FIGURES, make_figure, save_figure
    from lossdial_studies.store import Store

    console = Console(soft_wrap=True)
    asked = {"data": data, "beta": beta, "preset": preset, "epochs": epochs}
    if name == "densities" or name not in FIGURES:
        drawn = make_figure(name)
    else:
        results = Store.open(store)
        drawn = make_figure(name, filtered(results.frame(), asked))
        tell_damaged(results, console)
    console.print(f"{name} in {', '.join(str(p) for p in save_figure(drawn, Path(out or name)))}")


def draw(folder: str, /, data: list[str] | None = None) -> None:
    """Draw every table and figure of the stores in a folder.

    A store's tables go to tables/ in it, as Markdown, LaTeX and CSV, its figures to figures/, as PNG and PDF, and the
    densities of λ, which need no results, into the folder.

    Parameters
    ----------
    folder
        A store, or a folder with stores in it.
    data
        Draw figures of these data sets alone, each NAME or NAME:β: --data cifar10-auto-truck,aptos:200. By default of
        all.
    """
    from rich.console import Console

    from lossdial.base.progress import ProgressBar
    from lossdial_studies.figures import make_figure, save_figure
    from lossdial_studies.store import Store

    console = Console(soft_wrap=True)
    stores = [Store.open(path.parent) for path in sorted(Path(folder).rglob("store.json"))]
    if not stores:
        raise ValueError(f"{folder} holds no store: no folder in it has a store.json.")
    frames = [store.frame() for store in stores]
    wanted = _wanted(data, frames)
    work = [
        job
        for store, frame in zip(stores, frames, strict=True)
        if not frame.empty
        for job in (*_table_jobs(store, frame), *_figure_jobs(store, frame, wanted))
    ]
    work.append(lambda: save_figure(make_figure("densities"), Path(folder) / "densities"))
    count = 0
    with ProgressBar("drawing", len(work)) as bar:
        for done, job in enumerate(work, start=1):
            count += len(job())
            bar.advance(done, {})
    console.print(f"{count:,} files of {len(stores)} store(s) in {folder}")
    for store in stores:
        tell_damaged(store, console)


_Job = Callable[[], Sequence[Path]]


def _table_jobs(store: Store, frame: pd.DataFrame) -> Iterator[_Job]:
    """Each table in each format, and the comparisons with a search for which the scores are there."""
    from lossdial_studies.claims import claimable, comparable
    from lossdial_studies.rendering import written
    from lossdial_studies.tables import TABLES

    def job(name: str) -> _Job:
        def draw_it() -> list[Path]:
            tables = _tables(name, store, frame)
            paths = [store.folder / "tables" / f"{name.partition('@')[0]}.{ending}" for ending in _ENDINGS.values()]
            for path, format in zip(paths, _ENDINGS, strict=True):
                write(path, "\n".join(written(one, format) for one in tables))
            return paths

        return draw_it

    yield from map(job, TABLES)
    if comparable(frame, store):
        yield job(_AGAINST)
    if claimable(frame, store):
        yield job(_CLAIM)


def _figure_jobs(store: Store, frame: pd.DataFrame, wanted: Sequence[tuple[str, float]]) -> Iterator[_Job]:
    from lossdial_studies.figures import FIGURES, drawable, make_figure, save_figure

    def job(name: str, rows: pd.DataFrame, file: str) -> _Job:
        return lambda: save_figure(make_figure(name, rows), store.folder / "figures" / file)

    for data, beta in wanted:
        rows = frame[(frame["data"] == data) & (frame["beta"] == beta)]
        for name in FIGURES:
            if name != "densities" and len(rows) and drawable(name, rows):
                yield job(name, rows, f"{name}-{data}-b{beta:g}")


def _wanted(data: list[str] | None, frames: Sequence[pd.DataFrame]) -> list[tuple[str, float]]:
    """The data sets and β to draw figures of."""
    from lossdial.base.errors import closest

    known = sorted({pair for f in frames if not f.empty for pair in zip(f["data"], f["beta"], strict=True)})
    if data is None:
        return known
    wanted = []
    for word in data:
        name, _, beta = word.partition(":")
        pairs = [pair for pair in known if pair[0] == name and beta in ("", f"{pair[1]:g}")]
        if not pairs:
            raise ValueError(f"data: no result is of {word!r}; {closest(word, [f'{n}:{b:g}' for n, b in known])}")
        wanted += pairs
    return wanted
