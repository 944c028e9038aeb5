"""What a page knows: not the scores, but what decisions need of them."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.codec import encode_float
from lossdial.base.errors import InputError
from lossdial.dial.calibration import AUTO, calibrated, calibration_to_json, calibrations
from lossdial.dial.checks import FEW_POSITIVES, BoolArray, FloatArray, require_finite
from lossdial.dial.dial import Dial
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Samples, Surface, by_plainness, column_of
from lossdial.dial.uncertainty.intervals import noise_over_lam
from lossdial.explorer import images
from lossdial.explorer.columns import Split, scores_by_lam, split, write_columns
from lossdial.explorer.encoding import Streams
from lossdial.explorer.summaries import GRID, HISTOGRAM_BINS, RELIABILITY_BINS, histogram, most_cuts, quantile_cuts

FORMAT = "lossdial points 1"
METRICS = ("auc", "average_precision", "max_f1", "max_balanced_accuracy", "brier", "log_loss")
"""Figures over λ that depend on no control of the page."""
_RESAMPLES = 200


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Scores whose outcomes nobody knows yet: a page shows the alerts that each threshold raises, and no more.

    Parameters
    ----------
    scores : array_like of shape (n,) or (n, m)
        The scores of n samples, at m values of λ.
    lams : sequence of mappings, optional
        Those values, as names and numbers.

    Examples
    --------
    >>> Unlabelled([0.1, 0.7, -2.0]).shape
    (3, 1)
    """

    scores: ArrayLike
    lams: Sequence[Mapping[str, float]] | None = None

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores)
        scores = scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)
        scores = scores[:, None] if scores.ndim == 1 else scores
        lams = ({},) if self.lams is None else tuple({k: float(v) for k, v in lam.items()} for lam in self.lams)
        if scores.ndim != 2 or scores.shape[0] == 0 or scores.shape[1] != len(lams):
            shape = f"must have shape (n,), or (n, m) with one column for each of the {len(lams)} lams, and n > 0"
            raise InputError("scores", shape, got=np.shape(self.scores))
        if any(set(lam) != set(lams[0]) for lam in lams):
            raise InputError("lams", "must all have the same names", got=sorted({tuple(lam) for lam in lams}))
        require_finite(scores.T)
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "lams", lams)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and values of λ."""
        n, m = np.shape(self.scores)
        return n, m

    def columns(self) -> Iterator[FloatArray]:
        """Scores (n,) of each λ."""
        yield from np.ascontiguousarray(np.asarray(self.scores).T)


def labelled_payload(dial: Dial, points: Sequence[OperatingPoint], pictures: Any = None) -> dict[str, Any]:
    """The content of a page of labelled scores, in JSON's own types."""
    surface = dial.surface
    samples = surface.samples
    division = split(samples, surface.n_lams, spent=dial.spent)
    maps = calibrations(surface, AUTO)
    streams = Streams()
    hashed = hashlib.sha256(surface.y.tobytes())
    write_columns(streams, surface, division, maps, hashed)
    over_lam = noise_over_lam(calibrated(surface, maps), METRICS, resamples=_RESAMPLES)
    for noise in over_lam:
        streams.floats(f"metric {noise.metric.name}", noise.values)
        streams.floats(f"noise {noise.metric.name}", noise.deviation)
    sizes = ("positive", "negative", "effective_positive", "effective_negative")
    content = {
        **_common(surface.lams, surface.by_plainness),
        "mode": "labelled",
        "rows": {"positive": samples.n_positive, "negative": samples.n_negative, "all": samples.size},
        "sizes": dict(zip(sizes, (*samples.totals, *samples.effective), strict=True)),
        "groups": None if samples.groups is None else int(np.unique(samples.groups).size),
        "weighted": samples.weight is not None,
        "notes": _notes(samples, surface.n_lams),
        "metrics": [
            {"name": n.metric.name, "greater": n.metric.greater_is_better, "best": n.best, "reach": n.reach}
            for n in over_lam
        ],
        "certify": _certify(samples, division),
        "calibrations": [None if each is None else calibration_to_json(each) for each in maps],
        "grid": GRID.tolist(),
        "bins": {"histogram": HISTOGRAM_BINS, "reliability": min(RELIABILITY_BINS, samples.size)},
        "points": [_entry(point, surface) for point in points if point.lower is None],
        "referrals": [_band_entry(point, surface) for point in points if point.lower is not None],
        "evidence": hashed.hexdigest(),
    }
    if pictures is not None:
        content["pictures"] = _pictures(streams, dial, pictures)
    return {**content, "streams": streams.to_json()}


def unlabelled_payload(scores: Unlabelled, points: Sequence[OperatingPoint]) -> dict[str, Any]:
    """The content of a page of scores alone."""
    n, _ = scores.shape
    lams = list(scores.lams or ())
    cuts = [quantile_cuts(score) for score in scores.columns()]
    nobody = np.zeros(n, dtype=np.bool_)
    counted = [histogram(score, nobody) for score in scores.columns()]
    streams = Streams()
    streams.counts("lengths", [len(thresholds) for thresholds, _ in cuts])
    streams.floats("thresholds", np.concatenate([thresholds for thresholds, _ in cuts]), "rising")
    streams.counts("fp", np.concatenate([count for _, count in cuts]), "falling")
    streams.floats("histogram ends", [(h.low, h.high) for h in counted])
    streams.counts("histogram negative", [h.negative for h in counted])
    entries = []
    for point in points:
        if point.lower is not None:
            problem = f"hold the referral band {point.name!r}, which is shown by class"
            raise InputError("points", problem, remedy="Leave it out, or give a Dial.")
        column = column_of(lams, point.lam)
        if column is None:
            problem = f"hold {point.name!r}, whose λ = {dict(point.lam)} is not among the scores' λ"
            raise InputError("points", problem)
        alerts = float(np.count_nonzero(point.predict(np.asarray(scores.scores)[:, column])))
        entries.append({"point": point.to_json(), "column": column, "tp": 0.0, "fp": alerts, "certificate": ""})
    return {
        **_common(lams, by_plainness(lams, {})),
        "mode": "unlabelled",
        "rows": {"all": n},
        "notes": [
            "These rows have no labels. The page can show how many alerts every threshold raises and how the scores "
            "are spread; recall, precision, cost and calibration need rows whose outcome is known."
        ],
        "bins": {"histogram": HISTOGRAM_BINS},
        "metrics": [],
        "points": entries,
        "referrals": [],
        "streams": streams.to_json(),
    }


def _common(lams: Sequence[Any], order: NDArray[np.intp]) -> dict[str, Any]:
    names = list(lams[0])
    return {
        "format": FORMAT,
        "names": names,
        "lams": [[float(lam[name]) for name in names] for lam in lams],
        "plainest": order.tolist(),
    }


def _entry(point: OperatingPoint, surface: Surface) -> dict[str, Any]:
    """A point as JSON, with its column of the surface and what it accepts there."""
    column = surface.column(point.lam, f"point {point.name!r}")
    return {
        "point": point.to_json(),
        "column": column,
        **_above(surface, point.predict(surface.score(column))),
        "certificate": "" if point.certificate is None else str(point.certificate),
    }


def _band_entry(point: OperatingPoint, surface: Surface) -> dict[str, Any]:
    """A point with two cuts as JSON, and the weight of either class above each cut."""
    column = surface.column(point.lam, f"point {point.name!r}")
    actions = point.triage(surface.score(column))
    return {
        "name": point.name,
        "low": encode_float(float("-inf") if point.lower is None else point.lower),
        "high": encode_float(point.threshold),
        "column": column,
        "text": str(point),
        "above_low": _above(surface, actions > -1),
        "above_high": _above(surface, actions > 0),
    }


def _above(surface: Surface, accepted: NDArray[np.bool_]) -> dict[str, float]:
    """The weight of positives and of negatives among the accepted (n,)."""
    ones = np.ones(accepted.size) if surface.weight is None else surface.weight
    return {"tp": float(ones[accepted & surface.labels].sum()), "fp": float(ones[accepted & ~surface.labels].sum())}


def _pictures(streams: Streams, dial: Dial, pictures: Any) -> dict[int, str]:
    """Write which samples each λ shows; and the thumbnails of these."""
    # Rows of no weight are not among the samples; pictures are numbered as the rows that came in.
    weight = dial.sample_weight
    numbers = np.arange(dial.surface.samples.size) if weight is None else np.flatnonzero(weight)
    shown = [images.extremes(score, dial.surface.labels) for score in scores_by_lam(dial.surface)]
    for name in ("alarm", "missed"):
        streams.counts(f"{name} rows", [numbers[getattr(each, name)] for each in shown])
        streams.floats(f"{name} scores", [getattr(each, f"{name}_scores") for each in shown])
    return dict(images.thumbnails(pictures, images.most_shown(shown, numbers)))


def _certify(samples: Samples, division: Split) -> dict[str, Any]:
    labels = samples.labels

    def both(side: BoolArray) -> dict[str, int]:
        return {"positive": int(np.count_nonzero(side & labels)), "negative": int(np.count_nonzero(side & ~labels))}

    return {
        "refusal": division.refusal,
        "n": int(np.count_nonzero(division.counted)),
        "choosing": both(division.choosing),
        "certifying": both(division.certifying),
        "split": bool(division.choosing.any()),
        "groups": samples.groups is not None,
    }


def _notes(samples: Samples, n_lams: int) -> list[str]:
    n, whose = samples.units[0], "" if samples.groups is None else " (counting groups)"
    if n == 1:
        notes = [
            f"There is 1 positive{whose}. Recall can only be 0 or 1, and nothing chosen here can be trusted; "
            f"{FEW_POSITIVES} or more are advisable."
        ]
    elif n < FEW_POSITIVES:
        notes = [
            f"There are only {n} positives{whose}: one of them moves recall by {1 / n:.3f}, so the intervals are wide. "
            f"{FEW_POSITIVES} or more are advisable."
        ]
    else:
        notes = []
    if samples.n_positive > most_cuts(n_lams):
        notes.append(
            f"To keep the file small the threshold stops at {most_cuts(n_lams):,} of {samples.n_positive:,} positives "
            "for each λ. Figures at these stops are exact."
        )
    return notes
