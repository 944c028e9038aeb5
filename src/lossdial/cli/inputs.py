"""What ``--data`` names, as a trained model takes it: rows of a table or images, with labels where asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from lossdial import Bundle
    from lossdial.data.schema import ImageSchema
    from lossdial.data.sources import NewRows

__all__ = ["Columns", "Inputs", "read_inputs"]


@dataclass(frozen=True)
class Columns:
    """Columns of a table that are no inputs of the network, as options name them; None: as in training."""

    target: str | None = None
    group: str | None = None
    path: str | None = None


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows for the predictor.

    table: what was read, a row for each sample asked about; ``kept`` are those that X holds, and ``unreadable`` says
        why another has no score.
    """

    X: Any
    y: NDArray[Any] | None
    groups: NDArray[Any] | None
    table: pd.DataFrame
    kept: NDArray[Any]
    unreadable: dict[int, str]

    @property
    def labels(self) -> NDArray[Any]:
        """The labels, which were asked for."""
        if self.y is None:
            raise ValueError("these samples have no labels.")
        return self.y


def read_inputs(bundle: Bundle, data: str, columns: Columns, labelled: bool | None) -> Inputs:
    """Whatever ``data`` may be, for a model of whatever kind; notes on it are printed.

    labelled: whether labels are needed; None takes them where there are any. A target that is named must be there.
    """
    from lossdial.data.schema import ImageSchema
    from lossdial.data.sources import read_rows

    schema = bundle.predictor.schema
    if isinstance(schema, ImageSchema):
        return _images(bundle, schema, data, columns, labelled)
    rows = read_rows(data, columns.target or bundle.training.target, columns.group)
    if labelled is None:
        known = rows.target in rows.frame and bool(rows.frame[rows.target].notna().any())
        labelled = columns.target is not None or known
    return _rows(bundle, rows, labelled)


def _rows(bundle: Bundle, rows: NewRows, labelled: bool) -> Inputs:
    import numpy as np

    from lossdial.data.schema import TableSchema

    if labelled and rows.target is None:
        raise UsageError(
            "this model was saved without the name of its labels' column: give --target COLUMN. There are "
            f"{', '.join(map(str, rows.frame.columns))}."
        )
    y = rows.labels(bundle.predictor.classes) if labelled else None
    X: Any = rows.frame
    if not isinstance(bundle.predictor.schema, TableSchema):  # trained in Python on an array: columns by their order
        X = rows.frame.drop(columns=[name for name in (rows.target,) if name in rows.frame])
        try:
            X = X.to_numpy(dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"this model was trained on an array of numbers, and {rows.source} holds others ({error}). Train on "
                "the data frame to have text and gaps."
            ) from error
    return Inputs(X, y, rows.groups, rows.frame, np.arange(len(rows.frame)), {})


def _images(bundle: Bundle, schema: ImageSchema, data: str, columns: Columns, labelled: bool | None) -> Inputs:
    import numpy as np

    from lossdial.base.errors import warn
    from lossdial.data.readers.decoding import WHITE
    from lossdial.data.schema import ImageRows
    from lossdial.data.sources import read_images

    if schema.height != schema.width or schema.channels != 3:
        raise ValueError(
            f"files are read as square images of three channels; this model takes {schema.channels} of "
            f"{schema.height} × {schema.width} px. Use it in Python, on arrays."
        )
    negative, positive = (str(name) for name in bundle.predictor.classes)
    found = read_images(
        data,
        schema.height,
        (negative, positive),
        white=schema.white or WHITE,
        path_column=columns.path or schema.path_column or "path",
        label_column=columns.target or bundle.training.target or "label",
        group=columns.group,
        max_corrupt=1.0 if labelled is False else 0.01,
    )
    if labelled is None:
        labelled = columns.target is not None or found.names is not None
    for text in found.notes:
        warn(text)
    y = np.array(bundle.predictor.classes)[found.labels((negative, positive))] if labelled else None
    gone = np.setdiff1d(np.arange(len(found.table)), found.kept)
    reasons = dict(zip(gone.tolist(), (reason for _, reason in found.corrupt), strict=True))
    return Inputs(ImageRows(found.x, white=schema.white), y, found.groups, found.table, found.kept, reasons)
