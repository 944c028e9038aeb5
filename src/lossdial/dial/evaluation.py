"""What operating points are worth on data that they were not chosen on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lossdial.base.codec import encode_float
from lossdial.dial.certificates.referral import referral_figures
from lossdial.dial.checks import statable
from lossdial.dial.choice.objective import spell_bound
from lossdial.dial.choice.selection import REPORT, at_point
from lossdial.dial.metrics.registry import FPR, RECALL, SAME, Metric, as_metric
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import estimates

if TYPE_CHECKING:
    from lossdial.dial.dial import Dial


@dataclass(frozen=True)
class Confusion:
    """How many samples (or how much weight) a threshold gets right and wrong."""

    tp: float
    fp: float
    fn: float
    tn: float

    def __str__(self) -> str:
        return f"tp {self.tp:g}, fp {self.fp:g}, fn {self.fn:g}, tn {self.tn:g}"


@dataclass(frozen=True)
class Floor:
    """A bound of a point's aim (a floor, or a cap where less is better) and what became of it here."""

    metric: str
    bound: float
    found: Estimate
    met: bool
    spelled: str

    def __str__(self) -> str:
        return f"{self.spelled}: {'met' if self.met else 'NOT MET'}, {self.found}"


@dataclass(frozen=True)
class Evaluation:
    """One operating point on the samples of a dial.

    `counts` are at its threshold. For a point with two cuts `lower` has the counts at the lower one, the figures are
    those of `referral_figures`, and the bounds those of its certificate.

    Figures are at `prevalence`: that of the samples, or, for a point that was made for another one, restated there, the
    classes being weighted accordingly. Counts are of the samples as they are. `expected_cost` is there where the aim
    has costs. `figures` is empty, and `note` says why, where there are too few samples to state any.
    """

    point: OperatingPoint
    counts: Confusion
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    floors: tuple[Floor, ...] = ()
    expected_cost: Estimate | None = None
    prevalence: float = 0.5
    note: str = ""
    lower: Confusion | None = None

    @property
    def actions(self) -> dict[str, tuple[float, float]]:
        """Positives and negatives that are cleared, referred and acted on, where there are two cuts."""
        if self.lower is None:
            return {}
        low, high = self.lower, self.counts
        return {"clear": (low.fn, low.tn), "refer": (low.tp - high.tp, low.fp - high.fp), "act": (high.tp, high.fp)}

    @property
    def name(self) -> str:
        return self.point.name

    @property
    def description(self) -> str:
        """The aim, spelled out."""
        return self.point.description

    @property
    def floors_met(self) -> bool | None:
        """Whether every bound of the aim is kept here; None where it has none, or none can be judged."""
        return all(floor.met for floor in self.floors) if self.floors else None

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types."""
        cost = self.expected_cost
        return {
            "objective": self.description,
            "threshold": encode_float(self.point.threshold),
            "model_probability": self.point.model_probability,
            "threshold_probability": self.point.threshold_probability,
            "aim": None if self.point.objective is None else self.point.objective.to_json(),
            "counts": {"tp": self.counts.tp, "fp": self.counts.fp, "fn": self.counts.fn, "tn": self.counts.tn},
            "figures": {name: [e.value, e.low, e.high] for name, e in self.figures.items()},
            "floors": [
                {
                    "metric": f.metric,
                    "bound": f.bound,
                    "found": [f.found.value, f.found.low, f.found.high],
                    "met": f.met,
                }
                for f in self.floors
            ],
            "floors_met": self.floors_met,
            "prevalence": self.prevalence,
            "expected_cost": None if cost is None else [cost.value, cost.low, cost.high],
            "note": self.note,
            "actions": {action: list(counts) for action, counts in self.actions.items()},
        }


def evaluate_points(
    dial: "Dial", points: Sequence[OperatingPoint] | None = None, resamples: int = 1000, seed: int = 0
) -> tuple[Evaluation, ...]:
    """Each point (those of the dial unless given) on the dial's samples; their λ must be among the dial's."""
    chosen = tuple(dial.points.values()) if points is None else tuple(points)
    return tuple(_evaluate(dial.surface, point, resamples, seed) for point in chosen)


def confusion(one: Surface, threshold: float) -> Confusion:
    """The counts of one λ at a threshold; sums of weights where samples have them."""
    rates = one.metrics([RECALL, FPR], threshold)
    n_positive, n_negative = one.samples.totals
    tp, fp = float(rates["recall"][0]) * n_positive, float(rates["fpr"][0]) * n_negative
    if one.weight is None:
        tp, fp = round(tp), round(fp)
    return Confusion(tp, fp, n_positive - tp, n_negative - fp)


def _evaluate(surface: Surface, point: OperatingPoint, resamples: int, seed: int) -> Evaluation:
    own = surface.at(surface.column(point.lam, f"point {point.name!r}"))
    counts, lower = confusion(own, point.threshold), None if point.lower is None else confusion(own, point.lower)
    reason = statable(*surface.samples.units)
    if reason is not None:
        return Evaluation(point, counts, prevalence=surface.prevalence, note=reason, lower=lower)
    if lower is not None:
        figures = referral_figures(surface, point, seed)
        certified = () if point.certificate is None else point.certificate.bounds
        floors = tuple(
            Floor(
                b.metric, b.value, figures[b.metric], b.holds(figures[b.metric].value), f"{b.metric} >= {b.value:.4g}"
            )
            for b in certified
        )
        return Evaluation(point, counts, figures, floors, None, point.prevalence or surface.prevalence, "", lower)
    one, probable = at_point(surface, point)
    metric, bounds = (None, ()) if point.objective is None else point.objective.unfolded(one.prevalence)
    wanted = [m for m in (metric, *(m for m, _ in bounds)) if m is not None]
    metrics = {m.name: m for m in (*wanted, *map(as_metric, REPORT))}
    found = estimates(one, list(metrics.values()), point.threshold, resamples, seed, probable)
    figures = {name: values[0] for name, values in found.items()}
    cost = figures.pop("expected_cost", None)
    floors = tuple(
        Floor(m.name, bound, figures[m.name], _kept(m, figures[m.name].value, bound), spell_bound(m, bound))
        for m, bound in bounds
    )
    return Evaluation(point, counts, figures, floors, cost, one.prevalence)


def _kept(metric: Metric, value: float, bound: float) -> bool:
    return value >= bound - SAME if metric.greater_is_better else value <= bound + SAME
