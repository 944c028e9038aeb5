"""``lossdial results``, ``table`` and ``figure``: what a store holds, as rows, tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lossdial.base.files import write
from lossdial.dial import PAPER_METRICS, as_metric
from lossdial.experiments import ABLATIONS, METHODS, PROTOCOLS, Experiment, Store
from lossdial.experiments.figures import FIGURES, make_figure, save_figure
from lossdial.experiments.tables import make_table, to_csv, to_latex, to_markdown, to_terminal

__all__ = ["figure", "print_study", "results", "table"]

_LAM: Final = ("gamma", "tau", "alpha", "phi")
_WRITERS: Final = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}


def results(
    store: str = "runs/store",
    data: str | None = None,
    beta: float | None = None,
    preset: str | None = None,
    epochs: int | None = None,
    method: str | None = None,
    setting: int | None = None,
    seed: int | None = None,
    metrics: list[str] | None = None,
    limit: int = 20,
    failed: bool = False,
    save: str | None = None,
) -> None:
    """Print the rows of a store, one per run and λ, the best first; or save them.

    In Python, `lossdial.experiments.Store.open(FOLDER).frame()` gives them as a pandas frame.

    Parameters
    ----------
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
    method
        Only this method.
    setting
        Only this one of the 16 settings.
    seed
        Only this seed.
    metrics
        Which to print; the first decides the order. By default the paper's six.
    limit
        How many rows to print; 0 prints all.
    failed
        The runs that gave no result, and why.
    save
        Write all rows that were asked for: FILE.jsonl.gz (as a store reads them), FILE.csv or FILE.parquet.
    """
    console = Console(soft_wrap=True)
    there = Store.open(store)
    asked = {"data": data, "beta": beta, "preset": preset, "epochs": epochs, "method": method}
    asked |= {"setting": setting, "seed": seed}
    if failed:
        _print_failed(there, asked, console)
    elif save is not None:
        _save(there, asked, Path(save), console)
    else:
        frame = _filtered(there.frame(), asked)
        _print_rows(frame, metrics or list(PAPER_METRICS), limit, console)
    _tell_damaged(there, console)


def table(
    name: str,
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
        auc, average_precision, brier, max_f1, max_balanced_accuracy, precision_at_recall@0.99, film or ablation.
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
    console = Console(soft_wrap=True)
    there = Store.open(store)
    asked = {"data": data, "beta": beta, "preset": preset, "epochs": epochs, "setting": setting}
    frame = _filtered(there.frame(), asked)
    made = [make_table(name, frame, p) for p in PROTOCOLS if protocol in ("both", p)]
    if format == "terminal" and out is None:
        for one in made:
            console.print(to_terminal(one))
    else:
        writer = _WRITERS["markdown" if format == "terminal" else format]
        text = "\n".join(writer(one) for one in made)
        if out is None:
            console.print(text, markup=False, highlight=False)
        else:
            _make_parent(Path(out))
            write(Path(out), text.encode())
            console.print(f"{name} in {out}")
    _tell_damaged(there, console)


def figure(
    name: str,
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
    console = Console(soft_wrap=True)
    asked = {"data": data, "beta": beta, "preset": preset, "epochs": epochs}
    if name == "densities" or name not in FIGURES:
        drawn = make_figure(name)
    else:
        there = Store.open(store)
        drawn = make_figure(name, _filtered(there.frame(), asked))
        _tell_damaged(there, console)
    path = Path(out or name)
    _make_parent(path)
    console.print(f"{name} in {', '.join(str(p) for p in save_figure(drawn, path))}")


def print_study(store: Store, wanted: Sequence[Experiment], console: Console) -> None:
    """AUC under both protocols, ours beside the paper's, and the ablations, as far as the runs asked for are there."""
    frame = store.frame()
    if frame.empty:
        return
    frame = frame[frame["key"].isin({experiment.key for experiment in wanted})]
    names = [("auc", METHODS), ("ablation", ABLATIONS)]
    for name in [name for name, methods in names if frame["method"].isin(methods).any()]:
        for protocol in PROTOCOLS:
            console.print(to_terminal(make_table(name, frame, protocol)))


def _filtered(frame: pd.DataFrame, asked: dict[str, Any]) -> pd.DataFrame:
    if frame.empty:
        raise ValueError("the store has no finished run yet; `lossdial reproduce` makes some.")
    for column, value in asked.items():
        if value is None:
            continue
        there = set(frame[column])
        frame = frame[frame[column] == value]
        _check_any(column, value, frame, there)
    return frame


def _check_any(column: str, value: object, found: Sized, there: set[Any]) -> None:
    if not len(found):
        raise ValueError(f"no row has {column} = {value}; there are {', '.join(map(str, sorted(there)))}.")


def _print_rows(frame: pd.DataFrame, metrics: Sequence[str], limit: int, console: Console) -> None:
    for name in metrics:
        as_metric(name, "metrics")
        if name not in frame:
            raise ValueError(f"rows have no metric {name!r}; compute it from Store.scores, or choose another.")
    frame = frame.sort_values(metrics[0], ascending=not as_metric(metrics[0]).greater_is_better)
    shown = frame if limit == 0 else frame.head(limit)
    about = ["data", "beta", "preset", "epochs", "method", "setting", "seed"]
    same = [column for column in about if frame[column].nunique() == 1]
    lam = [name for name in _LAM if frame[name].notna().any()]
    columns = [*(column for column in about if column not in same), *lam, *metrics]
    printed = Table(*columns, title=", ".join(f"{c} {_spelled(frame[c].iloc[0])}" for c in same), title_justify="left")
    for row in shown[columns].itertuples(index=False):
        printed.add_row(*(_spelled(value) for value in row))
    console.print(printed)
    console.print(f"{len(shown):,} of {len(frame):,} rows, of {frame['key'].nunique():,} runs")


def _spelled(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _print_failed(store: Store, asked: dict[str, Any], console: Console) -> None:
    matching = _matching(store, asked)
    done = {row["key"] for row in matching if row["status"] == "done"}
    rows = [row for row in matching if row["key"] not in done]
    printed = Table("status", "data", "β", "preset", "method", "setting", "seed", "why")
    for row in rows:
        cells = (row["status"], row["data"], f"{row['beta']:g}", row["preset"], row["method"])
        printed.add_row(*cells, str(row["setting"]), str(row["seed"]), Text(row["message"]))
    console.print(printed if rows else "no run has failed.")


def _save(store: Store, asked: dict[str, Any], path: Path, console: Console) -> None:
    _make_parent(path)
    if path.name.endswith(".jsonl.gz"):
        count = store.save(path, _matching(store, asked))
    else:
        frame = _filtered(store.frame(), asked)
        count = len(frame)
        if path.suffix == ".csv":
            write(path, frame.to_csv(index=False).encode())
        elif path.suffix == ".parquet":
            write(path, frame.to_parquet(index=False))
        else:
            raise ValueError(f"save must end in .jsonl.gz, .csv or .parquet; got {path}.")
    console.print(f"{count:,} rows in {path}")


def _matching(store: Store, asked: dict[str, Any]) -> list[dict[str, Any]]:
    rows = list(store.rows())
    for column, value in asked.items():
        if value is not None:
            there = {row[column] for row in rows}
            rows = [row for row in rows if row[column] == value]
            _check_any(column, value, rows, there)
    return sorted(rows, key=lambda row: (row["data"], row["beta"], row["method"], row["seed"], row["setting"]))


def _make_parent(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)


def _tell_damaged(store: Store, console: Console) -> None:
    if store.damaged:
        text = f"{len(store.damaged)} damaged row(s) were skipped: " + "; ".join(str(d) for d in store.damaged[:5])
        console.print(text + ("; …" if len(store.damaged) > 5 else ""), style="yellow", markup=False)
