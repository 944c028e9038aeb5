"""Evidence that a share has fallen below its floor, valid whenever one looks.

Somebody bets against the claim 'the share of successes is at least f' at odds that are fair at f: with alternative
q < f a success multiplies the stake by q/f and a failure by (1-q)/(1-f). While the claim holds no such wealth grows on
average, whatever the past, so it ever reaches 1/risk with probability risk at most (Ville 1939): no penalty for looking
after every outcome. The wealth is spread over several q, and over when to start: a share 1/log₂(t+1) - 1/log₂(t+2) is
put in before outcome t, so that a change after a long good time is not up against what that time has cost.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betaln

from lossdial.dial.certificates.bounds import require_floor
from lossdial.dial.checks import BoolArray, require_open_unit
from lossdial.dial.reading import Reader

_STEPS = np.array([0.15, 0.3, 0.6, 1.0, 1.6, 2.5, 4.0])
"""How far below the floor the bets lie, in log-odds."""
_CHUNK = 64  # outcomes at a time: products of as many factors neither overflow nor vanish
_MOST = 1e100


@dataclass(frozen=True)
class Bet:
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

    def see(self, successes: ArrayLike) -> "Bet":
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
    def from_json(cls, data: Any, where: str = "bet") -> "Bet":
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
