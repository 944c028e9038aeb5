"""What a dial promises: certificates, their price, budgets, bands to refer, and whether they still hold."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError, closest, warn
from lossdial.dial.certificates.evidence import require_fresh, sketch_of_rows, sketches
from lossdial.dial.certificates.promises import (
    adapted_point,
    capped_point,
    certify_point,
    certifying_sample_size,
)
from lossdial.dial.certificates.referral import refer
from lossdial.dial.certificates.sample_size import SampleSize
from lossdial.dial.certificates.subgroups import Subgroups, by_subgroup
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.cases import CaseCosts, case_costs
from lossdial.dial.choice.envelope import adapt, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import at_point, select
from lossdial.dial.classifiers import Model, ScoresAnywhere
from lossdial.dial.monitor.monitor import Monitor
from lossdial.dial.monitor.shift import Declined, Fit, mixture_fit
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.surface import Scores, Surface

_NEARLY_ALL = 0.9
"""A share of positives that is rather a change in how cases look."""


class Promising:
    """The part of a `Dial` that answers for new data."""

    y: NDArray[Any]
    scores: FloatArray | Scores
    groups: NDArray[Any] | None
    spent: str
    rows: FloatArray | None
    model: Model | None
    _surface: Surface
    _choosing: Surface | None
    _points: dict[str, OperatingPoint]

    def certify(self, point: str | OperatingPoint, confidence: float = 0.95) -> OperatingPoint:
        """A point with the recall and FPR that these rows, which had no part in choosing it, certify."""
        self._require_fresh()
        chosen = self._point(point)
        found = certify_point(self._surface_at(chosen), chosen, confidence, rows=self.rows)
        self._points[found.name] = found
        return found

    def sample_size(self, recall: float, confidence: float = 0.95, prevalence: float | None = None) -> SampleSize:
        """How many positives certifying a recall takes, what can be certified now, and the precision to expect."""
        return certifying_sample_size(self._surface, recall, confidence, prevalence, self._choosing)

    def refer(
        self,
        *,
        npv: float,
        precision: float,
        prevalence: float | None = None,
        confidence: float = 0.95,
        name: str = "referral",
    ) -> OperatingPoint:
        """A point with two cuts: certified NPV below the lower, precision above the upper; a person decides between.

        Both figures hold at a `prevalence`, which must be given.
        """
        require_name(name)
        if prevalence is None:
            raise ValueError("NPV and precision hold at a stated prevalence only; give prevalence=0.02, say.")
        self._require_fresh()
        point = refer(
            self._surface, npv=npv, precision=precision, prevalence=prevalence, confidence=confidence, name=name
        )
        return self._kept(point)

    def cap_alerts(
        self,
        score_new: ArrayLike | None = None,
        *,
        rate: float | None = None,
        per_day: float | None = None,
        volume: float | ArrayLike | None = None,
        confidence: float = 0.95,
        quantile: float = 0.95,
        groups_new: ArrayLike | None = None,
        point: str | OperatingPoint = "default",
        name: str = "budget",
        X_new: Any = None,
    ) -> OperatingPoint:
        """A point at the λ of `point` whose alerts stay within a budget, certified on scores without labels.

        `score_new` (n,) are cases as they come, at that λ, or `X_new` their raw rows, which the model of this dial
        scores; without, those of this dial, as if they came so. The cap is
        a share `rate` of all cases, or `per_day` alerts on average where `volume` cases come a day, one number or
        what came on each of some days; the certificate says what a busy day then brings. Cases are rows, in groups
        (`groups_new`) or not. Figures are those of this dial's rows.
        """
        require_name(name)
        chosen = self._point(point)
        if X_new is not None:
            chosen, score_new, spent = self._scored(X_new, score_new, chosen)
            require_fresh(spent)
        elif score_new is None:
            self._require_fresh()
        budget = {"rate": rate, "per_day": per_day, "volume": volume}
        found = capped_point(
            self._surface_at(chosen), chosen, score_new, groups_new, budget, confidence, quantile, name
        )
        self._points[name] = found
        return found

    def monitor(
        self,
        point: str | OperatingPoint = "default",
        confidence: float = 0.95,
        *,
        alerts_only: bool = False,
        prevalence: float | None = None,
        precision: float | None = None,
    ) -> Monitor:
        """Bets against a point's certificate, to be shown outcomes as they come.

        With `alerts_only` nobody learns of a miss: precision is watched, the given one or what the certificate promises
        at a `prevalence`.
        """
        return Monitor.of(self._point(point), confidence, alerts_only, prevalence, precision)

    def by_subgroup(self, by: ArrayLike, point: str | OperatingPoint = "default") -> Subgroups:
        """What a point does in each part that `by` (n,) names, and the gaps between them; intervals count groups."""
        found = self._point(point)
        return by_subgroup(self.y, self._score(found), found.threshold, by, self.groups)

    def case_costs(self, cost_fn: ArrayLike, cost_fp: ArrayLike, point: str | OperatingPoint = "default") -> CaseCosts:
        """What a threshold per case saves at a point's λ, with costs of one number or one per case."""
        return case_costs(self.y, self._score(self._point(point)), cost_fn, cost_fp, groups=self.groups)

    def fit_mixture(
        self, score_new: ArrayLike, point: str | OperatingPoint = "default", groups_new: ArrayLike | None = None
    ) -> Fit:
        """Could new, unlabelled scores (n,) at a point's λ be a mixture of the two score laws seen here?

        `groups_new` (n,) says which of them belong together, as a patient's do.
        """
        chosen = self._point(point)
        samples, one = self._surface.samples, at_point(self._surface_at(chosen), chosen)[0]
        return mixture_fit(score_new, samples.labels, one.score(0), samples.weight, samples.groups, groups_new)

    def estimate_prevalence(
        self,
        score_new: ArrayLike | None = None,
        point: str | OperatingPoint = "default",
        groups_new: ArrayLike | None = None,
        *,
        X_new: Any = None,
    ) -> Estimate:
        """The share of positives among new, unlabelled scores (n,) at a point's λ, with a 95 % interval; `groups_new`
        (n,) says which of them belong together.

        In place of scores: raw rows `X_new`, which the model of this dial scores.
        """
        if X_new is not None:
            self._require_comparable()
            point, score_new, _ = self._scored(X_new, score_new, self._point(point))
        elif score_new is None:
            raise InputError("score_new", "is missing", remedy="Give {score_new}, or {X_new} for the model to score.")
        return self.fit_mixture(score_new, point, groups_new).share

    def probe(self, point: str | OperatingPoint = "default") -> OperatingPoint:
        """The point by whose scores new data are compared with these: the given one, where these have scores at its λ;
        else an untuned one at the λ of the best AUC."""
        found = self._point(point)
        if dict(found.lam) in self._surface_at(found).lams:
            return found
        lam = self._surface.lams[select(self._surface, Objective(maximize="auc")).index]
        return OperatingPoint(found.name, lam, 0.0, "untuned", metrics={}, n_positive=0, n_negative=0)

    def adapt(
        self,
        *,
        prevalence: float | Estimate | None = None,
        cost_fn: float,
        cost_fp: float,
        name: str = "default",
        score_new: ArrayLike | None = None,
        groups_new: ArrayLike | None = None,
        point: str | OperatingPoint = "default",
        confidence: float | None = None,
        X_new: Any = None,
    ) -> OperatingPoint:
        """The point of least expected cost where a share `prevalence` is positive, kept under `name`.

        In place of a prevalence: unlabelled scores `score_new` (n,) at the λ of `point`, or raw rows `X_new`, which the
        model of this dial scores; `groups_new` (n,) says which belong together. The share is estimated from them if
        some mixture of the two known score laws fits them; else this is `Declined`, with what moved. With a
        `confidence` the point is found on one part of the rows and its recall and FPR certified on the other.
        """
        require_name(name)
        self._surface.samples.require_positives()
        if X_new is not None:
            self._require_comparable()
            point, score_new, spent = self._scored(X_new, score_new, self._point(point))
            if spent:
                warn(f"X_new: {spent}, so their scores are not those of new cases.")
        if (prevalence is None) == (score_new is None):
            raise ValueError("give prevalence, or score_new or X_new to estimate it from; one of them.")
        if groups_new is not None and score_new is None:
            raise ValueError("groups_new names the groups of score_new, which is not given.")
        if score_new is not None:
            fit = self.fit_mixture(score_new, point, groups_new)
            if not fit.fits:
                raise Declined(str(fit))
            prevalence = fit.share
            if prevalence.value > _NEARLY_ALL and self._surface.prevalence < 0.5:
                warn(
                    f"nearly all of these cases ({prevalence}) would be positive. More likely all scores have moved, "
                    "which looks the same. Label some before this point is used."
                )
        share = float(prevalence if prevalence is not None else 0.5)
        if confidence is None:
            found = adapt(envelope(self._surface), share, cost_fn, cost_fp, name)
            column = self._surface.column(found.lam, f"point {name!r}")
            found = replace(found, chosen_on=sketches(self._surface.labels, self._surface.score(column)))
        else:
            self._require_fresh()
            found = adapted_point(self._surface, share, (cost_fn, cost_fp), confidence, name)
        return self._kept(found)

    def _kept(self, point: OperatingPoint) -> OperatingPoint:
        """A point that these rows chose, under its name, with a sketch of the raw rows where they are at hand."""
        if self.rows is not None:
            point = replace(point, chosen_on=f"{point.chosen_on} {sketch_of_rows(self.rows)}")
        self._points[point.name] = point
        return point

    def _require_fresh(self) -> None:
        require_fresh(self.spent)

    def _require_comparable(self) -> None:
        """Stop where scores of new rows cannot be compared with those of these rows."""
        if self.spent:
            raise Declined(
                f"whether these rows have changed cannot be told from the scores there are: {self.spent}. Pass "
                "labelled X, y that took no part in training: clf.dial(X, y), or clf.adapt(X, y, X_new=…)."
            )

    def _scored(
        self, X_new: Any, score_new: ArrayLike | None, point: OperatingPoint
    ) -> tuple[OperatingPoint, FloatArray, str]:
        """Raw rows as scores: the point at whose λ, the scores (n,), and why they are not new, if training saw them."""
        if score_new is not None:
            raise InputError("X_new", "and {score_new} say the same", remedy="Give one of the two.")
        if self.model is None:
            raise InputError(
                "X_new", "needs the model that scores it", remedy="Use clf.dial(X, y) or Dial.of, or give {score_new}."
            )
        probe = self.probe(point)
        return probe, self.model.margins(X_new, probe.lam), self.model.trained_on(X_new)

    def _surface_at(self, point: OperatingPoint) -> Surface:
        """The surface; where it lacks the λ of a point and scores can be computed there, that at the point's λ."""
        scores = self._surface.scores
        if dict(point.lam) in self._surface.lams or not isinstance(scores, ScoresAnywhere):
            return self._surface
        return self._surface.with_scores(scores.at_lam(point.lam), (point.lam,))

    def _score(self, point: OperatingPoint) -> FloatArray:
        """Scores (n,) at a point's λ of all rows, those of no weight too."""
        scores = self.scores
        if dict(point.lam) not in self._surface.lams and isinstance(scores, ScoresAnywhere):
            return scores.at_lam(point.lam).columns(0, 1)[:, 0]
        column = self._surface.column(point.lam, f"point {point.name!r}")
        return np.asarray(
            scores[:, column] if isinstance(scores, np.ndarray) else scores.columns(column, column + 1)[:, 0]
        )

    def _point(self, point: str | OperatingPoint) -> OperatingPoint:
        if isinstance(point, OperatingPoint):
            return point
        known = {**({} if self.model is None else self.model.points), **self._points}
        if point not in known:
            raise InputError("point", f"must name an operating point; {closest(point, known)}", got=point)
        return known[point]


def require_name(name: str) -> None:
    if not name.strip():
        raise ValueError(f"name must say something; got {name!r}. A point is asked for by it.")
