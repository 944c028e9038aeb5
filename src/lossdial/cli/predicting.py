"""``lossdial predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["predict"]


def predict(
    run: str,
    /,
    data: str,
    out: str,
    point: str = "default",
    path_column: str | None = None,
    cost_fn: str | None = None,
    cost_fp: str | None = None,
) -> None:
    """Score new rows, or new images, with a trained model.

    The table --out is the input with two columns more: `probability` of the positive label, at the λ of the operating
    point, and `prediction`, by its threshold; of a referral band, clear, refer or act. For
    images it has a row for each file; one that cannot be read has no
    prediction, and a column `note` says why.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    data
        The table to score (CSV, TSV, JSON lines, Parquet or NPZ), a folder of images, a table of their paths, or a
        data set by name.
    out
        The table to write (CSV or Parquet).
    point
        The operating point to use, by the name that `lossdial tune --name` gave it.
    path_column
        In a table of image files: the column with their paths. By default path.
    cost_fn
        What missing a case costs, a number or a column of --data: each case then has a threshold of its own, by the
        point's probabilities.
    cost_fp
        With --cost-fn: what a false alarm costs, a number or a column.
    """
    import numpy as np
    import pandas as pd
    from rich.console import Console

    from lossdial import Bundle
    from lossdial.base.errors import closest, warn
    from lossdial.base.files import require_writable
    from lossdial.cli.inputs import Columns, read_inputs
    from lossdial.cli.questions import amounts_of

    target = Path(out)
    if target.suffix not in (".csv", ".parquet"):
        raise ValueError(f"out must end in .csv or .parquet; got {out!r}.")
    if target.exists() and Path(data).exists() and target.samefile(data):
        raise ValueError(f"out must be another file than data; got {out!r} for both.")
    require_writable(target)
    bundle = Bundle.load(run)
    if point not in bundle.points:
        raise ValueError(f"{run} has no operating point {point!r}; {closest(point, bundle.points)}")
    chosen = bundle.points[point]
    if (cost_fn is None) != (cost_fp is None):
        raise UsageError("--cost-fn and --cost-fp go together, each a number or a column of --data.")
    if chosen.lower is not None and cost_fn is not None:
        raise UsageError(f"--cost-fn goes with one cut; {point} is a referral band.")
    inputs = read_inputs(bundle, data, Columns(path=path_column), labelled=False)
    taken = [name for name in ("probability", "prediction") if name in inputs.table]
    if taken:
        warn(f"{data} has a column {' and '.join(taken)} already; in {out} it is this model's.")
    predictor = bundle.predictor
    features, rows = predictor.features(inputs.X), inputs.table.iloc[inputs.kept]
    costs = None
    if cost_fn is not None and cost_fp is not None:
        costs = amounts_of(rows, cost_fn, "--cost-fn", data), amounts_of(rows, cost_fp, "--cost-fp", data)
    decided = predictor.decide(features, chosen, costs)
    if decided.action is not None:
        prediction = decided.action
        counts = {label: int((prediction == label).sum()) for label in ("clear", "refer", "act")}
        summary = f"{counts['clear']:,} to clear, {counts['refer']:,} to refer to a person, {counts['act']:,} to act on"
    else:
        prediction = np.array(predictor.classes)[decided.positive.astype(int)]
        own = ", each by a threshold of its own" if costs is not None else ""
        summary = f"{int(decided.positive.sum()):,} flagged {predictor.classes[1]}{own}"
    scored = inputs.table.assign(
        probability=pd.Series(decided.probability, index=rows.index), prediction=pd.Series(prediction, index=rows.index)
    )
    if inputs.unreadable:
        notes = [inputs.unreadable.get(i, "") for i in range(len(scored))]
        scored = scored.assign(note=notes)
    _write(scored, target)
    console = Console(soft_wrap=True, highlight=False)
    unread = f", {len(inputs.unreadable):,} could not be read (see the column note)" if inputs.unreadable else ""
    console.print(
        f"{len(inputs.kept):,} scored at point {point!r}, {summary}{unread}; in {out}",
        markup=False,
    )


def _write(frame: pd.DataFrame, target: Path) -> None:
    from lossdial.base.files import replacing

    with replacing(target) as temporary:
        if target.suffix == ".csv":
            frame.to_csv(temporary, index=False)
        else:
            frame.to_parquet(temporary, index=False)
