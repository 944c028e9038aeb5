"""The rows that certify: independent draws of either class, and what they may not have been used for."""

import base64
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtr, chdtrc

from lossdial.base.errors import warn
from lossdial.dial.checks import BoolArray, FloatArray, as_labels, require_both_classes, require_finite

NOTABLE = 0.01
"""A share of copies above which rows are no fresh evidence."""
_KEPT = 256
"""Cells of a sketch that a point keeps: under three kilobytes of text."""
_LOOKED_AT = 1000
_FILLED = 10
_CHANCE = 1e-6
"""How likely independent rows are refused, at most."""
_NARROW = 16
"""Cells between one value and the next, typically: this many times fewer independent values share one by chance."""


class NotCertified(ValueError):
    """What was asked for cannot be certified on these rows; the message says why, and what can."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """Which values there were: how many lay in each cell of a line, the cells (k,) told by a hash, ascending.

    A cell is `width` wide, a sixteenth of the usual distance to the next value, so that values that are rounded, or
    stored in float32, mostly stay in theirs. Where `whole` is False only the cells of the smallest hashes are kept.
    """

    width: float
    cells: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    whole: bool = True

    @classmethod
    def of(cls, values: ArrayLike, most: int | None = None) -> "Sketch":
        """The sketch of values (n,), of at most so many cells."""
        array = np.asarray(values, dtype=np.float64)
        spread = float(np.subtract(*np.quantile(array, (0.75, 0.25)))) or float(np.ptp(array)) or 1.0
        unit = 1e-9 * max(spread, 1e-200)  # less apart is the same value, computed twice
        steps = np.diff(np.unique(np.rint(array / unit)))
        width = unit * float(np.median(steps)) / _NARROW if steps.size else spread
        cells, counts = _cells(array, width)
        return cls(width, cells[:most], counts[:most], most is None or cells.size < most)

    def chance_of(self, values: ArrayLike) -> float:
        """A bound on how likely values (m,), if independent of the sketched ones, are as much like them.

        Ties, and rows that are frequent by nature, are no sign of copies: it holds for any two laws, with ties or not.
        """
        mine, theirs = self._beside(values)
        rng = np.random.default_rng(0)
        return min(1.0, 2 * min(_by_chance(_thinned(mine, rng), _thinned(theirs, rng)), _as_even(mine, theirs)))

    def share_of(self, values: ArrayLike) -> float:
        """About which share of values (m,) are copies of the sketched ones; 0 where chance explains it."""
        mine, theirs = self._beside(values)
        if self.chance_of(values) > _CHANCE:
            return 0.0
        once, twice = (np.count_nonzero(mine == times) for times in (1, 2))
        if not once:  # few levels
            return float(theirs[mine > 0].sum() / theirs.sum())
        met = theirs[mine == 1].sum() / max(theirs[mine <= 1].sum(), 1)
        by_chance = 2 * twice / (once + 2 * twice)  # Good and Turing's estimate
        return float(max(met - by_chance, 0) / (1 - by_chance))

    def _beside(self, values: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many of the sketched values, and of these, lie in each cell that either is in."""
        cells, counts = _cells(np.asarray(values, dtype=np.float64), self.width)
        if not self.whole:
            cells, counts = (part[cells <= self.cells[-1]] for part in (cells, counts))
        union = np.union1d(self.cells, cells)
        mine, theirs = np.zeros((2, union.size), dtype=np.int64)
        mine[np.searchsorted(union, self.cells)] = self.counts
        theirs[np.searchsorted(union, cells)] = counts
        return mine, theirs

    def to_text(self) -> str:
        """One word, from which `from_text` rebuilds the same sketch."""
        packed = np.stack([self.cells, self.counts]).astype("<u4").tobytes()
        return f"{self.width.hex()}:{'all' if self.whole else 'part'}:{base64.b64encode(packed).decode()}"

    @classmethod
    def from_text(cls, text: str) -> "Sketch":
        """The sketch that `to_text` wrote."""
        try:
            width, extent, packed = text.split(":")
            cells, counts = np.frombuffer(base64.b64decode(packed, validate=True), "<u4").reshape(2, -1)
            return cls(float.fromhex(width), cells.astype(np.uint32), counts.astype(np.uint32), extent == "all")
        except ValueError as error:
            raise ValueError(f"a sketch of rows is damaged ({error}); tune the point again.") from None


def _cells(values: FloatArray, width: float) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Which cells values (n,) lie in, by their hashes, ascending; and how many lie there."""
    if not width:  # of a model of 0.1: the values are hashes of rows
        hashes = values.astype(np.uint32)
    else:
        bits = (np.rint(values / width) + 0.0).view(np.uint64)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # SplitMix64 (Steele et al. 2014)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes = (bits >> np.uint64(32)).astype(np.uint32)
    cells, counts = np.unique(hashes, return_counts=True)
    return cells, counts.astype(np.uint32)


def _thinned(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A random part of the values where most come several times, so that a copied cell has about one."""
    usual = float(np.median(counts[counts > 0])) if counts.any() else 1.0
    return counts if usual < 2 else rng.binomial(counts, 1 / usual)


def _by_chance(mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> float:
    """The probability that two independent samples share so many cells (k,), or a bound on it.

    Given t values in a cell, all are of one sample with probability 2^(1-t) at least, whatever the two laws.
    """
    several = np.flatnonzero(mine + theirs > 1)[:_LOOKED_AT]
    law = np.ones(1)  # of the number of cells that both share
    for count in (mine + theirs)[several]:
        law = np.convolve(law, (0.5 ** (count - 1), 1 - 0.5 ** (count - 1)))
    return float(law[np.count_nonzero((mine > 0)[several] & (theirs > 0)[several]) :].sum())


def _as_even(mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> float:
    """The probability that two independent samples fill well-filled cells as evenly: chi-square's lower tail."""
    total, ratio = mine + theirs, math.sqrt(max(theirs.sum(), 1) / max(mine.sum(), 1))
    filled = total >= _FILLED
    apart = np.abs(mine * ratio - theirs / ratio) + max(ratio, 1 / ratio)  # a step more: counts are whole
    return float(chdtr(filled.sum() - 1, (apart**2 / np.maximum(total, 1))[filled].sum())) if filled.sum() > 1 else 1.0


@dataclass(frozen=True, eq=False)
class Sample:
    """Independent certifying scores of positives (P,) and negatives (N,), each ascending.

    `paired` says that some unit gave a row to both, so that the two are not independent of each other.
    """

    positive: FloatArray
    negative: FloatArray
    data: str
    unit: str = "row"
    paired: bool = False

    def cut(self, at: float, *, accept: bool) -> float:
        """The threshold t, in the scores' own precision, for which `score > t` accepts (or rejects) `at` itself."""
        kind = np.result_type(self.positive, self.negative).type
        return float(np.nextafter(kind(at), kind(-np.inf))) if accept else float(at)

    def accepted(self, threshold: float) -> tuple[int, int]:
        """How many positives and negatives score above a threshold."""
        return int(np.count_nonzero(self.positive > threshold)), int(np.count_nonzero(self.negative > threshold))


def require_confidence(confidence: float) -> None:
    if not isinstance(confidence, Real):
        raise ValueError(f"confidence must be a number strictly between 0 and 1; got {confidence!r}.")
    if not 0 < confidence < 1:
        raise ValueError(
            f"confidence must lie strictly between 0 and 1; got {confidence}. 0.95 holds on new data 19 times in 20."
        )


def require_fresh(spent: str) -> None:
    """Stop where there is a reason why rows cannot certify."""
    if spent:
        raise NotCertified(f"these rows cannot certify: {spent}. Bring rows that took no part in the training.")


def sample(
    labels: ArrayLike,
    score: ArrayLike,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int = 0,
) -> Sample:
    """The certifying sample of labels (n,) and scores (n,): all rows, or one row of each class of each group.

    Rows of one group are no independent draws. Of each group one of its positives and one of its negatives is drawn,
    by a generator named by `seed`; a figure is then over groups. Weights are refused: a weighted count is not binomial.
    """
    y = as_labels(labels)
    values = np.asarray(score)
    if values.shape != y.shape:
        raise ValueError(f"score must have shape ({y.size},), as y has, that is of one λ; got {values.shape}.")
    require_finite(values[None])
    require_both_classes(y)
    if sample_weight is not None and np.ptp(np.asarray(sample_weight, dtype=np.float64)) > 0:
        raise NotCertified(
            "sample_weight cannot be certified: the law of a weighted count is not known exactly. Leave the weights "
            "out, or give a sample drawn as the new data will be; for another prevalence use point.at(prevalence=...)."
        )
    if values.min() == values.max():
        probability = 1 / (1 + math.exp(-min(max(float(values[0]), -700.0), 700.0)))
        raise NotCertified(
            f"all {values.size} scores equal {values[0]:g} (as log-odds; a probability of {probability:g}): no "
            "threshold tells any two rows apart."
        )
    digest = digest_of(y, values)
    if groups is None:
        _warn_of_copies(values[y], "positives")
        _warn_of_copies(values[~y], "negatives")
        return Sample(np.sort(values[y]), np.sort(values[~y]), digest)
    names = np.asarray(groups)
    if names.shape != y.shape:
        raise ValueError(f"groups must have shape ({y.size},), one name per row; got {names.shape}.")
    parts = [one_of_each(names, members, seed, turn) for turn, members in enumerate((y, ~y))]
    paired = np.intersect1d(names[parts[0]], names[parts[1]]).size > 0
    return Sample(np.sort(values[parts[0]]), np.sort(values[parts[1]]), digest, "group", paired)


def _warn_of_copies(values: FloatArray, what: str) -> None:
    """Warn where scores (n,) of a class come k times more often than any law of independent rows has it.

    Of N_k values that come k times each: N_k² <= (k + 1)/k · N_(k-1) · N_(k+1) on average, for every law with ties or
    without (Poisson mixtures; Cauchy and Schwarz). Beyond twice as many, and four standard deviations, they are copies.
    """
    times = np.bincount(np.bincount(np.unique(values, return_inverse=True)[1])) + 0.0
    n = np.append(times, 0.0)
    for k in range(2, times.size):
        expected = math.sqrt((k + 1) / k * (n[k - 1] + 1) * (n[k + 1] + 1))
        if n[k] >= 20 and k * n[k] > 0.05 * values.size and n[k] > 2 * expected + 4 * math.sqrt(expected):
            warn(
                f"{k * n[k]:.0f} of {values.size} {what} have a score that comes {k} times exactly, so they look like "
                "copies: counted as independent they promise too much. Give groups, or keep one row of each."
            )
            return


def one_of_each(groups: NDArray[Any], members: BoolArray, seed: int, turn: int = 0) -> NDArray[np.intp]:
    """The indices of one row of `members` of each group that has any, drawn at random."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(turn,)))
    shuffled = rng.permutation(np.flatnonzero(members))
    _, first = np.unique(groups[shuffled], return_index=True)
    return np.asarray(np.sort(shuffled[first]))


def digest_of(labels: BoolArray, score: FloatArray) -> str:
    """The checksum of labels (n,) and scores (n,), whatever the order of the rows."""
    values = np.asarray(score, dtype=np.float64) + 0.0  # -0.0 and 0.0 are one score
    order = np.lexsort((labels, values))
    packed = values[order].tobytes() + np.asarray(labels, dtype=np.uint8)[order].tobytes()
    return hashlib.sha256(packed).hexdigest()


def trained_on(seen: Sketch, numbers: NDArray[Any]) -> str:
    """Why rows (n,), each as a number, are no evidence of what was trained on the rows of a sketch; else empty."""
    share = seen.share_of(numbers)
    if share <= NOTABLE:
        return ""
    return f"about {round(share * numbers.size):,} of these {numbers.size:,} samples ({share:.0%}) were trained on"


def sketches(labels: ArrayLike | None, score: ArrayLike) -> str:
    """What a point keeps of the rows (n,) that made it: a word for the scores of each class, or one for all (None)."""
    values = np.asarray(score, dtype=np.float64)
    sides = {"all": np.ones(values.size, dtype=np.bool_)}
    if labels is not None:
        sides = {"positive": as_labels(labels), "negative": ~as_labels(labels)}
    return " ".join(f"{name}:{Sketch.of(values[at], _KEPT).to_text()}" for name, at in sides.items() if at.any())


def sketch_of_rows(rows: FloatArray) -> str:
    """The word of raw rows (n,), each as a number."""
    return f"rows:{Sketch.of(rows, _KEPT).to_text()}"


def are_known(spent: Iterable[str], labels: ArrayLike, score: ArrayLike, rows: FloatArray | None = None) -> bool:
    """Whether rows (n,) are among those that made a point, by the digests and sketches that it keeps of them.

    A digest knows the very rows; a sketch knows them where some were left out, added, repeated or rounded, too. `rows`
    (n,) are numbers of the raw rows, where these are at hand: they tell rows apart whose scores are tied.
    """
    y, values = as_labels(labels), np.asarray(score, dtype=np.float64)
    sides = {"positive": y, "negative": ~y, "all": np.ones_like(y)}
    words = frozenset(spent)
    if words & {digest_of(y, values), digest_of(np.zeros_like(y), values)}:  # unlabelled, as a cap on alerts knows them
        return True
    chances: dict[str, list[float]] = {"labelled": [1.0], "all": [1.0]}
    for side, _, sketch in (word.partition(":") for word in words):
        if side == "rows" and rows is not None:
            chances["all"].append(Sketch.from_text(sketch).chance_of(rows))
        elif side in sides:
            chance = Sketch.from_text(sketch).chance_of(values[sides[side]])
            chances["all" if side == "all" else "labelled"].append(chance)
    fisher = chdtrc(2 * len(chances["labelled"]) - 2, -2 * np.log(np.maximum(chances["labelled"], 1e-300)).sum())
    return bool(min(float(fisher) if len(chances["labelled"]) > 1 else 1.0, *chances["all"]) <= _CHANCE)
