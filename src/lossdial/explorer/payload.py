"""What a page knows: not the scores, but what decisions need of them."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.calibration import AUTO, calibration_to_json, calibrations, stated
from lossdial.dial.checks import FEW_POSITIVES, BoolArray
from lossdial.dial.dial import Dial
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Samples, by_plainness
from lossdial.explorer import cells, images
from lossdial.explorer.certifying import Split, split
from lossdial.explorer.columns import write_columns
from lossdial.explorer.cuts import most_cuts, quantile_cuts
from lossdial.explorer.encoding import Streams
from lossdial.explorer.noise import grade
from lossdial.explorer.points import FORMAT, band_entry, entry
from lossdial.explorer.unlabelled import Unlabelled


def labelled_payload(dial: Dial, points: Sequence[OperatingPoint], pictures: Any = None) -> dict[str, Any]:
    """The content of a page of labelled scores, in JSON's own types."""
    surface = dial.surface
    samples = surface.samples
    held = split(samples, surface.n_lams)
    maps = calibrations(surface, AUTO)
    streams = Streams()
    hashed = hashlib.sha256(surface.y.tobytes())
    extremes = write_columns(streams, surface, held, maps, hashed, pictures is not None)
    graded = grade(surface, stated(surface, maps))
    for metric in graded:
        streams.floats(f"metric {metric.name}", metric.values)
        streams.floats(f"noise {metric.name}", metric.deviation)
    content = {
        **_common(surface.lams, surface.by_plainness),
        "mode": "labelled",
        "rows": {"positive": samples.n_positive, "negative": samples.n_negative, "all": samples.size},
        "sizes": _sizes(samples),
        "groups": None if samples.groups is None else int(np.unique(samples.groups).size),
        "weighted": samples.weight is not None,
        "notes": _notes(samples, surface.n_lams),
        "metrics": [{"name": m.name, "greater": m.greater_is_better, "best": m.best, "reach": m.reach} for m in graded],
        "certify": _certify(samples, held),
        "calibrations": [None if found is None else calibration_to_json(found) for found in maps],
        "grid": cells.GRID.tolist(),
        "bins": {"histogram": cells.HISTOGRAM_BINS, "reliability": min(cells.RELIABILITY_BINS, samples.size)},
        "points": [entry(point, surface) for point in points if point.lower is None],
        "referrals": [band_entry(point, surface) for point in points if point.lower is not None],
        "evidence": hashed.hexdigest(),
    }
    if pictures is not None:
        # Rows of no weight are not among the samples; pictures are numbered as the rows that came in.
        weight = dial.sample_weight
        numbers = np.arange(samples.size) if weight is None else np.flatnonzero(weight)
        numbered = [part.numbered(numbers) for part in extremes]
        _add_extremes(streams, numbered)
        content["pictures"] = dict(images.thumbnails(pictures, images.wanted(numbered)))
    return {**content, "streams": streams.to_json()}


def unlabelled_payload(scores: Unlabelled, points: Sequence[OperatingPoint]) -> dict[str, Any]:
    """The content of a page of scores alone."""
    n, _ = scores.shape
    lams = list(scores.lams or ())
    found = [quantile_cuts(score) for score in scores.columns()]
    nobody = np.zeros(n, dtype=np.bool_)
    counted = [cells.histogram(score, nobody) for score in scores.columns()]
    streams = Streams()
    streams.counts("lengths", [len(thresholds) for thresholds, _ in found])
    streams.floats("thresholds", np.concatenate([thresholds for thresholds, _ in found]), "rising")
    streams.counts("fp", np.concatenate([count for _, count in found]), "falling")
    streams.floats("histogram ends", [(h.low, h.high) for h in counted])
    streams.counts("histogram negative", [h.negative for h in counted])
    entries = []
    for point in points:
        if point.lower is not None:
            raise ValueError(
                f"{point.name!r} is a referral band, which is shown by class; leave it out, or give a Dial."
            )
        if dict(point.lam) not in lams:
            raise ValueError(f"point {point.name!r} has λ = {dict(point.lam)}, which is not among the scores' λ.")
        column = lams.index(dict(point.lam))
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
        "bins": {"histogram": cells.HISTOGRAM_BINS},
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


def _add_extremes(streams: Streams, found: Sequence[images.Extremes]) -> None:
    streams.counts("alarm rows", [part.alarms for part in found])
    streams.floats("alarm scores", [part.alarm_scores for part in found])
    streams.counts("missed rows", [part.missed for part in found])
    streams.floats("missed scores", [part.missed_scores for part in found])


def _sizes(samples: Samples) -> dict[str, float]:
    (positive, negative), (effective_positive, effective_negative) = samples.totals, samples.effective
    return {
        "positive": positive,
        "negative": negative,
        "effective_positive": effective_positive,
        "effective_negative": effective_negative,
    }


def _certify(samples: Samples, held: Split) -> dict[str, Any]:
    labels = samples.labels

    def both(side: BoolArray) -> dict[str, int]:
        return {"positive": int(np.count_nonzero(side & labels)), "negative": int(np.count_nonzero(side & ~labels))}

    return {
        "refusal": held.refusal,
        "n": int(np.count_nonzero(held.counted)),
        "choosing": both(held.choosing),
        "certifying": both(held.certifying),
        "split": bool(held.choosing.any()),
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
