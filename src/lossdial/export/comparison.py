"""A graph compared with Python, row by row."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import warn
from lossdial.bundle import Bundle
from lossdial.bundle.predictor import Decisions, Predictor, class_array
from lossdial.data.encoder.columns import DAYS, CategoryColumn, Column, DateColumn, WordsColumn
from lossdial.data.schema import ArraySchema, ImageSchema, TableSchema
from lossdial.dial.metrics.registry import sigmoid
from lossdial.export.nodes import ExportError
from lossdial.export.session import OnnxAnswers, OnnxModel

#: of scores, where they are below 1, and of probabilities
_TOLERANCE: Final = 1e-4
_BATCHES: Final = (1, 2, 1000)
_NUMBERS: Final = 2**22  # that a batch may hold: a thousand large images would not fit into memory
_GAPS: Final = 0.05
_LAMS: Final = 4
_SYLLABLES: Final = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe")


@dataclass(frozen=True)
class Check:
    """How a graph compares with Python: the greatest differences, and labels that differ by rounding alone (near)."""

    batches: tuple[int, ...]
    rows: int
    score: float
    probability: float
    near: int


def check(bundle: Bundle, graph: bytes, rows: Any = None, seed: int = 0) -> Check:
    """Compare labels, probabilities and scores at every point and at some λ by hand; a difference is an error.

    Batches have 1, 2 and 1,000 rows that are made up; `rows` are raw rows to compare besides.
    """
    model, predictor = OnnxModel(graph, threads=1), bundle.predictor
    largest = max(2, min(_BATCHES[-1], _NUMBERS // max(1, encoded(predictor, 1).size)))
    sizes = tuple(dict.fromkeys(min(size, largest) for size in _BATCHES))
    batches = [made_up(predictor, size, seed) for size in sizes]
    if rows is not None:
        batches += [rows[i : i + largest] for i in range(0, len(rows), largest)]
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of gaps and texts, which are meant
        parts = [part for batch in batches for part in _compared(bundle, model, batch, seed)]
    scores, probabilities, near = zip(*parts, strict=True)
    total = sum(map(len, batches))
    if sum(near):
        warn(f"{sum(near)} of {total:,} rows lie on a threshold to within rounding, and get the other label.")
    return Check(sizes, total, max(scores), max(probabilities), sum(near))


def _compared(bundle: Bundle, model: OnnxModel, batch: Any, seed: int) -> Iterator[tuple[float, float, int]]:
    """The greatest differences of scores and of probabilities, and labels near a threshold: by point, then by λ."""
    predictor = bundle.predictor
    features = predictor.features(batch)
    for point in (point for point in bundle.points.values() if point.lower is None):
        ours = predictor.decide(features, point)
        theirs = model.decide(batch, point.name)
        yield _differences(ours, theirs, point.threshold, predictor, f"point {point.name!r}")
    space, rng = predictor.space, np.random.default_rng(seed)
    for _ in range(_LAMS if space.dim else 0):
        lam = {name: float(np.float32(rng.uniform(*space.bounds(name)))) for name in space.free}
        margin = predictor.margins(features, lam).astype(np.float64)
        threshold = float(np.median(margin)) + 1e-3
        ours = Decisions(margin.astype(np.float32), sigmoid(margin), margin > threshold)
        yield _differences(ours, model.decide(batch, lam=lam, threshold=threshold), threshold, predictor, f"λ {lam}")


def _differences(
    ours: Decisions, theirs: OnnxAnswers, threshold: float, predictor: Predictor, where: str
) -> tuple[float, float, int]:
    scale = np.maximum(1, np.abs(ours.margin))
    score, probability = _apart(ours.margin, theirs.score) / scale, _apart(ours.probability, theirs.probability)
    labels = class_array(predictor.classes)[ours.positive.astype(np.intp)].astype(str)
    other = labels != theirs.label.astype(str)
    near = np.abs(ours.margin.astype(np.float64) - threshold) <= _TOLERANCE * scale
    for what, bad in (
        (f"scores by up to {score.max(initial=0.0):.2g}", score > _TOLERANCE),
        (f"probabilities by up to {probability.max(initial=0.0):.2g}", probability > _TOLERANCE),
        ("labels", other & ~near),
    ):
        if bad.any():
            raise ExportError(
                f"the graph differs from Python at {where}: {what}, in {int(bad.sum()):,} of {len(bad):,} rows; "
                "nothing was written. A network that draws random numbers, or keeps state, cannot be exported."
            )
    return float(score.max(initial=0.0)), float(probability.max(initial=0.0)), int(other.sum())


def _apart(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """|a − b|; infinite where one of them is no number."""
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isnan(apart), np.inf, apart)


def encoded(predictor: Predictor, n: int) -> NDArray[Any]:
    """n made-up rows, as the network gets them."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return predictor.schema.encode(made_up(predictor, n, seed=0))


def made_up(predictor: Predictor, n: int, seed: int) -> Any:
    """n raw rows: numbers about as large as in training, known and unknown texts, gaps, noise."""
    schema, rng = predictor.schema, np.random.default_rng([seed, n])
    if isinstance(schema, ImageSchema):
        levels = rng.integers(1, 256, (n, schema.channels, 1, 1))  # dark images and bright ones
        return (rng.random((n, schema.channels, schema.height, schema.width)) * levels).astype(np.uint8)
    if isinstance(schema, ArraySchema):
        noise = rng.normal(size=(n, *schema.shape))
        mean, scale = _moments(predictor, schema.shape[0]) if len(schema.shape) == 1 else (0.0, 1.0)
        return (noise * np.nan_to_num(scale, nan=1.0) + np.nan_to_num(mean)).astype(np.float32)
    if not isinstance(schema, TableSchema):
        raise ExportError(f"rows of the kind {schema.kind!r} have no form in ONNX yet.")
    widths = [len(column.names()) for column in schema.encoder.columns_]
    mean, scale = _moments(predictor, sum(widths))
    frame: dict[str, Any] = {name: [0.0] * n for name in schema.encoder.dropped_}
    for column, start in zip(schema.encoder.columns_, np.cumsum([0, *widths]), strict=False):
        frame[column.name] = _cells(column, mean[start], scale[start], n, rng)
    return pd.DataFrame(frame)


def _moments(predictor: Predictor, width: int) -> tuple[Any, Any]:
    """Mean and deviation (width,) of the network's inputs in training, or NaN where it does not keep them."""
    known = getattr(predictor.model.backbone, "standardize", None)
    mean, scale = getattr(known, "mean", None), getattr(known, "scale", None)
    if mean is None or scale is None or mean.shape != (width,):
        return np.full(width, np.nan), np.full(width, np.nan)
    return mean.double().numpy(), scale.double().numpy()


def _cells(column: Column, centre: float, spread: float, n: int, rng: np.random.Generator) -> Any:
    gaps = rng.random(n) < _GAPS
    if isinstance(column, CategoryColumn):
        words = [*column.categories, *column.infrequent, "a text that nobody has seen"]
        return pd.Series([words[i] for i in rng.integers(0, len(words), n)], dtype=object).mask(gaps)
    if isinstance(column, WordsColumn):
        return pd.Series([" ".join(_SYLLABLES[i] for i in rng.integers(0, 12, 5)) for _ in range(n)]).mask(gaps)
    if np.isnan(centre):
        centre, spread = column.median, max(1.0, abs(column.median))
    numbers = rng.normal(centre, spread or 1.0, n)
    if isinstance(column, DateColumn):
        days = np.round(np.clip(numbers, -30_000, 30_000), 2)
        return pd.Series(pd.Timestamp(column.origin) + pd.to_timedelta(days, "D")).mask(gaps)
    if column.boolean:
        numbers = (numbers > centre).astype(np.float64)
    if column.format.suffix == DAYS:
        return pd.Series(pd.to_timedelta(np.round(np.clip(numbers, -30_000, 30_000), 3), "D")).mask(gaps)
    return pd.Series(numbers).mask(gaps)
