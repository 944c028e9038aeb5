"""What operating points are worth on data that they were not chosen on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lossdial.base.codec import encode_float
from lossdial.dial.certificates.points import referral_figures
from lossdial.dial.checks import statable
from lossdial.dial.choice.selection import at_point, figures_of
from lossdial.dial.metrics.metric import Metric, MetricBound
from lossdial.dial.metrics.registry import FPR, RECALL, REPORT, as_metric
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import Estimate

if TYPE_CHECKING:
    from lossdial.dial.dial import Dial


@dataclass(frozen=True)
class Confusion:
    """The numbers of samples, or sums of their weights, that a threshold gets right and wrong."""

    tp: float
    fp: float
    fn: float
    tn: float

    def __str__(self) -> str:
        return f"tp {self.tp:g}, fp {self.fp:g}, fn {self.fn:g}, tn {self.tn:g}"


@dataclass(frozen=True)
class BoundCheck:
    """A bound, and whether a point keeps it on these samples."""

    bound: MetricBound
    estimate: Estimate
    met: bool

    def __str__(self) -> str:
        return f"{self.bound}: {'met' if self.met else 'NOT MET'}, {self.estimate}"


@dataclass(frozen=True)
class Evaluation:
    """One operating point on the samples of a dial.

    Parameters
    ----------
    point : OperatingPoint
        The point that was measured.
    counts : Confusion
        The numbers of samples that it gets right and wrong at its threshold.
    figures : mapping of str to Estimate
        Metrics by name, at `prevalence`; empty where there are too few samples. A point with two cuts has those of
        `referral_figures`.
    bounds : tuple of BoundCheck
        The bounds of the point's objective; of its certificate, where it has two cuts.
    expected_cost : Estimate, optional
        The expected cost, where the objective has costs.
    prevalence : float
        The prevalence that the point was made for, else that of the samples.
    note : str
        Why there are no figures.
    lower : Confusion, optional
        The counts at the lower cut, where there are two.

    Examples
    --------
    >>> from lossdial.dial import Dial, evaluate_points
    >>> dial = Dial([0, 0, 1] * 30, [-1.0, 0.5, 1.0] * 30)
    >>> point = dial.tune(maximize="f1", subject_to={"recall": 0.9})
    >>> (evaluation,) = evaluate_points(dial)
    >>> print(evaluation.counts, evaluation.bounds_met)
    tp 30, fp 0, fn 0, tn 60 True
    """

    point: OperatingPoint
    counts: Confusion
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    bounds: tuple[BoundCheck, ...] = ()
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
        return self.point.description

    @property
    def bounds_met(self) -> bool | None:
        """Whether every bound is kept; None where there is none to judge."""
        return all(check.met for check in self.bounds) if self.bounds else None

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types."""
        point, cost = self.point, self.expected_cost
        checks = [(check.bound.metric.name, check.bound.value, check.estimate, check.met) for check in self.bounds]
        return {
            "objective": self.description,
            "threshold": encode_float(point.threshold),
            "model_probability": point.model_probability,
            "threshold_probability": point.threshold_probability,
            "aim": None if point.objective is None else point.objective.to_json(),
            "counts": asdict(self.counts),
            "figures": {name: _triple(estimate) for name, estimate in self.figures.items()},
            "floors": [{"metric": m, "bound": b, "found": _triple(e), "met": met} for m, b, e, met in checks],
            "floors_met": self.bounds_met,
            "prevalence": self.prevalence,
            "expected_cost": None if cost is None else _triple(cost),
            "note": self.note,
            "actions": {action: list(counts) for action, counts in self.actions.items()},
        }


def _triple(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


def evaluate_points(
    dial: "Dial", points: Sequence[OperatingPoint] | None = None, resamples: int = 1000, seed: int = 0
) -> tuple[Evaluation, ...]:
    """Measure operating points on the samples of a dial.

    Parameters
    ----------
    dial : Dial
        Labels and scores; the λ of the points must be among its own.
    points : sequence of OperatingPoint, optional
        The points; those of the dial unless given.
    resamples, seed : int
        The number of resamples for the intervals, and their seed.

    Returns
    -------
    tuple of Evaluation
        One for each point.

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> chosen_on, fresh = Dial([0, 1] * 30, [-1.0, 1.0] * 30), Dial([0, 1] * 20, [-0.5, 0.5] * 20)
    >>> point = chosen_on.tune(maximize="f1")
    >>> [float(evaluation.figures["f1"]) for evaluation in evaluate_points(fresh, [point])]
    [1.0]
    """
    chosen = tuple(dial.points.values()) if points is None else tuple(points)
    return tuple(_evaluate(dial.surface, point, resamples, seed) for point in chosen)


def confusion(one: Surface, threshold: float) -> Confusion:
    """The counts of one λ at a threshold."""
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
        checks = tuple(
            BoundCheck(MetricBound(as_metric(b.metric), b.value), figures[b.metric], b.holds(figures[b.metric].value))
            for b in certified
        )
        return Evaluation(point, counts, figures, checks, None, point.prevalence or surface.prevalence, "", lower)
    prevalence = at_point(surface, point).prevalence
    asked: list[Metric] = []
    bounds: tuple[MetricBound, ...] = ()
    if point.objective is not None:
        metric, bounds = point.objective.unfolded(prevalence)
        asked = [metric, *(bound.metric for bound in bounds)]
    metrics = {m.name: m for m in (*asked, *map(as_metric, REPORT))}
    figures = figures_of(surface, point, list(metrics.values()), resamples, seed)
    cost = figures.pop("expected_cost", None)
    checks = tuple(BoundCheck(b, figures[b.metric.name], bool(b.met(figures[b.metric.name].value))) for b in bounds)
    return Evaluation(point, counts, figures, checks, cost, prevalence)
