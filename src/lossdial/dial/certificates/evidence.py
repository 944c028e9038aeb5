"""The rows that certify: independent scores of either class, and whether they were used before."""

import base64
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, chdtr, chdtrc

from lossdial.base.errors import InputError, warn
from lossdial.dial.checks import BoolArray, FloatArray, as_labels, require_both_classes, require_open_unit

NOTABLE = 0.01
"""A share of copies above which rows are no fresh evidence."""
_KEPT = 256
"""Cells of a sketch that a point keeps: under three kilobytes of text."""
_LOOKED_AT = 1000
_FILLED = 10
_CHANCE = 1e-6
"""The probability that independent rows are refused, at most."""
_NARROW = 16
"""Cells between one value and the next, typically. Independent values share a cell that many times less often."""


class NotCertified(InputError):
    """These rows cannot certify what was asked for; the message says why, and what they can certify."""


def require_confidence(confidence: float) -> None:
    """Stop where a confidence is no share."""
    if not isinstance(confidence, Real):
        raise InputError("confidence", "must be a number strictly between 0 and 1", got=confidence)
    require_open_unit("confidence", confidence, "0.95 holds on new data 19 times in 20.")


def require_fresh(spent: str) -> None:
    """Stop where rows cannot certify, for the reason `spent`."""
    if spent:
        raise NotCertified("", f"these rows cannot certify: {spent}. Bring rows that took no part in the training.")


# --- rows that were used before


@dataclass(frozen=True, eq=False)
class Sketch:
    """A summary of values by which they are known again: how many lay in each narrow cell of the line.

    Cells (k,) are named by hashes, ascending. A cell is `width` wide, a sixteenth of the usual distance between
    neighbouring values, so that a value that is rounded, or stored in float32, mostly stays in its cell. Where `whole`
    is False only the cells with the smallest hashes are kept.
    """

    width: float
    cells: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    whole: bool = True

    @classmethod
    def of(cls, values: ArrayLike, most: int | None = None) -> "Sketch":
        """The sketch of values (n,), with at most so many cells."""
        array = np.asarray(values, dtype=np.float64)
        spread = float(np.subtract(*np.quantile(array, (0.75, 0.25)))) or float(np.ptp(array)) or 1.0
        unit = 1e-9 * max(spread, 1e-200)  # values less than this apart are one value, computed twice
        steps = np.diff(np.unique(np.rint(array / unit)))
        width = unit * float(np.median(steps)) / _NARROW if steps.size else spread
        cells, counts = _cells(array, width)
        return cls(width, cells[:most], counts[:most], most is None or cells.size < most)

    def chance_of(self, values: ArrayLike) -> float:
        """A bound on the probability that independent values (m,) are as much like the sketched ones.

        It holds for any two distributions, so neither ties nor frequent values count as copies. Where nearly all
        sketched values differ, it holds for values of which at most every other one lies in a sketched cell by nature.
        """
        mine, theirs = self._beside(values)
        rng = np.random.default_rng(0)
        chances = _by_chance(_thinned(mine, rng), _thinned(theirs, rng)), _as_even(mine, theirs), _by_hits(mine, theirs)
        return min(1.0, 3 * min(chances))

    def share_of(self, values: ArrayLike) -> float:
        """An estimate of the share of values (m,) that are copies of the sketched ones; 0 where chance explains it."""
        mine, theirs = self._beside(values)
        if self.chance_of(values) > _CHANCE:
            return 0.0
        once, twice = (np.count_nonzero(mine == times) for times in (1, 2))
        if not once:  # few levels
            return float(theirs[mine > 0].sum() / theirs.sum())
        shared = theirs[mine == 1].sum() / max(theirs[mine <= 1].sum(), 1)
        by_chance = 2 * twice / (once + 2 * twice)  # Good and Turing's estimate
        return float(max(shared - by_chance, 0) / (1 - by_chance))

    def _beside(self, values: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many of the sketched values, and of these values, lie in each cell."""
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
            raise InputError("", f"a sketch of rows is damaged ({error})", remedy="Tune the point again.") from None


def _cells(values: FloatArray, width: float) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The hashes of the cells that values (n,) lie in, ascending, and how many lie in each."""
    if not width:  # a model of version 0.1: the values are hashes of rows
        hashes = values.astype(np.uint32)
    else:
        bits = (np.rint(values / width) + 0.0).view(np.uint64)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # SplitMix64 (Steele et al. 2014)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes = (bits >> np.uint64(32)).astype(np.uint32)
    cells, counts = np.unique(hashes, return_counts=True)
    return cells, counts.astype(np.uint32)


def _thinned(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A random part of the values where most occur several times, so that a copied cell has about one."""
    usual = float(np.median(counts[counts > 0])) if counts.any() else 1.0
    return counts if usual < 2 else rng.binomial(counts, 1 / usual)


def _by_chance(mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> float:
    """A bound on the probability that two independent samples share so many cells (k,).

    The t values of a cell all belong to one sample with probability 2^(1-t) at least, for any two distributions.
    """
    several = np.flatnonzero(mine + theirs > 1)[:_LOOKED_AT]
    law = np.ones(1)  # of the number of cells that both share
    for count in (mine + theirs)[several]:
        law = np.convolve(law, (0.5 ** (count - 1), 1 - 0.5 ** (count - 1)))
    return float(law[np.count_nonzero((mine > 0)[several] & (theirs > 0)[several]) :].sum())


def _by_hits(mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> float:
    """The probability that so many values of a small sample lie in cells of a large one, if one in two does.

    The share of the large sample that lies in cells of several values is about how often a fresh value does (Good and
    Turing). Where that is more than a quarter, values are too frequent to tell anything.
    """
    if mine[mine > 1].sum() > 0.25 * mine.sum():
        return 1.0
    return float(bdtrc(np.count_nonzero((mine > 0) & (theirs > 0)) - 1, np.count_nonzero(theirs), 0.5))


def _as_even(mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> float:
    """The probability that two independent samples fill the well-filled cells as evenly: chi-square's lower tail."""
    total, ratio = mine + theirs, math.sqrt(max(theirs.sum(), 1) / max(mine.sum(), 1))
    filled = total >= _FILLED
    apart = np.abs(mine * ratio - theirs / ratio) + max(ratio, 1 / ratio)  # a step more: counts are whole
    return float(chdtr(filled.sum() - 1, (apart**2 / np.maximum(total, 1))[filled].sum())) if filled.sum() > 1 else 1.0


def digest_of(labels: BoolArray, score: FloatArray) -> str:
    """The checksum of labels (n,) and scores (n,), independent of the order of the rows."""
    values = np.asarray(score, dtype=np.float64) + 0.0  # -0.0 and 0.0 are one score
    order = np.lexsort((labels, values))
    packed = values[order].tobytes() + np.asarray(labels, dtype=np.uint8)[order].tobytes()
    return hashlib.sha256(packed).hexdigest()


def trained_on(seen: Sketch, numbers: NDArray[Any], labels: NDArray[Any] | None = None) -> str:
    """Why rows (n,), each as a number, cannot test a model trained on the sketched rows; empty where they can.

    With labels (n,) those of each class are looked at by themselves too: positives of the training among fresh
    negatives.
    """
    of_class = [] if labels is None else [numbers[labels == 1], numbers[labels == 0]]
    copies = max(seen.share_of(numbers) * numbers.size, sum(seen.share_of(part) * part.size for part in of_class))
    if copies <= NOTABLE * numbers.size:
        return ""
    share = copies / numbers.size
    return f"about {round(copies):,} of these {numbers.size:,} samples ({share:.0%}) were trained on"


def sketches(labels: ArrayLike | None, score: ArrayLike) -> str:
    """The text by which a point knows the rows (n,) that made it: a word for each class, or one for all rows (None)."""
    values = np.asarray(score, dtype=np.float64)
    sides = {"all": np.ones(values.size, dtype=np.bool_)}
    if labels is not None:
        sides = {"positive": as_labels(labels), "negative": ~as_labels(labels)}
    return " ".join(f"{name}:{Sketch.of(values[at], _KEPT).to_text()}" for name, at in sides.items() if at.any())


def sketch_of_rows(rows: FloatArray) -> str:
    """The word of raw rows (n,), each as a number."""
    return f"rows:{Sketch.of(rows, _KEPT).to_text()}"


def are_known(spent: Iterable[str], labels: ArrayLike, score: ArrayLike, rows: FloatArray | None = None) -> bool:
    """Whether rows (n,) are among those that made a point, by the digests and sketches that it keeps (`spent`).

    A digest knows exactly these rows. A sketch also knows them where some were left out, added, repeated or rounded.
    `rows` (n,) are numbers of the raw rows, where these are available: they separate rows whose scores are tied.
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


# --- rows that certify


@dataclass(frozen=True, eq=False)
class CertifyingScores:
    """Independent scores of positives (P,) and of negatives (N,), each ascending, that may certify.

    `paired` says that some unit gave a row to both classes, so that the two are not independent of each other.
    """

    positive: FloatArray
    negative: FloatArray
    data: str
    unit: str = "row"
    paired: bool = False

    def just_below(self, score: float) -> float:
        """The greatest threshold, in the scores' own precision, that accepts a score."""
        kind = np.result_type(self.positive, self.negative).type
        return float(np.nextafter(kind(score), kind(-np.inf)))

    def accepted(self, threshold: float) -> tuple[int, int]:
        """How many positives and negatives score above a threshold."""
        return int(np.count_nonzero(self.positive > threshold)), int(np.count_nonzero(self.negative > threshold))


def certifying_scores(
    y: ArrayLike,
    score: ArrayLike,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int = 0,
) -> CertifyingScores:
    """The scores (n,) that may certify: those of all rows, or of one random row of each class of each group.

    The rows of a group are not independent, so that a figure is then over groups. Weights are refused, because a
    weighted count is not binomial.
    """
    labels, values = as_labels(y), np.asarray(score)
    require_both_classes(labels)
    if sample_weight is not None and np.ptp(np.asarray(sample_weight, dtype=np.float64)) > 0:
        problem = "cannot be certified: the distribution of a weighted count is not known exactly"
        remedy = "Leave the weights out, or give a sample drawn as the new data will be."
        raise NotCertified("sample_weight", problem, remedy=remedy)
    if values.min() == values.max():
        raise NotCertified("", f"all {values.size} scores equal {values[0]:g}: no threshold separates any two rows")
    digest = digest_of(labels, values)
    if groups is None:
        _warn_of_copies(values[labels], "positives")
        _warn_of_copies(values[~labels], "negatives")
        return CertifyingScores(np.sort(values[labels]), np.sort(values[~labels]), digest)
    names = np.asarray(groups)
    positive, negative = (one_of_each(names, side, seed, turn) for turn, side in enumerate((labels, ~labels)))
    paired = np.intersect1d(names[positive], names[negative]).size > 0
    return CertifyingScores(np.sort(values[positive]), np.sort(values[negative]), digest, "group", paired)


def _warn_of_copies(values: FloatArray, what: str) -> None:
    """Warn where more scores (n,) of a class occur exactly k times than independent rows explain.

    Let N_k values occur k times each. For every distribution N_k² <= (k + 1)/k · N_(k-1) · N_(k+1) on average (Poisson
    mixtures; Cauchy and Schwarz). Twice as many and four standard deviations more are taken for copies.
    """
    times = np.bincount(np.bincount(np.unique(values, return_inverse=True)[1])) + 0.0
    n = np.append(times, 0.0)
    for k in range(2, times.size):
        expected = math.sqrt((k + 1) / k * (n[k - 1] + 1) * (n[k + 1] + 1))
        if n[k] >= 20 and k * n[k] > 0.05 * values.size and n[k] > 2 * expected + 4 * math.sqrt(expected):
            warn(
                f"{k * n[k]:.0f} of {values.size} {what} have a score that occurs {k} times exactly, so they look like "
                "copies. A certificate that counts copies as independent claims too much. Give groups, or keep one row "
                "of each."
            )
            return


def one_of_each(groups: NDArray[Any], members: BoolArray, seed: int, turn: int = 0) -> NDArray[np.intp]:
    """The indices of one random row of `members` in each group that has any."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(turn,)))
    shuffled = rng.permutation(np.flatnonzero(members))
    _, first = np.unique(groups[shuffled], return_index=True)
    return np.asarray(np.sort(shuffled[first]))
