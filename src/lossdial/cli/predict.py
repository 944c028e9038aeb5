"""``lossdial predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lossdial.base.errors import InputError, warn
from lossdial.base.report import show
from lossdial.cli.options import Columns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["predict"]


def predict(
    run: str,
    /,
    *,
    data: str,
    out: str,
    point: str = "default",
    path_column: str | None = None,
    cost_fn: str | None = None,
    cost_fp: str | None = None,
) -> None:
    """Score new rows, or new images, with a trained model.

    The table --out is the input with two more columns: `probability` of the positive label, at the λ of the operating
    point, and `prediction`, by its threshold; a point with two thresholds says clear, refer or act. For images it has a
    row for each file; a file that cannot be read has no prediction, and a column `note` says why.

    Parameters
    ----------
    data
        The table to score (CSV, TSV, JSON lines, Parquet or NPZ), a folder of images, a table of their paths, or a data
        set by name.
    out
        The table to write (CSV or Parquet).
    point
        The operating point to use, by the name that `lossdial tune --name` gave it.
    cost_fn
        What a miss costs, a number or a column of --data: each case then has a threshold of its own, by the point's
        probabilities.
    """
    import numpy as np
    import pandas as pd

    from lossdial import Bundle
    from lossdial.base.files import require_writable
    from lossdial.cli.inputs import case_amounts, point_of, read_inputs

    target = Path(out)
    if target.suffix not in (".csv", ".parquet"):
        raise InputError("out", "must end in .csv or .parquet", got=out)
    if target.exists() and Path(data).exists() and target.samefile(data):
        raise InputError("out", "must be another file than {data}", got=out)
    require_writable(target)
    bundle = Bundle.load(run)
    chosen = point_of(bundle, run, point)
    if chosen.lower is not None and cost_fn is not None:
        raise InputError("cost_fn", f"goes with a point of one threshold; {point} has two")
    inputs = read_inputs(bundle, data, Columns(path_column=path_column), labelled=False)
    taken = [name for name in ("probability", "prediction") if name in inputs.table]
    if taken:
        warn(f"{data} has a column {' and '.join(taken)} already; in {out} it is this model's.")
    predictor, rows = bundle.predictor, inputs.table.iloc[inputs.kept]
    costs = case_amounts(rows, cost_fn, cost_fp, data)
    decisions = predictor.decide(predictor.features(inputs.X), chosen, costs)
    if decisions.action is not None:
        prediction = decisions.action
        clear, refer, act = (int((prediction == action).sum()) for action in ("clear", "refer", "act"))
        summary = f"{clear:,} to clear, {refer:,} to refer to a person, {act:,} to act on"
    else:
        prediction = np.array(predictor.classes)[decisions.positive.astype(int)]
        own = ", each by a threshold of its own" if costs is not None else ""
        summary = f"{int(decisions.positive.sum()):,} flagged {predictor.classes[1]}{own}"
    scored = inputs.table.assign(
        probability=pd.Series(decisions.probability, index=rows.index),
        prediction=pd.Series(prediction, index=rows.index),
    )
    if inputs.unreadable:
        scored = scored.assign(note=[inputs.unreadable.get(i, "") for i in range(len(scored))])
    _write(scored, target)
    unread = f", {len(inputs.unreadable):,} could not be read (see the column note)" if inputs.unreadable else ""
    show(f"{len(inputs.kept):,} scored at point {point!r}, {summary}{unread}; in {out}")


def _write(frame: pd.DataFrame, target: Path) -> None:
    from lossdial.base.files import replacing

    with replacing(target) as temporary:
        if target.suffix == ".csv":
            frame.to_csv(temporary, index=False)
        else:
            frame.to_parquet(temporary, index=False)
