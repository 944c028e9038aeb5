"""The command that gives reasons: explain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lossdial
from lossdial.base.errors import InputError, warn
from lossdial.base.files import require_writable
from lossdial.base.report import Block, Sheet, Text, show, write_report
from lossdial.cli.options import Columns

if TYPE_CHECKING:
    from lossdial.bundle import Explanation
    from lossdial.cli.inputs import ModelInputs
    from lossdial.dial import OperatingPoint

_LISTED = 30  # columns in a table
_ADDITIVE = (
    "A contribution is what the model adds for a column, in log-odds at the λ of the point; with the base they sum up "
    "to the score. It tells how the model computes, and nothing of causes: columns that go together share an effect in "
    "a way that other data may change."
)


def explain(
    run: str,
    /,
    *,
    data: str,
    point: str = "default",
    row: int | None = None,
    out: str | None = None,
    columns: Columns,
) -> None:
    """Say which columns make the scores of rows: a summary, one row, importances.

    What each column adds to a row's score is printed as a mean over the rows, and for one --row with its sign; where
    the data have labels, so is the average precision that is lost when a column is shuffled. A page with the pictures
    is written. It takes a model of columns: the default for tables, or a linear head on features.

    Parameters
    ----------
    data
        The table to explain. Importances need labels, and rows that neither training nor tuning has seen.
    point
        The operating point whose λ is taken, by name.
    row
        The number of the row to explain; the first is 1.
    out
        The folder for report.html and the pictures. By default one of its own in RUN/explanation.
    """
    from lossdial.cli.evaluate import folder_name
    from lossdial.cli.inputs import point_of, read_inputs
    from lossdial.dial.plots import contributions_figure

    folder = Path(out) if out is not None else Path(run) / "explanation" / folder_name(data)
    require_writable(folder / "report.html")
    bundle = lossdial.Bundle.load(run)
    chosen = point_of(bundle, run, point)
    if bundle.predictor.unexplained:
        raise InputError("", bundle.predictor.unexplained)
    inputs = read_inputs(bundle, data, columns, labelled=None)
    count = len(inputs.kept)
    if row is not None and not 1 <= row <= count:
        raise InputError("row", f"must be the number of a row of {data}, 1 to {count:,}", got=row)
    explanation = bundle.predictor.explain(inputs.X, chosen.lam)
    title = f"{count:,} rows at point {point}"
    pictures = {"summary": contributions_figure(explanation.columns, explanation.contributions, title)}
    if count == 1:
        row = 1
    sheets = [] if count == 1 else [_summary(explanation, title)]
    if row is not None:
        one = explanation[row - 1]
        sheets.append(_row(one, inputs, row))
        pictures = {"row": contributions_figure(one.columns, one.contributions, f"row {row}"), **pictures}
    if inputs.y is not None:
        sheets += _importances(bundle, inputs, chosen)
    blocks: list[Block] = [Text(_ADDITIVE), *sheets]
    page = write_report(folder, f"{Path(run).name}: which columns make its scores", blocks, pictures)[0]
    show(*sheets, f"look at: {page}")


def _summary(explanation: Explanation, title: str) -> Sheet:
    size, share = explanation.size, explanation.share
    rows = [(explanation.columns[i], f"{size[i]:.3f}", f"{share[i]:.1%}") for i in explanation.order[:_LISTED]]
    note = f"Base {explanation.base:+.3f}.{_left_out(explanation)}"
    return Sheet(title, ("column", "mean absolute contribution", "share"), rows, note)


def _row(one: Explanation, inputs: ModelInputs, row: int) -> Sheet:
    added = one.contributions[0]
    longest = max(float(abs(added).max(initial=0)), 1e-300)
    rows = [
        (one.columns[i], *_cell(inputs, row, one.columns[i]), f"{added[i]:+.3f}", _bar(added[i] / longest))
        for i in one.order[:_LISTED]
    ]
    title = f"row {row}: score {one.margin[0]:+.3f} = base {one.base:+.3f} and the contributions"
    with_cells = len(rows[0]) == 4
    heads = ("column", "value", "contribution", "") if with_cells else ("column", "contribution", "")
    return Sheet(title, heads, rows, _left_out(one).strip(), words=("value", ""))


def _cell(inputs: ModelInputs, row: int, column: str) -> tuple[str, ...]:
    """The cell of a frame, cut where it is long; an array's columns have no names in the file."""
    return (f"{inputs.rows.iloc[row - 1][column]!s:.40}",) if column in inputs.rows else ()


def _bar(length: float) -> str:
    return ("+" if length > 0 else "-") * round(20 * abs(length))


def _left_out(explanation: Explanation) -> str:
    others = explanation.order[_LISTED:]
    return f" {len(others):,} columns with less are left out." if len(others) else ""


def _importances(bundle: lossdial.Bundle, inputs: ModelInputs, chosen: OperatingPoint) -> Iterator[Sheet]:
    """Where both classes are there, the average precision that each column is worth."""
    import numpy as np

    from lossdial.bundle.explanation import permutation_importances

    y = bundle.predictor.labels(inputs.y)
    if y.min() == y.max():
        warn("importances are left out: the rows are of one class.")
        return
    if spent := bundle.trained_on(inputs.X):
        warn(f"{spent}: importances will be too large. Give samples that training has not seen.")
    whole, drops = permutation_importances(bundle.predictor, inputs.X, y, chosen.lam)
    mean, spread = drops.mean(0), drops.std(0, ddof=1)
    names = [*bundle.predictor.schema.widths()]
    order: Any = np.argsort(-mean, kind="stable")[:_LISTED]
    yield Sheet(
        f"importance: what average precision, {whole:.3f} here, loses when a column is shuffled",
        ("column", "drop", "± over shuffles"),
        [(names[i], f"{mean[i]:.3f}", f"{spread[i]:.3f}") for i in order],
        f"Mean and standard deviation of {len(drops)} shuffles, on these rows, which training and tuning must not have "
        "seen. Of two columns that say the same, either seems to be worth little.",
    )
