"""``lossdial draw``: all tables and figures of a folder of stores, in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas as pd

    from lossdial_studies import Store
    from lossdial_studies.sheets import TextTable

__all__ = ["draw"]

_ENDINGS: Final = {"markdown": "md", "latex": "tex", "csv": "csv"}


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
    from lossdial_studies import Store
    from lossdial_studies.commands.results import tell_damaged
    from lossdial_studies.figures import make_figure, save_figure

    console = Console(soft_wrap=True)
    stores = [Store.open(path.parent) for path in sorted(Path(folder).rglob("store.json"))]
    if not stores:
        raise ValueError(f"{folder} holds no store: no folder in it has a store.json.")
    frames = [(store.folder, store.frame()) for store in stores]
    wanted = _wanted(data, [frame for _, frame in frames])
    work = [
        job for at, frame in frames if not frame.empty for job in (*_tables(at, frame), *_figures(at, frame, wanted))
    ]
    work += [job for store, (_, frame) in zip(stores, frames, strict=True) for job in _against(store, frame)]
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


def _tables(store: Path, frame: pd.DataFrame) -> Iterator[_Job]:
    """Each table in each format, and the AUC that a single training would have given."""
    from lossdial_studies.tables import TABLES

    def job(name: str, rows: pd.DataFrame, file: str, format: str) -> _Job:
        return lambda: _write_table(name, rows, store / "tables" / f"{file}.{_ENDINGS[format]}", format)

    for name in TABLES:
        for format in _ENDINGS:
            yield job(name, frame, name.partition("@")[0], format)
    one = frame[frame["setting"] == 1]
    if len(one):
        yield job("auc", one, "auc-one-setting", "markdown")


def _write_table(name: str, frame: pd.DataFrame, path: Path, format: str) -> list[Path]:
    from lossdial.base.files import write
    from lossdial_studies import PROTOCOLS
    from lossdial_studies.commands.paper import written_table

    write(path, written_table(name, frame, format, list(PROTOCOLS)))
    return [path]


def _against(store: Store, frame: pd.DataFrame) -> Iterator[_Job]:
    """One training against a search, and against its control, where there are both, and the scores that it takes."""
    from lossdial.base.files import write
    from lossdial_studies.against import comparable
    from lossdial_studies.claims import claimable
    from lossdial_studies.commands.paper import AGAINST, CLAIM, against, claimed
    from lossdial_studies.sheets import written

    def job(make: Callable[[Store, pd.DataFrame], Sequence[TextTable]], name: str) -> _Job:
        def draw() -> list[Path]:
            tables = make(store, frame)
            paths = [store.folder / "tables" / f"{name}.{ending}" for ending in _ENDINGS.values()]
            for path, format in zip(paths, _ENDINGS, strict=True):
                write(path, "\n".join(written(table, format) for table in tables))
            return paths

        return draw

    if comparable(frame, store):
        yield job(against, AGAINST)
    if claimable(frame, store):
        yield job(claimed, CLAIM)


def _figures(store: Path, frame: pd.DataFrame, wanted: Sequence[tuple[str, float]]) -> Iterator[_Job]:
    from lossdial_studies.figures import FIGURES, drawable, make_figure, save_figure

    def job(name: str, rows: pd.DataFrame, file: str) -> _Job:
        return lambda: save_figure(make_figure(name, rows), store / "figures" / file)

    for data, beta in wanted:
        rows = frame[(frame["data"] == data) & (frame["beta"] == beta)]
        for name in FIGURES:
            if name != "densities" and len(rows) and drawable(name, rows):
                yield job(name, rows, f"{name}-{data}-b{beta:g}")


def _wanted(data: list[str] | None, frames: Sequence[pd.DataFrame]) -> list[tuple[str, float]]:
    """The data sets and β to draw figures of."""
    from lossdial.base.errors import closest

    there = sorted({pair for f in frames if not f.empty for pair in zip(f["data"], f["beta"], strict=True)})
    if data is None:
        return there
    found = []
    for word in data:
        name, _, beta = word.partition(":")
        pairs = [pair for pair in there if pair[0] == name and beta in ("", f"{pair[1]:g}")]
        if not pairs:
            raise ValueError(f"data: no result is of {word!r}; {closest(word, [f'{n}:{b:g}' for n, b in there])}")
        found += pairs
    return found
