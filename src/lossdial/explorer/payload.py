"""What a page knows: not the scores, but what decisions need of them, as JSON and arrays in text.

Arrays are order-preserving integers, written as steps, byte planes, deflate, base64. Sorted thresholds differ little
from their neighbours and counts fall by small numbers, so both are written as steps. Their bytes are laid out plane by
plane (all lowest bytes, then all second bytes, …): the high planes are nearly all zero, and deflate folds them away.
`static/js/codec.js` reads it.
"""

import base64
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.codec import encode_float
from lossdial.base.errors import InputError
from lossdial.dial.calibration import AUTO, Calibration, calibrated, calibration_to_json, calibrations
from lossdial.dial.certificates.choice import choosing_and_certifying
from lossdial.dial.certificates.evidence import NotCertified, one_of_each
from lossdial.dial.checks import FEW_POSITIVES, BoolArray, FloatArray, require_finite
from lossdial.dial.dial import Dial
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Samples, Surface, by_plainness, column_of
from lossdial.dial.uncertainty.intervals import noise_over_lam
from lossdial.explorer import images, summaries
from lossdial.explorer.summaries import Arrays

Steps = Literal["none", "rising", "falling"]
"""Whether an array is written as its values or as the steps between them, modulo its width."""


def ordered(values: FloatArray) -> NDArray[np.unsignedinteger[Any]]:
    """Floats as unsigned integers of their width in the same order.

    >>> ordered(np.float32([-1.0, 0.0, 2.0])).tolist()
    [1082130431, 2147483648, 3221225472]
    """
    kind: Any = np.uint32 if values.dtype == np.float32 else np.uint64
    top = kind(1) << kind(8 * kind(0).nbytes - 1)
    bits = np.ascontiguousarray(values + values.dtype.type(0)).view(kind)  # -0.0 + 0.0 is 0.0, which equals it
    return np.asarray(np.where(bits & top, ~bits, bits | top))


@dataclass(frozen=True)
class Streams:
    """Named arrays, kept as byte planes, to be written as one text."""

    parts: list[bytes] = field(default_factory=list)
    index: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, values: ArrayLike, steps: Steps = "none") -> None:
        """Add whole numbers from 0 up, or floats: float32 as such and others as float64."""
        array = np.asarray(values).ravel()
        if array.dtype.kind in "iu":
            codes, kind = array.astype(np.uint64), "count"
            width = max(1, (int(codes.max(initial=0)).bit_length() + 7) // 8)
        else:
            array = array if array.dtype == np.float32 else array.astype(np.float64)
            codes, kind, width = ordered(array), array.dtype.name, array.dtype.itemsize
        if steps != "none":
            before = np.concatenate([codes[:1] * 0, codes[:-1]])
            codes = codes - before if steps == "rising" else before - codes
        planes = [((codes >> codes.dtype.type(8 * k)) & codes.dtype.type(255)).astype(np.uint8) for k in range(width)]
        self.parts.append(b"".join(plane.tobytes() for plane in planes))
        self.index.append({"name": name, "kind": kind, "width": width, "size": int(codes.size), "steps": steps})

    def to_json(self) -> dict[str, Any]:
        """The index, and all planes as one deflated text."""
        packed = zlib.compressobj(6, zlib.DEFLATED, -15)
        data = packed.compress(b"".join(self.parts)) + packed.flush()
        return {"index": self.index, "data": base64.b64encode(data).decode()}


FORMAT = "lossdial points 1"
METRICS = ("auc", "average_precision", "max_f1", "max_balanced_accuracy", "brier", "log_loss")
"""Figures over λ that depend on no control of the page."""
_RESAMPLES = 200
_FLOOR, _CONFIDENCE = 0.95, 0.95  # of the certificate for which samples are set aside
_STEPS: Mapping[str, Steps] = {
    "thresholds": "rising",
    "certified": "rising",
    "tp": "falling",
    "fp": "falling",
    "chosen_tp": "falling",
    "chosen_fp": "falling",
    "certifying_tp": "falling",
    "grid positive": "falling",
    "grid negative": "falling",
}


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
    >>> Unlabelled([0.1, 0.7, -2.0]).scores.shape
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


@dataclass(frozen=True)
class Split:
    """Which samples (n,) choose λ, which certify, and which of these are the positives that count.

    Data that chose a λ cannot certify it. So some samples choose, and the positives of the others certify: their k-th
    lowest score keeps a floor on recall with the stated confidence, whatever the law of the scores. Of a group one
    positive, drawn at random, counts. `refusal` says why none can certify. `static/js/certify.js` holds the rest.
    """

    choosing: BoolArray
    certifying: BoolArray
    counted: BoolArray
    refusal: str = ""


def split(samples: Samples, n_lams: int, seed: int = 0, spent: str = "") -> Split:
    """The samples that `Dial.tune` sets aside for a recall of 0.95 at a confidence of 0.95; of spent rows none."""
    labels, groups = samples.labels, samples.groups
    nobody = np.zeros(labels.size, dtype=np.bool_)
    if spent:
        return Split(nobody, nobody, nobody, f"These rows cannot certify: {spent}.")
    if samples.weight is not None:
        refusal = "Rows with weights cannot certify: the guarantee counts rows, each as one."
        return Split(nobody, nobody, nobody, refusal)
    choosing = nobody.copy()
    if n_lams > 1:
        try:
            choosing[_choosing(samples, seed)] = True
        except NotCertified as error:
            return Split(nobody, nobody, nobody, f"{str(error)[0].upper()}{str(error)[1:]}")
    certifying = ~choosing
    if groups is None:
        return Split(choosing, certifying, certifying & labels)
    index = np.flatnonzero(certifying)
    counted = nobody.copy()
    counted[index[one_of_each(groups[index], labels[index], seed)]] = True
    return Split(choosing, certifying, counted)


def _choosing(samples: Samples, seed: int) -> NDArray[np.intp]:
    try:
        return choosing_and_certifying(samples.labels, samples.groups, _FLOOR, _CONFIDENCE, seed)[0]
    except NotCertified:  # too few for that floor; halves may still do for a lower one
        return choosing_and_certifying(samples.labels, samples.groups, None, _CONFIDENCE, seed)[0]


def labelled_payload(dial: Dial, points: Sequence[OperatingPoint], pictures: Any = None) -> dict[str, Any]:
    """The content of a page of labelled scores, in JSON's own types."""
    surface, samples = dial.surface, dial.surface.samples
    division = split(samples, surface.n_lams, spent=dial.spent)
    maps = calibrations(surface, AUTO)
    streams = Streams()
    hashed = hashlib.sha256(surface.y.tobytes())
    columns = [*_columns(surface, division, maps, hashed)]
    if pictures is not None:
        # Rows of no weight are not among the samples; pictures are numbered as the rows that came in.
        weight = dial.sample_weight
        numbers = np.arange(samples.size) if weight is None else np.flatnonzero(weight)
        for column, score in zip(columns, _scores(surface), strict=True):
            column |= images.extremes(score, surface.labels, numbers)
    _write(streams, columns)
    if surface.n_lams > 1:
        _write_witnesses(streams, surface)
    over_lam = noise_over_lam(calibrated(surface, maps), METRICS, resamples=_RESAMPLES)
    for noise in over_lam:
        streams.add(f"metric {noise.metric.name}", noise.values)
        streams.add(f"noise {noise.metric.name}", noise.deviation)
    sizes = ("positive", "negative", "effective_positive", "effective_negative")
    content: dict[str, Any] = {
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
        "grid": summaries.GRID.tolist(),
        "bins": {
            "histogram": summaries.HISTOGRAM_BINS,
            "reliability": min(summaries.RELIABILITY_BINS, samples.size),
        },
        "points": [_entry(point, surface) for point in points if point.lower is None],
        "referrals": [_band_entry(point, surface) for point in points if point.lower is not None],
        "evidence": hashed.hexdigest(),
        "streams": streams.to_json(),
    }
    if pictures is not None:
        content["pictures"] = dict(images.thumbnails(pictures, images.most_shown(columns)))
    return content


def unlabelled_payload(unlabelled: Unlabelled, points: Sequence[OperatingPoint]) -> dict[str, Any]:
    """The content of a page of scores alone."""
    scores, lams = np.asarray(unlabelled.scores), list(unlabelled.lams or ())
    nobody = np.zeros(len(scores), dtype=np.bool_)
    streams = Streams()
    each_lam = map(np.ascontiguousarray, scores.T)
    _write(streams, [summaries.quantile_cuts(score) | summaries.histogram(score, nobody) for score in each_lam])
    entries = []
    for point in points:
        if point.lower is not None:
            problem = f"hold the referral band {point.name!r}, which is shown by class"
            raise InputError("points", problem, remedy="Leave it out, or give a Dial.")
        column = column_of(lams, point.lam)
        if column is None:
            problem = f"hold {point.name!r}, whose λ = {dict(point.lam)} is not among the scores' λ"
            raise InputError("points", problem)
        alerts = float(np.count_nonzero(point.predict(scores[:, column])))
        entries.append({"point": point.to_json(), "column": column, "tp": 0.0, "fp": alerts, "certificate": ""})
    return {
        **_common(lams, by_plainness(lams, {})),
        "mode": "unlabelled",
        "rows": {"all": len(scores)},
        "notes": [
            "These rows have no labels. The page can show how many alerts every threshold raises and how the scores "
            "are spread; recall, precision, cost and calibration need rows whose outcome is known."
        ],
        "bins": {"histogram": summaries.HISTOGRAM_BINS},
        "metrics": [],
        "points": entries,
        "referrals": [],
        "streams": streams.to_json(),
    }


def _scores(surface: Surface) -> Iterator[FloatArray]:
    """Scores (n,) of each λ."""
    for _, rows in surface.blocks():
        yield from rows


def _columns(surface: Surface, division: Split, maps: Sequence[Calibration | None], hashed: Any) -> Iterator[Arrays]:
    """What the page needs of each λ; `hashed` takes the scores."""
    samples, most = surface.samples, summaries.most_cuts(surface.n_lams)
    for score, calibration in zip(_scores(surface), maps, strict=True):
        hashed.update(np.ascontiguousarray(score).tobytes())
        column = summaries.cuts(samples.labels, score, samples.weight, most)
        if not division.refusal:
            parts = summaries.split_counts(samples.labels, score, division.choosing, division.counted, most)
            if not division.choosing.any():
                del parts["chosen_tp"], parts["chosen_fp"]
            column |= parts
        margin = score.astype(np.float64) if calibration is None else calibration.apply(score)
        column |= summaries.histogram(score, samples.labels, samples.weight)
        yield column | summaries.reliability(score, margin, samples) | summaries.along_grid(margin, samples)


def _write(streams: Streams, columns: Sequence[Arrays]) -> None:
    """Write the arrays of all λ, one after another under their name."""
    for name in columns[0]:
        streams.add(name, np.concatenate([column[name] for column in columns]), _STEPS.get(name, "none"))


def _write_witnesses(streams: Streams, surface: Surface) -> None:
    plainest, most = surface.score(int(surface.by_plainness[0])), summaries.most_cuts(surface.n_lams)
    for side, (index, share) in summaries.witnesses(surface.samples, plainest, surface.n_lams).items():
        ranks = [summaries.places(surface.labels, score, index, most) for score in _scores(surface)]
        streams.add(f"places {side}", np.concatenate(ranks))
        streams.add(f"shares {side}", share)


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
    most, notes = summaries.most_cuts(n_lams), []
    if n < FEW_POSITIVES:
        count = f"There are only {n} positives{whose}: each moves recall by {1 / n:.3f}, so the intervals are wide."
        if n == 1:
            count = f"There is 1 positive{whose}. Recall can only be 0 or 1, and nothing chosen here can be trusted."
        notes.append(f"{count} {FEW_POSITIVES} or more are advisable.")
    if samples.n_positive > most:
        notes.append(
            f"To keep the file small the threshold stops at {most:,} of {samples.n_positive:,} positives for each λ. "
            "Figures at these stops are exact."
        )
    return notes
