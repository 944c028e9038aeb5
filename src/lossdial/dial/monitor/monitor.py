"""Does it still hold? A certificate watched as outcomes come in, its state kept on disk."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import betaln

from lossdial.base.codec import Reader, encode_float
from lossdial.base.files import read_json, write_json
from lossdial.dial.certificates.bounds import require_floor
from lossdial.dial.certificates.certificate import Certificate, precision_at
from lossdial.dial.certificates.evidence import NotCertified, are_known, digest_of, require_confidence
from lossdial.dial.checks import BoolArray, FloatArray, as_labels, require_finite, require_open_unit
from lossdial.dial.points import OperatingPoint

_STEPS = np.array([0.15, 0.3, 0.6, 1.0, 1.6, 2.5, 4.0])
"""How far below the floor the bets lie, in log-odds."""
_CHUNK = 64  # outcomes at a time: products of as many factors neither overflow nor vanish
_MOST = 1e100


@dataclass(frozen=True)
class SequentialTest:
    """The state of the bets against one floor: outcomes and successes so far, and the stakes that are in play."""

    floor: float
    risk: float
    n: int = 0
    hits: int = 0
    stakes: tuple[float, ...] = field(default=(0.0,) * _STEPS.size)
    peak: float = 1.0
    broken_at: int | None = None

    def __post_init__(self) -> None:
        require_floor(self.floor)
        require_open_unit("risk", self.risk)
        if len(self.stakes) != _STEPS.size:
            raise ValueError(f"a bet holds {_STEPS.size} stakes; got {len(self.stakes)}.")

    @property
    def wealth(self) -> float:
        """What the bets have made of 1; the claim is rejected once it reaches 1/risk."""
        return float(np.mean(self.stakes)) + _left(self.n)

    @property
    def broken(self) -> bool:
        """Whether the floor has been rejected, ever."""
        return self.broken_at is not None

    def see(self, successes: ArrayLike) -> "SequentialTest":
        """The state after further outcomes (k,), in their order."""
        outcomes: BoolArray = np.atleast_1d(np.asarray(successes, dtype=np.bool_))
        odds = math.log(self.floor) - math.log1p(-self.floor) - _STEPS
        q = 1 / (1 + np.exp(-odds))
        won, lost = q / self.floor, (1 - q) / (1 - self.floor)  # by a success, by a failure
        stakes, n, peak, broken_at = np.array(self.stakes), self.n, self.peak, self.broken_at
        for start in range(0, outcomes.size, _CHUNK):
            part = outcomes[start : start + _CHUNK]
            growth = np.cumprod(np.where(part[:, None], won, lost), axis=0)  # (k, bets)
            before = np.vstack([np.ones(q.size), growth[:-1]])
            times = n + np.arange(part.size)
            path = growth * (stakes + np.cumsum((_left(times) - _left(times + 1))[:, None] / before, axis=0))
            wealth = path.mean(axis=1) + _left(times + 1)
            if broken_at is None and wealth.max() >= 1 / self.risk:
                broken_at = n + int(np.argmax(wealth >= 1 / self.risk)) + 1
            peak = min(max(peak, float(wealth.max())), _MOST)
            stakes, n = np.minimum(path[-1], _MOST), n + part.size
        return replace(
            self,
            n=n,
            hits=self.hits + int(outcomes.sum()),
            stakes=tuple(map(float, stakes)),
            peak=peak,
            broken_at=broken_at,
        )

    @property
    def interval(self) -> tuple[float, float]:
        """Between what and what the share lies, at all times at once with probability 1 - risk, if it is constant."""
        return confidence_sequence(self.hits, self.n, self.risk)

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types, from which `from_json` rebuilds the same state."""
        return {**vars(self), "stakes": list(self.stakes)}

    @classmethod
    def from_json(cls, data: Any, where: str = "bet") -> "SequentialTest":
        """The state that `to_json` wrote."""
        read = Reader(data, where)
        return cls(
            floor=read.finite("floor"),
            risk=read.finite("risk"),
            n=read.count("n"),
            hits=read.count("hits"),
            stakes=read.numbers("stakes"),
            peak=read.finite("peak"),
            broken_at=None if read.get("broken_at") is None else read.count("broken_at"),
        )


def confidence_sequence(hits: int, n: int, risk: float) -> tuple[float, float]:
    """The shares that a Beta(½, ½) mixture of bets has not refuted after `hits` of n (Robbins 1970).

    >>> low, high = confidence_sequence(95, 100, 0.05)
    >>> round(low, 3), round(high, 3)
    (0.844, 0.993)
    """
    if n == 0:
        return 0.0, 1.0
    evidence = float(betaln(hits + 0.5, n - hits + 0.5) - betaln(0.5, 0.5)) + math.log(risk)

    def spare(p: float) -> float:
        """Above 0 where p is not refuted."""
        return hits * math.log(p) + (n - hits) * math.log1p(-p) - evidence

    seen, edge = hits / n, 1e-12
    low = 0.0 if hits == 0 or spare(edge) > 0 else brentq(spare, edge, min(seen, 1 - edge))
    high = 1.0 if hits == n or spare(1 - edge) > 0 else brentq(spare, max(seen, edge), 1 - edge)
    return float(low), float(high)


def _left(t: ArrayLike) -> Any:
    """What has not been put in after t outcomes: 1/log₂(t+2)."""
    return 1 / np.log2(np.asarray(t) + 2.0)


ALL, ALERTS = "all", "alerts"
_TELLING = 5
"""Fewest outcomes that are taken for the same if they come again."""
_REMEMBERED = 1000


@dataclass(frozen=True)
class Monitor:
    """Bets against the bounds of a certificate at a threshold; `see` gives the next state.

    With `labels` "all" every case gets an outcome, and recall and FPR are watched. With "alerts" only cases above the
    threshold do: recall cannot be watched then, since nobody learns of a miss, and precision is watched instead.
    The certificate is called broken where it holds, ever, with probability 1 - `confidence` at most. Calls are looked
    at in their order, the outcomes within one in a random order, so that a sorted file does no harm. Outcomes are to be
    independent: of a patient with several rows give one. `seen` are the digests of what was shown, so that nobody
    shows the same outcomes twice; `made_on` sketches of the rows that made the point, of which a certificate holds
    anyway. `unwatched` are figures that the certificate bounds and outcomes alone do not tell, such as a part's recall.
    """

    threshold: float
    confidence: float
    tests: Mapping[str, SequentialTest]
    labels: str = ALL
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
        """Watch a certified point: recall and FPR, or precision where only alerts get an outcome."""
        if not alerts_only:
            if prevalence is not None or precision is not None:
                raise ValueError(
                    "prevalence and precision go with alerts_only; where every case gets an outcome, recall and fpr "
                    "are watched, at whatever prevalence."
                )
            if point.certificate is None:
                raise NotCertified(f"point {point.name!r} has no certificate to watch; tune with confidence=0.95.")
            found = cls.over(point.certificate, point.threshold, confidence)
            return replace(found, made_on=tuple(sorted(point.spent)))
        if precision is None and point.certificate is None:
            raise NotCertified(
                f"point {point.name!r} has no certificate to watch; tune with confidence=0.95, or give precision, the "
                "floor to watch."
            )
        found = cls.over_alerts(point.threshold, point.certificate, prevalence, precision, confidence)
        return replace(found, made_on=tuple(sorted(point.spent)))

    @classmethod
    def over(cls, certificate: Certificate, threshold: float, confidence: float = 0.95) -> "Monitor":
        """Watch recall and FPR of a certificate, where every case gets an outcome."""
        require_confidence(confidence)
        floors = {"recall": certificate.bound("recall"), "fpr": certificate.bound("fpr")}
        known = {name: value for name, value in floors.items() if value is not None and 0 < value < 1}
        if not known:
            raise NotCertified(f"there is no bound on recall or fpr to watch in: {certificate}")
        risk = (1 - confidence) / len(known)
        return cls(
            threshold,
            confidence,
            {name: SequentialTest(value if name == "recall" else 1 - value, risk) for name, value in known.items()},
            unmonitored=tuple(bound.metric for bound in certificate.bounds if bound.metric not in floors),
        )

    @classmethod
    def over_alerts(
        cls,
        threshold: float,
        certificate: Certificate | None = None,
        prevalence: float | None = None,
        precision: float | None = None,
        confidence: float = 0.95,
    ) -> "Monitor":
        """Watch precision, where only alerts get an outcome: a given floor, or what a certificate promises.

        A certificate of recall and FPR promises precision at a prevalence only; one that changes is an alarm, too.
        """
        require_confidence(confidence)
        if precision is None:
            if certificate is None or prevalence is None:
                raise ValueError(
                    "give precision, the floor to watch; or a certificate and the prevalence it is used at."
                )
            precision = precision_at(certificate.recall, certificate.fpr, prevalence)
        return cls(threshold, confidence, {"precision": SequentialTest(precision, 1 - confidence)}, ALERTS)

    def see(self, score: ArrayLike, y: ArrayLike) -> "Monitor":
        """The state after cases with scores (k,) and outcomes (k,) in {0, 1}; their order within the call is ignored.

        Where only alerts get outcomes, cases at or below the threshold are passed over, whatever stands in y.
        """
        values = np.atleast_1d(np.asarray(score, dtype=np.float64))
        require_finite(values[None])
        accepted = values > self.threshold
        if self.labels == ALERTS:
            given = np.atleast_1d(np.asarray(y))
            if given.shape != values.shape:
                raise ValueError(f"y must have shape {values.shape}, as score has; got {given.shape}.")
            alerts = as_labels(given[accepted])
            seen = self._shown(alerts, values[accepted])
            order = _shuffled(alerts, values[accepted])
            return replace(self, tests={"precision": self.tests["precision"].see(alerts[order])}, seen=seen)
        labels = as_labels(np.atleast_1d(np.asarray(y)))
        if labels.shape != values.shape:
            raise ValueError(f"y must have shape {values.shape}, as score has; got {labels.shape}.")
        self.require_new(labels, values)
        seen = self._shown(labels, values)
        order = _shuffled(labels, values)
        labels, accepted = labels[order], accepted[order]
        outcomes = {"recall": accepted[labels], "fpr": ~accepted[~labels]}
        tests = {name: test.see(outcomes[name]) for name, test in self.tests.items()}
        return replace(self, tests=tests, seen=seen)

    def require_new(self, labels: ArrayLike, score: ArrayLike) -> None:
        """Stop where labels (n,) and scores (n,) are those of the rows that chose the point or made its certificate."""
        values = np.asarray(score, dtype=np.float64)
        if are_known(self.made_on, labels, values):
            raise ValueError(
                f"these {values.size} rows chose this point or made its certificate, or some of them did: they are no "
                "outcomes that came since. Show those that did."
            )

    def _shown(self, labels: BoolArray, values: FloatArray) -> tuple[str, ...]:
        """The digests so far and that of these outcomes; an error where they were shown before."""
        if values.size < _TELLING:  # a few cases may well repeat
            return self.seen
        shown = digest_of(labels, values)[:16]
        if shown in self.seen:
            raise ValueError(
                f"these very {values.size} outcomes have been seen already; shown again, they would count twice. Show "
                "those that came since."
            )
        return (*self.seen[1 - _REMEMBERED :], shown)

    def goes_on(self, other: "Monitor") -> bool:
        """Whether it watches what another does: the same threshold, floors and confidence."""
        floors, others = (
            {name: (test.floor, test.risk) for name, test in monitor.tests.items()} for monitor in (self, other)
        )
        return (self.threshold, self.confidence, self.labels, floors) == (
            other.threshold,
            other.confidence,
            other.labels,
            others,
        )

    @property
    def broken(self) -> tuple[str, ...]:
        """The figures whose bound no longer holds."""
        return tuple(name for name, test in self.tests.items() if test.broken)

    def __str__(self) -> str:
        lines = []
        for name, test in self.tests.items():
            low, high = test.interval
            floor, seen = test.floor, test.hits / test.n if test.n else float("nan")
            if name == "fpr":
                floor, seen, low, high = 1 - floor, 1 - seen, 1 - high, 1 - low
            sign = "<=" if name == "fpr" else ">="
            if test.broken_at is not None:
                state = f"NO LONGER HOLDS, as outcome {test.broken_at} showed"
            else:
                state = f"not refuted (evidence {test.wealth:.3g} of {1 / test.risk:.3g})"
            told = f", seen {seen:.4g} [{low:.4g}, {high:.4g}]" if test.n else ""
            lines.append(f"{name} {sign} {floor:.4g}: {state}; {test.n} outcome{'' if test.n == 1 else 's'}{told}")
        if self.unmonitored:
            lines.append(f"not watched, though certified: {', '.join(self.unmonitored)}; a watch is over all cases")
        if self.labels == ALERTS:
            lines.append("recall cannot be watched: only alerts get an outcome, so nobody learns of a miss")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types, from which `from_json` rebuilds the same state."""
        return {
            "threshold": encode_float(self.threshold),
            "confidence": self.confidence,
            "labels": self.labels,
            "bets": {name: test.to_json() for name, test in self.tests.items()},
            "seen": list(self.seen),
            "made_on": list(self.made_on),
            "unwatched": list(self.unmonitored),
        }

    @classmethod
    def from_json(cls, data: Any, where: str = "watch") -> "Monitor":
        """The state that `to_json` wrote."""
        read = Reader(data, where)
        labels = read.text("labels")
        if labels not in (ALL, ALERTS):
            raise ValueError(f"{where}: 'labels' must be {ALL!r} or {ALERTS!r}; got {labels!r}.")
        tests = {
            name: SequentialTest.from_json(test, f"{where}: {name!r}") for name, test in read.mapping("bets").items()
        }
        keys = ("seen", "made_on", "unwatched")
        seen, made_on, unwatched = (tuple(map(str, read.items(key))) if key in read.data else () for key in keys)
        return cls(read.number("threshold"), read.finite("confidence"), tests, labels, seen, made_on, unwatched)

    @staticmethod
    def file(run: str | Path, point: str) -> Path:
        """Where the state of a model's point is kept unless told otherwise, by whoever watches it."""
        plain = "".join(mark if mark.isalnum() or mark in "-_" else "-" for mark in point)
        mark = "" if plain == point else f"-{hashlib.sha256(point.encode()).hexdigest()[:6]}"
        return Path(run) / "watch" / f"{plain}{mark}.json"

    def save(self, path: str | Path) -> None:
        """Write the state; the file is whole or as it was."""
        write_json(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "Monitor":
        """The state that `save` wrote, to go on from."""
        return cls.from_json(read_json(Path(path)), str(path))


def _shuffled(labels: BoolArray, values: FloatArray) -> NDArray[np.intp]:
    """A random order of outcomes (k,), whatever the order they are given in.

    A file sorted by score or by outcome would look like a change: bets are valid for outcomes in an order that does not
    depend on them. The generator is named by the outcomes themselves, so that the same ones give the same order.
    """
    order = np.lexsort((labels, values))
    packed = (values[order] + 0.0).tobytes() + labels[order].tobytes()  # -0.0 and 0.0 are one score
    rng = np.random.default_rng(np.frombuffer(hashlib.sha256(packed).digest(), dtype=np.uint32))
    return np.asarray(order[rng.permutation(order.size)])
