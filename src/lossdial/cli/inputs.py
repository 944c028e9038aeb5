"""What ``--data`` names, read for a trained model: rows of a table or images, with labels where they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import InputError, closest, warn
from lossdial.cli.options import Columns
from lossdial.data.encoder.cells import number_format
from lossdial.data.readers.decoding import WHITE
from lossdial.data.schema import ImageRows, ImageSchema, TableSchema
from lossdial.data.sources import NewRows, read_images, read_rows
from lossdial.dial.surface import column_of as column_of_lam

if TYPE_CHECKING:
    from lossdial import Bundle, Dial, Lam
    from lossdial.dial import OperatingPoint


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """Rows for the predictor. Of the ``table`` as it was read X holds the rows ``kept``; ``unreadable`` says why it
    lacks another. y is None where no labels were asked for, or none are there."""

    X: Any
    y: Any
    groups: NDArray[Any] | None
    table: pd.DataFrame
    kept: NDArray[Any]
    unreadable: dict[int, str]

    @property
    def rows(self) -> pd.DataFrame:
        """The rows of the table that X holds."""
        return self.table.iloc[self.kept]


def read_inputs(bundle: Bundle, data: str, columns: Columns, labelled: bool | None) -> ModelInputs:
    """Read ``data``, whatever it is, for a model of whatever kind.

    labelled: whether labels are needed; None takes them where there are any. A target that is named must be there.
    """
    schema = bundle.predictor.schema
    if isinstance(schema, ImageSchema):
        return _images(bundle, schema, data, columns, labelled)
    rows = read_rows(data, columns.target or bundle.training.target, columns.group)
    if labelled is None:
        known = rows.target in rows.frame and bool(rows.frame[rows.target].notna().any())
        labelled = columns.target is not None or known
    return _rows(bundle, rows, labelled)


def _rows(bundle: Bundle, rows: NewRows, labelled: bool) -> ModelInputs:
    if labelled:
        require_target(bundle, rows.target, rows.frame)
    y = rows.labels(bundle.predictor.classes) if labelled else None
    X: Any = rows.frame
    if not isinstance(bundle.predictor.schema, TableSchema):  # trained in Python on an array: columns by their order
        X = rows.frame.drop(columns=[name for name in (rows.target,) if name in rows.frame])
        try:
            X = X.to_numpy(dtype=np.float32)
        except (TypeError, ValueError) as error:
            problem = f"must hold numbers alone, for this model was trained on an array of numbers ({error})"
            remedy = "Train on the data frame to have text and gaps."
            raise InputError("data", problem, got=rows.source, remedy=remedy) from error
    return ModelInputs(X, y, rows.groups, rows.frame, np.arange(len(rows.frame)), {})


def _images(bundle: Bundle, schema: ImageSchema, data: str, columns: Columns, labelled: bool | None) -> ModelInputs:
    if schema.height != schema.width or schema.channels != 3:
        size = f"{schema.channels} of {schema.height} × {schema.width} px"
        problem = f"is read as square images of three channels; this model takes {size}"
        raise InputError("data", problem, remedy="Use it in Python, on arrays.")
    negative, positive = (str(name) for name in bundle.predictor.classes)
    images = read_images(
        data,
        schema.height,
        (negative, positive),
        white=schema.white or WHITE,
        path_column=columns.path_column or schema.path_column or "path",
        label_column=columns.target or bundle.training.target or "label",
        group=columns.group,
        max_corrupt=1.0 if labelled is False else 0.01,
    )
    if labelled is None:
        labelled = columns.target is not None or images.names is not None
    for text in images.notes:
        warn(text)
    y = np.array(bundle.predictor.classes)[images.labels((negative, positive))] if labelled else None
    gone = np.setdiff1d(np.arange(len(images.table)), images.kept)
    reasons = dict(zip(gone.tolist(), (reason for _, reason in images.corrupt), strict=True))
    return ModelInputs(ImageRows(images.x, white=schema.white), y, images.groups, images.table, images.kept, reasons)


def require_target(bundle: Bundle, target: str | None, table: pd.DataFrame) -> str:
    """The column of the labels; an error where nobody knows it."""
    name = target or bundle.training.target
    if name is None:
        problem = "is needed: this model was saved without the name of its labels' column"
        raise InputError("target", problem, remedy=f"There are {', '.join(map(str, table.columns))}.")
    return name


def dial_at_points(
    bundle: Bundle, data: str | None, columns: Columns
) -> tuple[Dial, list[OperatingPoint], ModelInputs | None]:
    """The dial at the grid of λ and at those of the points; the points that it can judge; and what was read."""
    points = list(bundle.points.values())
    if data is not None:
        inputs = read_inputs(bundle, data, columns, labelled=True)
        dial = bundle.dial(inputs.X, inputs.y, groups=inputs.groups, lams=grid_with_points(bundle))
        return dial, points, inputs
    require_data_for(columns)
    dial = bundle.held_out()
    judged = [point for point in points if column_of_lam(dial.lams, point.lam) is not None]
    for point in points:
        if point not in judged:
            warn(f"{point.name} is left out: no scores at its λ are kept. Give {{data}}.")
    return dial, judged, None


def require_data_for(columns: Columns) -> None:
    """Refuse columns that are named although no data are."""
    for name, column in vars(columns).items():
        if column is not None:
            raise InputError(name, "names a column of {data}, which is not given", got=column)


def grid_with_points(bundle: Bundle) -> Lam:
    """The grid of λ that a dial has, and the λ of the points where they are others."""
    from lossdial.bundle.predictor import dial_grid

    space = bundle.predictor.space
    grid = [lam.as_dict() for lam in dial_grid(space)]
    for point in bundle.points.values():
        if dict(point.lam) not in grid:
            grid.append(dict(point.lam))
    return space.stack(grid)


def point_of(bundle: Bundle, run: str, name: str, option: str = "point") -> OperatingPoint:
    """The operating point that an option names."""
    if name not in bundle.points:
        raise InputError(option, f"names no operating point of {run}", got=name, remedy=closest(name, bundle.points))
    return bundle.points[name]


def column_of(table: pd.DataFrame, name: str, option: str, source: str, gaps: bool = False) -> pd.Series[Any]:
    """The column of a table that an option names; whether it may have ``gaps``."""
    if name not in table:
        raise InputError(option, f"names no column of {source}", got=name, remedy=closest(name, map(str, table)))
    column = table[name]
    if not gaps and column.isna().any():
        first = int(column.isna().to_numpy().argmax()) + 1
        problem = f"{name} is empty in {int(column.isna().sum()):,} rows of {source}, first in row {first}"
        raise InputError(option, problem)
    return column


def numbers(column: pd.Series[Any], option: str) -> NDArray[Any]:
    """A column as finite numbers, however they are written: 0.5, 0,5 and 1.234,5 are read alike in a whole column."""
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    if not np.isfinite(values).all() and column.dtype.kind not in "biuf":
        texts = column.astype(str).tolist()
        style = number_format(texts)
        if style is not None:
            read = [style[0].read(text) for text in texts]
            values = np.array([np.nan if value is None else value for value in read], dtype=np.float64)
    if not np.isfinite(values).all():
        row = int((~np.isfinite(values)).argmax())
        raise InputError(option, f"{column.name} must be finite numbers; row {row + 1} has {column.iloc[row]!r}")
    return values


def case_amounts(
    table: pd.DataFrame, cost_fn: str | None, cost_fp: str | None, source: str
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """What a miss and a false alarm cost for each case: numbers, or columns of the table. None if neither is given."""
    if cost_fn is None and cost_fp is None:
        return None
    if cost_fn is None or cost_fp is None:
        raise InputError("", "{cost_fn} and {cost_fp} go together, each a number or a column of {data}")
    return _amounts(table, cost_fn, "cost_fn", source), _amounts(table, cost_fp, "cost_fp", source)


def _amounts(table: pd.DataFrame, value: str, option: str, source: str) -> NDArray[Any]:
    try:
        costs = np.full(len(table), float(value))
    except ValueError:
        costs = numbers(column_of(table, value, option, source), option)
    wrong = costs[~(np.isfinite(costs) & (costs >= 0))]
    if wrong.size:
        raise InputError(option, f"{value} must be finite and 0 or more; got {wrong[0]:g} ({wrong.size:,} such)")
    return costs
