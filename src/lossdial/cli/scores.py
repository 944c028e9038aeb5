"""A file of somebody else's scores: read, tuned, and the point written as JSON. No network, no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lossdial.base.files import write
from lossdial.base.names import closest
from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from lossdial.dial import Dial, OperatingPoint

__all__ = ["Columns", "ScoresFile", "read_scores", "tune_scores"]


@dataclass(frozen=True)
class Columns:
    """Which column of the file is what, as the options of the command name them."""

    target: str | None
    score: str | None
    score_is: Literal["probability", "margin"] | None
    positive: str | None
    groups: str | None
    weight: str | None


@dataclass(frozen=True)
class ScoresFile:
    """Labels and scores of a file, ready to be dialled.

    ``raw`` (n,) are the scores as they stand in the file, ``margins`` (n,) what the dial sees of them.
    """

    dial: Dial
    classes: tuple[str, str]  # the negative label first
    score_is: Literal["probability", "margin"]
    raw: NDArray[np.float64]
    margins: NDArray[np.floating[Any]]

    def threshold(self, point: OperatingPoint) -> float:
        """The point's threshold on the file's own scale: the scores above it are those that the point flags."""
        import numpy as np

        if self.score_is == "margin":
            return float(point.threshold)
        flagged = np.asarray(point.predict(self.margins))
        below = float(self.raw[~flagged].max(initial=-np.inf))
        above = float(self.raw[flagged].min(initial=np.inf))
        between = float(1 / (1 + np.exp(-point.threshold)))
        return between if below <= between < above else max(below, float(np.nextafter(0.0, -1.0)))


def tune_scores(
    scores: str, columns: Columns, aim: dict[str, Any], name: str, calibration: str | None, out: str
) -> None:
    """``lossdial tune --scores``."""
    from rich.console import Console

    from lossdial.cli.points import point_sheet

    console = Console(soft_wrap=True, highlight=False)
    found = read_scores(scores, columns)
    why = "as --score-is says" if columns.score_is else _range(found)
    console.print(f"{columns.score} is taken as a {found.score_is} of {columns.target}={found.classes[1]} ({why}).")
    point = found.dial.tune(**aim, name=name, calibration=calibration)
    threshold = found.threshold(point)
    content = point.to_json() | {
        "score": {"column": columns.score, "is": found.score_is, "threshold": threshold},
        "target": {"column": columns.target, "positive": found.classes[1], "negative": found.classes[0]},
    }
    write(Path(out), json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n")
    console.print(point_sheet(point))
    console.print(f"flag {found.classes[1]} where {columns.score} > {threshold:.6g}; the point is in {out}")


def read_scores(path: str, columns: Columns) -> ScoresFile:
    """The labels and scores of a table; each column that is missing, or is not what it should be, is an error."""
    import numpy as np

    from lossdial.base.labels import positive_class
    from lossdial.data import read_table
    from lossdial.dial import Dial, margin_of_probability

    frame = read_table(path)
    labels = _column(frame, columns.target, "--target", "the labels").to_numpy()
    raw = _numbers(_column(frame, columns.score, "--score", "the scores"), "--score")
    groups = None if columns.groups is None else _column(frame, columns.groups, "--group", "").to_numpy()
    weight = None
    if columns.weight is not None:
        weight = _numbers(_column(frame, columns.weight, "--weight", ""), "--weight")
    positive = positive_class(labels, columns.positive, "--positive")
    y = labels == positive
    if not y.any() or y.all():
        raise UsageError(f"--target {columns.target} holds one label alone, {labels[0]}; two are needed.")
    inside = bool(((raw >= 0) & (raw <= 1)).all())
    if columns.score_is == "probability" and not inside:
        odd = raw[(raw < 0) | (raw > 1)][0]
        raise UsageError(f"--score {columns.score} holds {odd:g}; a probability lies in [0, 1]. Use --score-is margin.")
    kind = columns.score_is or ("probability" if inside else "margin")
    margins = margin_of_probability(raw) if kind == "probability" else raw
    dial = Dial(y, margins, groups=groups, sample_weight=weight)
    _check_direction(dial, columns)
    others = sorted({str(label) for label in np.unique(labels[~y])})
    return ScoresFile(dial, (" or ".join(others), str(positive)), kind, raw, margins)


def _column(frame: pd.DataFrame, name: str | None, option: str, what: str) -> pd.Series[Any]:
    if name is None:
        raise UsageError(
            f"{option} is needed with --scores: the column with {what}. There are {', '.join(map(str, frame))}."
        )
    if name not in frame:
        raise UsageError(f"{option} {name}: no column is called that; {closest(name, list(frame))}")
    column = frame[name]
    if column.isna().any():
        row = int(column.isna().to_numpy().argmax()) + 1
        raise UsageError(f"{option} {name} is empty in {int(column.isna().sum()):,} rows, row {row} the first.")
    return column


def _numbers(column: pd.Series[Any], option: str) -> NDArray[np.float64]:
    import numpy as np
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    if not np.isfinite(numbers).all():
        row = int((~np.isfinite(numbers)).argmax())
        raise UsageError(f"{option} {column.name} must be finite numbers; row {row + 1} has {column.iloc[row]!r}.")
    return numbers


def _range(found: ScoresFile) -> str:
    if found.score_is == "probability":
        return "all lie in [0, 1]; --score-is margin says otherwise"
    return "some lie outside [0, 1]"


def _check_direction(dial: Dial, columns: Columns) -> None:
    import warnings

    (auc,) = dial.surface.metrics(["auc"])["auc"]
    if auc < 0.5:
        warnings.warn(
            f"the scores of positives are lower than those of negatives (AUC {auc:.3f}): is {columns.score} a score of "
            "the other label? --positive chooses.",
            UserWarning,
            stacklevel=2,
        )
