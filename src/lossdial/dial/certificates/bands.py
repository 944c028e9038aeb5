"""What referral bands do on data that they were not chosen on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lossdial.dial.certificates.referral import LABELS, Referral
from lossdial.dial.checks import FloatArray
from lossdial.dial.uncertainty.estimate import Estimate

if TYPE_CHECKING:
    from lossdial.dial.dial import Dial

_DRAWS = 4000


@dataclass(frozen=True)
class BandEvaluation:
    """A band on the samples of a dial.

    `counts` are positives and negatives of each action, as they are. The shares of cases that fall to each action, and
    NPV and precision of the ends, are restated at the band's prevalence; an end that decides nothing has none.
    """

    band: Referral
    counts: Mapping[str, tuple[float, float]]
    shares: Mapping[str, Estimate]
    npv: Estimate | None
    precision: Estimate | None

    @property
    def name(self) -> str:
        return self.band.name

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types."""
        return {
            "aim": self.band.aim,
            "prevalence": self.band.prevalence,
            "counts": {action: list(counts) for action, counts in self.counts.items()},
            "shares": {action: _triple(share) for action, share in self.shares.items()},
            "npv": None if self.npv is None else _triple(self.npv),
            "precision": None if self.precision is None else _triple(self.precision),
        }


def evaluate_band(dial: "Dial", band: Referral, seed: int = 0) -> BandEvaluation:
    """A band on the dial's samples, whose λ must be among the dial's; 95 % intervals from Jeffreys posteriors."""
    surface = dial.surface
    score = surface.score(surface.column(band.lam, f"band {band.name!r}"))
    actions = band.predict(score)
    ones = np.ones(score.size) if surface.weight is None else surface.weight
    sides = (surface.labels, ~surface.labels)
    counts = {a: tuple(float(ones[(actions == a) & side].sum()) for side in sides) for a in LABELS}
    rng = np.random.default_rng([seed, 12])
    drawn = []
    for k, n in enumerate(surface.samples.effective):
        seen = np.array([counts[action][k] for action in LABELS])
        drawn.append(rng.dirichlet(seen / seen.sum() * n + 0.5, _DRAWS))  # (draws, 3)
    share = band.prevalence

    def mixed(positive: FloatArray, negative: FloatArray) -> dict[str, FloatArray]:
        """Shares of cases by action, and the two promises, from the shares of either class (…, 3)."""
        ill, well = share * positive, (1 - share) * negative
        with np.errstate(invalid="ignore", divide="ignore"):
            npv, precision = well[..., 0] / (well + ill)[..., 0], ill[..., 2] / (well + ill)[..., 2]
        return {action: (ill + well)[..., k] for k, action in enumerate(LABELS)} | {"npv": npv, "precision": precision}

    rates = [np.array([counts[a][k] for a in LABELS]) / total for k, total in enumerate(surface.samples.totals)]
    value, spread = mixed(*rates), mixed(*drawn)
    found = {name: _estimate(float(value[name]), spread[name]) for name in value}
    return BandEvaluation(
        band,
        {action: (pair[0], pair[1]) for action, pair in counts.items()},
        {action: found[action] for action in LABELS},
        None if math.isnan(found["npv"].value) else found["npv"],
        None if math.isnan(found["precision"].value) else found["precision"],
    )


def _estimate(value: float, drawn: FloatArray) -> Estimate:
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Estimate(value, min(float(low), value), max(float(high), value))


def _triple(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]
