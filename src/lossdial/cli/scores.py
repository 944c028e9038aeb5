"""A file of somebody else's scores: read, tuned, and the point written as JSON. No network, no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lossdial.base.errors import closest, warn
from lossdial.base.files import write
from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from lossdial.cli.questions import Question
    from lossdial.dial import Dial

__all__ = ["Columns", "ScoresFile", "numbers", "read_scores", "tune_scores"]


@dataclass(frozen=True)
class Columns:
    """Which column of the file is what, as the options of the command name them."""

    target: str | None
    score: str | None
    score_is: Literal["probability", "margin"] | None
    positive: str | None
    groups: str | None
    weight: str | None
    by: str | None = None


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
    parts: NDArray[Any] | None = None

    def threshold(self, margin: float) -> float:
        """A threshold on the file's own scale: the scores above it are those whose margins are above the margin."""
        import numpy as np

        if self.score_is == "margin":
            return float(margin)
        flagged = np.asarray(self.margins, dtype=np.float64) > margin
        below = float(self.raw[~flagged].max(initial=-np.inf))
        above = float(self.raw[flagged].min(initial=np.inf))
        between = float(1 / (1 + np.exp(-margin)))
        return between if below <= between < above else max(below, float(np.nextafter(0.0, -1.0)))


def tune_scores(scores: str, columns: Columns, question: Question, out: str) -> None:
    """``lossdial tune --scores``."""
    from rich.console import Console

    from lossdial.base.codec import encode_float
    from lossdial.cli.points import point_sheet
    from lossdial.dial import SampleSize

    console = Console(soft_wrap=True, highlight=False)
    found = read_scores(scores, columns)
    why = "as --score-is says" if columns.score_is else _range(found)
    console.print(f"{columns.score} is taken as a {found.score_is} of {columns.target}={found.classes[1]} ({why}).")
    answer = question.ask(found.dial, found.parts)
    if isinstance(answer, SampleSize):
        console.print(str(answer), markup=False)
        return
    ends = {"threshold": answer.threshold, "lower": answer.lower}
    cuts = {end: found.threshold(margin) for end, margin in ends.items() if margin is not None}
    content = answer.to_json() | {
        "score": {"column": columns.score, "is": found.score_is}
        | {end: encode_float(cut) for end, cut in cuts.items()},
        "target": {"column": columns.target, "positive": found.classes[1], "negative": found.classes[0]},
    }
    write(Path(out), json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n")
    console.print(point_sheet(answer))
    if "lower" in cuts:
        act = f"act where it is > {cuts['threshold']:.6g}, refer between"
        console.print(f"clear where {columns.score} <= {cuts['lower']:.6g}, {act}; the point is in {out}", markup=False)
        return
    if question.busy:
        console.print(f"{question.busy}.", markup=False)
    console.print(f"flag {found.classes[1]} where {columns.score} > {cuts['threshold']:.6g}; the point is in {out}")


def read_scores(path: str, columns: Columns) -> ScoresFile:
    """The labels and scores of a table; each column that is missing, or is not what it should be, is an error."""
    import numpy as np

    from lossdial.base.labels import positive_class
    from lossdial.data import read_table
    from lossdial.dial import Dial, margin_of_probability

    frame = read_table(path)
    labels = _column(frame, columns.target, "--target", "the labels").to_numpy()
    raw = numbers(_column(frame, columns.score, "--score", "the scores"), "--score")
    groups = None if columns.groups is None else _column(frame, columns.groups, "--group", "").to_numpy()
    weight = None
    if columns.weight is not None:
        weight = numbers(_column(frame, columns.weight, "--weight", ""), "--weight")
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
    parts = None if columns.by is None else _column(frame, columns.by, "--by", "").to_numpy()
    return ScoresFile(dial, (" or ".join(others), str(positive)), kind, raw, margins, parts)


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


def numbers(column: pd.Series[Any], option: str) -> NDArray[np.float64]:
    """A column as finite numbers, however they are written: 0.5, 0,5 or 1.234,5 are read alike in a whole column."""
    import numpy as np
    import pandas as pd

    from lossdial.data.encoder.cells import number_format

    found = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    if not np.isfinite(found).all() and column.dtype.kind not in "biuf":
        texts = column.astype(str).tolist()
        chosen = number_format(texts)
        if chosen is not None:
            read = [chosen[0].read(text) for text in texts]
            found = np.array([np.nan if value is None else value for value in read], dtype=np.float64)
    if not np.isfinite(found).all():
        row = int((~np.isfinite(found)).argmax())
        raise UsageError(f"{option} {column.name} must be finite numbers; row {row + 1} has {column.iloc[row]!r}.")
    return found


def _range(found: ScoresFile) -> str:
    if found.score_is == "probability":
        return "all lie in [0, 1]; --score-is margin says otherwise"
    return "some lie outside [0, 1]"


def _check_direction(dial: Dial, columns: Columns) -> None:

    (auc,) = dial.surface.metrics(["auc"])["auc"]
    if auc < 0.5:
        warn(
            f"the scores of positives are lower than those of negatives (AUC {auc:.3f}): is {columns.score} a score of "
            "the other label? --positive chooses."
        )
