"""Monitor a certificate as outcomes come in: a sequential test of each of its bounds, whose state is kept on disk.

A `SequentialTest` bets against a floor on a share. Its wealth starts at 1 and, while the floor holds, reaches 1/risk
with probability `risk` at most, however often one looks (Ville's inequality).
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import betaln

from lossdial.base.codec import Reader, decode, encode_float, to_json
from lossdial.base.errors import InputError
from lossdial.base.files import read_json, write_json
from lossdial.dial.certificates.bounds import require_floor
from lossdial.dial.certificates.certificate import precision_at
from lossdial.dial.certificates.evidence import NotCertified, are_known, digest_of, require_confidence, sketches
from lossdial.dial.checks import BoolArray, FloatArray, as_labels, require_finite, require_open_unit
from lossdial.dial.points import OperatingPoint

_STEPS = np.array([0.15, 0.3, 0.6, 1.0, 1.6, 2.5, 4.0])
"""How far below the floor the bets lie, in log-odds."""
_CHUNK = 64  # outcomes at a time: products of that many factors neither overflow nor vanish
_MOST = 1e100
_FEWEST = 5
"""The fewest outcomes that are recognised when they are shown again."""
_REMEMBERED = 1000
_SKETCHED = 100
"""The latest calls, of which a sketch is kept beside the digest."""


@dataclass(frozen=True)
class SequentialTest:
    """The state of a test of a floor on a share: outcomes and successes so far, and the stakes of its bets."""

    floor: float
    risk: float
    n: int = 0
    hits: int = 0
    stakes: tuple[float, ...] = (0.0,) * _STEPS.size
    broken_at: int | None = None

    def __post_init__(self) -> None:
        require_floor(self.floor)
        require_open_unit("risk", self.risk)
        if len(self.stakes) != _STEPS.size:
            raise InputError("stakes", f"must be {_STEPS.size} numbers", got=len(self.stakes))

    @property
    def wealth(self) -> float:
        """The wealth of the bets, from 1 on; the floor is rejected once it reaches 1/risk."""
        return float(np.mean(self.stakes)) + _reserve(self.n)

    @property
    def broken(self) -> bool:
        """Whether the floor was ever rejected."""
        return self.broken_at is not None

    @property
    def interval(self) -> tuple[float, float]:
        """An interval of the share that holds at all times at once with probability 1 - risk, if it is constant.

        These are the shares that a Beta(½, ½) mixture of bets has not rejected (Robbins 1970).
        """
        hits, misses = self.hits, self.n - self.hits
        if self.n == 0:
            return 0.0, 1.0
        evidence = float(betaln(hits + 0.5, misses + 0.5) - betaln(0.5, 0.5)) + math.log(self.risk)

        def slack(p: float) -> float:
            """Above 0 where p is not rejected."""
            return hits * math.log(p) + misses * math.log1p(-p) - evidence

        share, edge = hits / self.n, 1e-12
        low = 0.0 if hits == 0 or slack(edge) > 0 else brentq(slack, edge, min(share, 1 - edge))
        high = 1.0 if misses == 0 or slack(1 - edge) > 0 else brentq(slack, max(share, edge), 1 - edge)
        return float(low), float(high)

    def see(self, successes: ArrayLike) -> "SequentialTest":
        """The state after further outcomes (k,), in their order."""
        outcomes: BoolArray = np.atleast_1d(np.asarray(successes, dtype=np.bool_))
        odds = math.log(self.floor) - math.log1p(-self.floor) - _STEPS
        q = 1 / (1 + np.exp(-odds))
        by_success, by_failure = q / self.floor, (1 - q) / (1 - self.floor)
        stakes, n, broken_at = np.array(self.stakes), self.n, self.broken_at
        for start in range(0, outcomes.size, _CHUNK):
            chunk = outcomes[start : start + _CHUNK]
            growth = np.cumprod(np.where(chunk[:, None], by_success, by_failure), axis=0)  # (k, bets)
            before = np.vstack([np.ones(q.size), growth[:-1]])
            times = n + np.arange(chunk.size)
            path = growth * (stakes + np.cumsum((_reserve(times) - _reserve(times + 1))[:, None] / before, axis=0))
            wealth = path.mean(axis=1) + _reserve(times + 1)
            if broken_at is None and wealth.max() >= 1 / self.risk:
                broken_at = n + int(np.argmax(wealth >= 1 / self.risk)) + 1
            stakes, n = np.minimum(path[-1], _MOST), n + chunk.size
        hits = self.hits + int(outcomes.sum())
        return replace(self, n=n, hits=hits, stakes=tuple(map(float, stakes)), broken_at=broken_at)


def _reserve(t: ArrayLike) -> Any:
    """The part of the wealth that is not yet at stake after t outcomes: 1/log₂(t+2)."""
    return 1 / np.log2(np.asarray(t) + 2.0)


@dataclass(frozen=True)
class Monitor:
    """Sequential tests of the bounds of a certified point; `see` gives the next state.

    A certificate that holds is ever called broken with probability 1 - `confidence` at most. Calls count in their
    order; the outcomes of one call are shuffled, so that a sorted file does no harm. Outcomes must be independent: of a
    patient with several rows give one.

    Attributes
    ----------
    threshold : float
        The threshold of the point.
    tests : mapping of str to SequentialTest
        By metric: recall and FPR; or precision.
    labels : {"all", "alerts"}
        Whether every case gets an outcome, or only those above the threshold: nobody then learns of a miss, and
        precision is monitored in place of recall and FPR.
    seen : tuple of str
        A digest and a sketch of the outcomes of each call, so that none is counted twice.
    made_on : tuple of str
        Sketches of the rows that made the point; these are no new outcomes.
    unmonitored : tuple of str
        Certified metrics that outcomes alone do not tell, such as the recall of a subgroup.

    Examples
    --------
    >>> from lossdial import Dial
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([1, 0], [200, 1000])
    >>> dial = Dial(y, rng.standard_normal(1200) + 2 * y)
    >>> _ = dial.tune(maximize="precision", subject_to={"recall": 0.9}, confidence=0.95)
    >>> monitor = dial.monitor().see(rng.standard_normal(100), np.repeat([1, 0], 50))
    >>> monitor.broken
    ('recall',)
    """

    threshold: float
    confidence: float
    tests: Mapping[str, SequentialTest]
    labels: Literal["all", "alerts"] = "all"
    seen: tuple[str, ...] = ()
    made_on: tuple[str, ...] = ()
    unmonitored: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        point: OperatingPoint,
        confidence: float = 0.95,
        alerts_only: bool = False,
        prevalence: float | None = None,
        precision: float | None = None,
    ) -> "Monitor":
        """A monitor of a certified point.

        Parameters
        ----------
        point : OperatingPoint
            The point, which has a certificate.
        confidence : float
            With which confidence a broken certificate is called so.
        alerts_only : bool
            Whether only alerts get an outcome.
        prevalence : float, optional
            With `alerts_only`: the share of positives at which the certificate gives a floor on precision. A share that
            changes raises an alarm, too.
        precision : float, optional
            With `alerts_only`: the floor on precision, in place of the certificate's.

        Returns
        -------
        Monitor
        """
        require_confidence(confidence)
        made_on, certificate = tuple(sorted(point.spent)), point.certificate
        if not alerts_only and (prevalence is not None or precision is not None):
            argument = "precision" if prevalence is None else "prevalence"
            remedy = "Where every case gets an outcome, recall and fpr are monitored, at whatever prevalence."
            raise InputError(argument, "goes with {alerts_only}", remedy=remedy)
        if certificate is None and precision is None:
            remedy = " or give {precision}, the floor to monitor" if alerts_only else ""
            raise NotCertified(
                "", f"point {point.name!r} has no certificate to monitor; tune with {{confidence=0.95}}{remedy}"
            )
        if alerts_only:
            if precision is None:
                if certificate is None or prevalence is None:
                    remedy = "Give it, or the {prevalence} at which the certificate is used."
                    raise InputError("precision", "to monitor is needed", remedy=remedy)
                precision = precision_at(certificate.recall, certificate.fpr, prevalence)
            tests = {"precision": SequentialTest(precision, 1 - confidence)}
            return cls(point.threshold, confidence, tests, "alerts", made_on=made_on)
        bounds = {} if certificate is None else {bound.metric: bound.value for bound in certificate.bounds}
        testable = {name: bounds[name] for name in ("recall", "fpr") if 0 < bounds.get(name, 0) < 1}
        if not testable:
            raise NotCertified("", f"there is no bound on recall or fpr to monitor in: {certificate}")
        risk = (1 - confidence) / len(testable)
        tests = {
            name: SequentialTest(value if name == "recall" else 1 - value, risk) for name, value in testable.items()
        }
        others = tuple(name for name in bounds if name not in ("recall", "fpr"))
        return cls(point.threshold, confidence, tests, made_on=made_on, unmonitored=others)

    def see(self, score: ArrayLike, y: ArrayLike) -> "Monitor":
        """The state after new cases.

        Parameters
        ----------
        score, y : array-like of shape (k,)
            Their scores at the λ of the point, and their outcomes in {0, 1}. Where only alerts get outcomes, cases at
            or below the threshold are ignored, whatever their y.

        Returns
        -------
        Monitor

        Raises
        ------
        InputError
            If these outcomes were shown before, or are of the rows that made the point.
        """
        values, outcomes = np.atleast_1d(np.asarray(score, dtype=np.float64)), np.atleast_1d(np.asarray(y))
        require_finite(values[None])
        if outcomes.shape != values.shape:
            raise InputError("y", f"must have shape {values.shape}, as score has", got=outcomes.shape)
        if self.labels == "alerts":
            alerts = values > self.threshold
            values, outcomes = values[alerts], outcomes[alerts]
        labels = as_labels(outcomes)
        if self.labels == "all":
            self.require_new(labels, values)
        seen = self._with_call(labels, values)
        order = _shuffled(labels, values)
        labels, accepted = labels[order], values[order] > self.threshold
        successes = {"recall": accepted[labels], "fpr": ~accepted[~labels], "precision": labels}
        tests = {name: test.see(successes[name]) for name, test in self.tests.items()}
        return replace(self, tests=tests, seen=seen)

    def require_new(self, labels: ArrayLike, score: ArrayLike) -> None:
        """Stop where labels (n,) and scores (n,) are of the rows that chose the point or made its certificate."""
        values = np.asarray(score, dtype=np.float64)
        if are_known(self.made_on, labels, values):
            problem = f"these {values.size} rows, or some of them, chose this point or made its certificate"
            raise InputError("", problem, remedy="Show outcomes that came since.")

    def _with_call(self, labels: BoolArray, values: FloatArray) -> tuple[str, ...]:
        """The calls so far and this one; an error where these outcomes, or some of them, were shown before."""
        if values.size < _FEWEST:  # a few cases may well repeat
            return self.seen
        digest = digest_of(labels, values)[:16]
        if any(digest == call.split()[0] for call in self.seen) or any(
            are_known(call.split()[1:], labels, values) for call in self.seen[-_SKETCHED:]
        ):
            problem = f"these {values.size} outcomes, or some of them, have been seen already"
            raise InputError("", problem, remedy="Show those that came since.")
        older = tuple(call.split()[0] for call in self.seen[1 - _REMEMBERED : 1 - _SKETCHED])
        return (*older, *self.seen[1 - _SKETCHED :], f"{digest} {sketches(labels, values)}")

    def continues(self, other: "Monitor") -> bool:
        """Whether it monitors what another does: the same threshold, floors and confidence."""
        floors, others = (
            {name: (test.floor, test.risk) for name, test in monitor.tests.items()} for monitor in (self, other)
        )
        mine = self.threshold, self.confidence, self.labels, floors
        return mine == (other.threshold, other.confidence, other.labels, others)

    @property
    def broken(self) -> tuple[str, ...]:
        """The metrics whose bound no longer holds."""
        return tuple(name for name, test in self.tests.items() if test.broken)

    def __str__(self) -> str:
        lines = []
        for name, test in self.tests.items():
            low, high = test.interval
            floor, share = test.floor, test.hits / test.n if test.n else math.nan
            if name == "fpr":
                floor, share, low, high = 1 - floor, 1 - share, 1 - high, 1 - low
            if test.broken_at is not None:
                state = f"NO LONGER HOLDS, as outcome {test.broken_at} showed"
            else:
                state = f"not refuted (evidence {test.wealth:.3g} of {1 / test.risk:.3g})"
            observed = f", seen {share:.4g} [{low:.4g}, {high:.4g}]" if test.n else ""
            sign, s = "<=" if name == "fpr" else ">=", "" if test.n == 1 else "s"
            lines.append(f"{name} {sign} {floor:.4g}: {state}; {test.n} outcome{s}{observed}")
        if self.unmonitored:
            names = ", ".join(self.unmonitored)
            lines.append(f"certified, but not monitored: {names}; a monitor is over all cases")
        if self.labels == "alerts":
            lines.append("recall cannot be monitored: only alerts get an outcome, so nobody learns of a miss")
        return "\n".join(lines)

    @staticmethod
    def file(run: str | Path, point: str) -> Path:
        """Where the state for a point of a model is kept, unless another file is named."""
        plain = "".join(mark if mark.isalnum() or mark in "-_" else "-" for mark in point)
        suffix = "" if plain == point else f"-{hashlib.sha256(point.encode()).hexdigest()[:6]}"
        return Path(run) / "monitor" / f"{plain}{suffix}.json"

    def save(self, path: str | Path) -> None:
        """Write the state; the file is either whole or as it was."""
        write_json(Path(path), to_json(self, tagged=False) | {"threshold": encode_float(self.threshold)})

    @classmethod
    def load(cls, path: str | Path) -> "Monitor":
        """The state that `save` wrote; an InputError names what is missing or wrong."""
        data = read_json(Path(path))
        threshold = Reader(data, str(path)).number("threshold")  # which may be infinite
        monitor: Monitor = decode(cls, {**data, "threshold": 0.0}, str(path))
        return replace(monitor, threshold=threshold)


def _shuffled(labels: BoolArray, values: FloatArray) -> NDArray[np.intp]:
    """A random order of outcomes (k,), whatever the order they come in: a file sorted by score looks like a change."""
    # Bets are valid for an order that does not depend on the outcomes; these seed the generator, to make it repeatable.
    order = np.lexsort((labels, values))
    packed = (values[order] + 0.0).tobytes() + labels[order].tobytes()  # -0.0 and 0.0 are one score
    rng = np.random.default_rng(np.frombuffer(hashlib.sha256(packed).digest(), dtype=np.uint32))
    return np.asarray(order[rng.permutation(order.size)])
