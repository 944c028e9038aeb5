"""``lossdial results``: the rows of a store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossdial.base.files import write

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from lossdial_studies.store import Store


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

    In Python, `lossdial_studies.Store.open(FOLDER).frame()` gives them as a pandas frame.

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
    from rich.console import Console

    from lossdial.dial import PAPER_METRICS
    from lossdial_studies.store import Store

    console = Console(soft_wrap=True)
    kept = Store.open(store)
    asked = {"data": data, "beta": beta, "preset": preset, "epochs": epochs, "method": method}
    asked |= {"setting": setting, "seed": seed}
    if failed:
        _print_failed(kept, asked, console)
    elif save is not None:
        _save(kept, asked, Path(save), console)
    else:
        frame = filtered(kept.frame(), asked)
        _print_rows(frame, metrics or list(PAPER_METRICS), limit, console)
    tell_damaged(kept, console)


def filtered(frame: pd.DataFrame, asked: dict[str, Any]) -> pd.DataFrame:
    """The rows that were asked for; a value that no row has is an error that lists those there are."""
    if frame.empty:
        raise ValueError("the store has no finished run yet; `lossdial reproduce` makes some.")
    for column, value in asked.items():
        if value is not None:
            known = sorted(set(frame[column]))
            frame = frame[frame[column] == value]
            if frame.empty:
                raise ValueError(f"no row has {column} = {value}; there are {', '.join(map(str, known))}.")
    return frame


def _print_rows(frame: pd.DataFrame, metrics: Sequence[str], limit: int, console: Console) -> None:
    from lossdial.base.report import Sheet
    from lossdial.dial import as_metric
    from lossdial_studies.protocols import LAM

    for name in metrics:
        as_metric(name, "metrics")
        if name not in frame:
            raise ValueError(f"rows have no metric {name!r}; compute it from Store.scores, or choose another.")
    frame = frame.sort_values(metrics[0], ascending=not as_metric(metrics[0]).greater_is_better)
    shown = frame if limit == 0 else frame.head(limit)
    about = ["data", "beta", "preset", "epochs", "method", "setting", "seed"]
    same = [column for column in about if frame[column].nunique() == 1]
    lam = [name for name in LAM if frame[name].notna().any()]
    columns = [*(column for column in about if column not in same), *lam, *metrics]
    cells = [
        (str(rank), *map(_spelled, row)) for rank, row in enumerate(shown[columns].itertuples(index=False), start=1)
    ]
    title = ", ".join(f"{c} {_spelled(frame[c].iloc[0])}" for c in same)
    console.print(Sheet(title, ("#", *columns), cells))
    console.print(f"{len(shown):,} of {len(frame):,} rows, of {frame['key'].nunique():,} runs")


def _spelled(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _print_failed(store: Store, asked: dict[str, Any], console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    matching = _matching(store, asked)
    done = {row["key"] for row in matching if row["status"] == "done"}
    rows = [row for row in matching if row["key"] not in done]
    for row in rows:
        which = f"{row['data']} β={row['beta']:g} {row['preset']} {row['method']}"
        console.print(f"{row['status']}: {which}, setting {row['setting']}, seed {row['seed']}", style="bold")
        console.print(Padding(Text(row["message"]), (0, 0, 0, 4)), soft_wrap=False)
    console.print(f"{len(rows):,} run(s) gave no result." if rows else "no run has failed.")


def _save(store: Store, asked: dict[str, Any], path: Path, console: Console) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".jsonl.gz"):
        count = store.save(path, _matching(store, asked))
    else:
        frame = filtered(store.frame(), asked)
        count = len(frame)
        if path.suffix == ".csv":
            write(path, frame.to_csv(index=False).encode())
        elif path.suffix == ".parquet":
            write(path, frame.to_parquet(index=False))
        else:
            raise ValueError(f"save must end in .jsonl.gz, .csv or .parquet; got {path}.")
    console.print(f"{count:,} rows in {path}")


def _matching(store: Store, asked: dict[str, Any]) -> list[dict[str, Any]]:
    import pandas as pd

    rows = list(store.rows())
    order = ["data", "beta", "method", "seed", "setting"]
    about = pd.DataFrame([{name: row[name] for name in (*order, "preset", "epochs")} for row in rows])
    kept = about if about.empty else filtered(about, asked).sort_values(order, kind="stable")
    return [rows[place] for place in kept.index]


def tell_damaged(store: Store, console: Console) -> None:
    """Say which rows of a store could not be read."""
    if store.damaged:
        text = f"{len(store.damaged)} damaged row(s) were skipped: " + "; ".join(str(d) for d in store.damaged[:5])
        console.print(text + ("; …" if len(store.damaged) > 5 else ""), style="yellow", markup=False)
