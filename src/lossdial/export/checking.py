"""Whether a graph says what Python says, row by row."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import warn
from lossdial.bundle import Bundle
from lossdial.bundle.predictor import Decisions, Predictor, class_array
from lossdial.data.encoder.columns import DAYS, CategoryColumn, Column, DateColumn
from lossdial.data.schema import ArraySchema, ImageSchema, TableSchema
from lossdial.dial.metrics.registry import sigmoid
from lossdial.export.network import ExportError
from lossdial.export.session import OnnxAnswers, OnnxModel

__all__ = ["TOLERANCE", "Check", "check", "encoded", "made_up"]

#: of scores, where they are below 1, and of probabilities
TOLERANCE: Final = 1e-4
_BATCHES: Final = (1, 2, 1000)
_NUMBERS: Final = 2**22  # that a batch may hold: a thousand large images would not fit into memory
_GAPS: Final = 0.05
_LAMS: Final = 4


@dataclass(frozen=True)
class Check:
    """How a graph compares with Python: batches and rows tried, the greatest difference of scores and probabilities.

    near: labels that differ because a score lies on the threshold to within rounding.
    """

    batches: tuple[int, ...]
    rows: int
    score: float
    probability: float
    near: int


def check(bundle: Bundle, graph: bytes, rows: Any = None, seed: int = 0) -> Check:
    """Compare labels, probabilities and scores at every point and at some λ by hand, in batches of 1, 2 and 1,000.

    rows: raw rows to compare besides those that are made up. Where they differ, an error says at what.
    """
    model, predictor = OnnxModel(graph, threads=1), bundle.predictor
    size = encoded(predictor, 1).size
    largest = max(2, min(_BATCHES[-1], _NUMBERS // max(1, size)))
    tried = tuple(dict.fromkeys(min(size, largest) for size in _BATCHES))
    found = Check(tried, 0, 0.0, 0.0, 0)
    batches = [made_up(predictor, size, seed) for size in tried]
    given = [] if rows is None else [rows[i : i + largest] for i in range(0, len(rows), largest)]
    for batch in [*batches, *given]:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of gaps and texts, which are meant
            found = _compared(bundle, model, batch, found, seed)
    if found.near:
        warn(
            f"{found.near} of {found.rows:,} rows lie on a threshold to within rounding, and get the other label in "
            "onnxruntime."
        )
    return found


def _compared(bundle: Bundle, model: OnnxModel, batch: Any, found: Check, seed: int) -> Check:
    predictor = bundle.predictor
    features = predictor.features(batch)
    for point in (point for point in bundle.points.values() if point.lower is None):
        here = predictor.decide(features, point)
        found = _worse(
            found, here, model.decide(batch, point.name), point.threshold, predictor, f"point {point.name!r}"
        )
    for lam in _by_hand(predictor, seed):
        margin = predictor.margins(features, lam)
        cut = float(np.median(margin)) + 1e-3
        here = Decisions(margin, sigmoid(margin.astype(np.float64)), margin.astype(np.float64) > cut)
        there = model.decide(batch, lam=lam, threshold=cut)
        found = _worse(found, here, there, cut, predictor, f"λ {lam}")
    return replace(found, rows=found.rows + len(features))


def _by_hand(predictor: Predictor, seed: int) -> Iterator[Mapping[str, float]]:
    space, rng = predictor.space, np.random.default_rng(seed)
    for _ in range(_LAMS if space.dim else 0):
        yield {name: float(np.float32(rng.uniform(*space.bounds(name)))) for name in space.free}


def _worse(found: Check, here: Decisions, there: OnnxAnswers, cut: float, predictor: Predictor, where: str) -> Check:
    score = _apart(here.margin, there.score) / np.maximum(1, np.abs(here.margin))
    probability = _apart(here.probability, there.probability)
    labels = class_array(predictor.classes)[here.positive.astype(np.intp)].astype(str)
    other = labels != there.label.astype(str)
    close = np.abs(here.margin.astype(np.float64) - cut) <= TOLERANCE * np.maximum(1, np.abs(here.margin))
    for text, bad in (
        (f"scores by up to {score.max(initial=0.0):.2g}", score > TOLERANCE),
        (f"probabilities by up to {probability.max(initial=0.0):.2g}", probability > TOLERANCE),
        ("labels", other & ~close),
    ):
        if bad.any():
            raise ExportError(
                f"the graph differs from Python at {where}: {text}, in {int(bad.sum()):,} of {len(bad):,} rows; "
                "nothing was written. A network that draws random numbers, or keeps state, cannot be exported."
            )
    worst = float(score.max(initial=0.0)), float(probability.max(initial=0.0))
    return replace(
        found,
        score=max(found.score, worst[0]),
        probability=max(found.probability, worst[1]),
        near=found.near + int(other.sum()),
    )


def _apart(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """|a − b|; infinite where one of them is no number."""
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isnan(apart), np.inf, apart)


def encoded(predictor: Predictor, n: int) -> NDArray[Any]:
    """What the network is given of n rows that are made up."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return predictor.schema.encode(made_up(predictor, n, seed=0))


def made_up(predictor: Predictor, n: int, seed: int) -> Any:
    """n raw rows that nobody has seen: numbers about as large as in training, known and unknown texts, gaps, noise."""
    schema, rng = predictor.schema, np.random.default_rng([seed, n])
    if isinstance(schema, ImageSchema):
        levels = rng.integers(1, 256, (n, schema.channels, 1, 1))  # dark images and bright ones
        return (rng.random((n, schema.channels, schema.height, schema.width)) * levels).astype(np.uint8)
    if isinstance(schema, ArraySchema):
        noise = rng.normal(size=(n, *schema.shape))
        if len(schema.shape) == 1:
            noise = noise * [_moments(predictor, i, (0.0, 1.0))[1] for i in range(schema.shape[0])]
            noise = noise + [_moments(predictor, i, (0.0, 1.0))[0] for i in range(schema.shape[0])]
        return noise.astype(np.float32)
    if not isinstance(schema, TableSchema):
        raise ExportError(f"rows of the kind {schema.kind!r} have no form in ONNX yet.")
    frame, start = {}, 0
    for column in schema.encoder.columns_:
        usual = (0.0, 1.0) if isinstance(column, CategoryColumn) else (column.median, max(1.0, abs(column.median)))
        frame[column.name] = _cells(column, *_moments(predictor, start, usual), n, rng)
        start += len(column.names())
    return pd.DataFrame({**{name: [0.0] * n for name in schema.encoder.dropped_}, **frame})


def _moments(predictor: Predictor, i: int, usual: tuple[float, float]) -> tuple[float, float]:
    """Mean and deviation of one of the network's inputs in training, where the network keeps them."""
    known = getattr(predictor.model.backbone, "standardize", None)
    mean, scale = getattr(known, "mean", None), getattr(known, "scale", None)
    if mean is None or scale is None or mean.dim() != 1 or len(mean) <= i:
        return usual
    return float(mean[i]), float(scale[i])


def _cells(column: Column, centre: float, spread: float, n: int, rng: np.random.Generator) -> Any:
    gaps = rng.random(n) < _GAPS
    if isinstance(column, CategoryColumn):
        words = [*column.categories, *column.infrequent, "a text that nobody has seen"]
        return pd.Series([words[i] for i in rng.integers(0, len(words), n)], dtype=object).mask(gaps)
    numbers = rng.normal(centre, spread or 1.0, n)
    if isinstance(column, DateColumn):
        days = np.round(np.clip(numbers, -30_000, 30_000))
        return pd.Series(pd.Timestamp(column.origin) + pd.to_timedelta(days, "D")).mask(gaps)
    if column.boolean:
        numbers = (numbers > centre).astype(np.float64)
    if column.format.suffix == DAYS:
        return pd.Series(pd.to_timedelta(np.round(np.clip(numbers, -30_000, 30_000), 3), "D")).mask(gaps)
    return pd.Series(numbers).mask(gaps)
