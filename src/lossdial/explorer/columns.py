"""One walk over the λ of a surface, writing what the page needs of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lossdial.dial.calibration import Calibration
from lossdial.dial.certificates.choice import choosing_and_certifying
from lossdial.dial.certificates.evidence import NotCertified, one_of_each
from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.surface import Samples, Surface
from lossdial.explorer.encoding import Steps, Streams
from lossdial.explorer.noise import witnesses
from lossdial.explorer.summaries import (
    along_grid,
    cuts,
    histogram,
    most_cuts,
    places,
    reliability,
    split_counts,
    use_short,
)

FLOOR, CONFIDENCE = 0.95, 0.95
"""The certificate for which samples are set aside."""


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


def _choosing(samples: Samples, seed: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    try:
        return choosing_and_certifying(samples.labels, samples.groups, FLOOR, CONFIDENCE, seed)[0]
    except NotCertified:  # too few for that floor; halves may still do for a lower one
        return choosing_and_certifying(samples.labels, samples.groups, None, CONFIDENCE, seed)[0]


def scores_by_lam(surface: Surface) -> Iterator[FloatArray]:
    """Scores (n,) of each λ."""
    for _, rows in surface.blocks():
        yield from rows


def write_columns(
    streams: Streams, surface: Surface, division: Split, stated: Sequence[Calibration | None], hashed: Any
) -> None:
    """Write cuts, counts of the split, what the pictures show, and witnesses of every λ; `hashed` takes the scores."""
    _write_cuts(streams, surface, hashed)
    if not division.refusal:
        _write_split(streams, surface, division)
    _write_pictures(streams, surface, stated)
    if surface.n_lams > 1:
        _write_witnesses(streams, surface)


def _write_cuts(streams: Streams, surface: Surface, hashed: Any) -> None:
    short = use_short(surface.score(0).dtype, surface.n_lams * surface.n_positive)
    columns = []
    for score in scores_by_lam(surface):
        hashed.update(np.ascontiguousarray(score).tobytes())
        columns.append(cuts(surface.labels, score, surface.weight, short, most_cuts(surface.n_lams)))
    streams.counts("lengths", [column.tp.size for column in columns])
    streams.floats("thresholds", np.concatenate([column.thresholds for column in columns]), "rising")
    for name in ("tp", "fp"):
        values = np.concatenate([getattr(column, name) for column in columns])
        _write(streams, name, values, surface.weight is None, "falling")


def _write_split(streams: Streams, surface: Surface, division: Split) -> None:
    most = most_cuts(surface.n_lams)
    columns = [
        split_counts(surface.labels, score, division.choosing, division.counted, most)
        for score in scores_by_lam(surface)
    ]
    names = ["chosen_tp", "chosen_fp"] if division.choosing.any() else []
    for name in [*names, "certifying_tp"]:
        streams.counts(name, np.concatenate([getattr(column, name) for column in columns]), "falling")
    if not use_short(surface.score(0).dtype, surface.n_lams * surface.n_positive):
        streams.floats("certified", np.concatenate([column.next_to for column in columns]), "rising")


def _write_pictures(streams: Streams, surface: Surface, stated: Sequence[Calibration | None]) -> None:
    samples, unweighted = surface.samples, surface.samples.weight is None
    histograms, reliabilities, grids = [], [], []
    for score, calibration in zip(scores_by_lam(surface), stated, strict=True):
        calibrated = score.astype(np.float64) if calibration is None else calibration.apply(score)
        histograms.append(histogram(score, samples.labels, samples.weight))
        reliabilities.append(reliability(score, calibrated, samples))
        grids.append(along_grid(calibrated, samples))
    streams.floats("histogram ends", [(each.low, each.high) for each in histograms])
    for name in ("positive", "negative"):
        _write(streams, f"histogram {name}", [getattr(each, name) for each in histograms], unweighted)
    for name in ("size", "hits"):
        _write(streams, f"reliability {name}", [getattr(each, name) for each in reliabilities], unweighted)
    for name in ("raw", "calibrated"):
        shares = [getattr(each, name) for each in reliabilities]
        streams.floats(f"reliability {name}", np.array(shares, dtype=np.float32))
    for name, side in zip(("positive", "negative"), zip(*grids, strict=True), strict=True):
        _write(streams, f"grid {name}", side, unweighted, "falling")


def _write_witnesses(streams: Streams, surface: Surface) -> None:
    plainest, most = surface.score(int(surface.by_plainness[0])), most_cuts(surface.n_lams)
    for name, drawn in zip(("positive", "negative"), witnesses(surface.samples, plainest, surface.n_lams), strict=True):
        columns = [places(surface.labels, score, drawn.index, most) for score in scores_by_lam(surface)]
        streams.counts(f"places {name}", columns)
        streams.floats(f"shares {name}", drawn.share)


def _write(streams: Streams, name: str, values: Any, counts: bool, steps: Steps = "none") -> None:
    """Write counts of samples, or sums of their weights."""
    if counts:
        streams.counts(name, values, steps)
    else:
        streams.floats(name, values)
