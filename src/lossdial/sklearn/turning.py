"""Turning the dial of a fitted estimator: what is asked of it, and the points that come of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from lossdial.base.errors import closest, warn
from lossdial.dial import OBJECTIVES, Dial, Estimate, Monitor, Objective, OperatingPoint, Referral, SampleSize, Verdict
from lossdial.dial.certificates.evidence import require_fresh
from lossdial.dial.checks import TooFewPositives
from lossdial.dial.choice.objective import Target

__all__ = ["DialMixin"]


class DialMixin:
    """Questions of an estimator that has a :meth:`dial`, and the points and bands that it keeps.

    What is kept, or needs no data, is asked of the estimator itself. Reports on data alone (by part, money per case)
    are asked of ``clf.dial(X, y)``, with ``point=clf.points[name]``.
    """

    points_: dict[str, OperatingPoint]
    bands_: dict[str, Referral]

    @abstractmethod
    def dial(
        self, X: Any = None, y: Any = None, *, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Dial:
        """The dial of the data given; without any, of those that ``fit`` kept scores of."""

    def tune(
        self,
        X: Any = None,
        y: Any = None,
        *,
        maximize: Target | None = None,
        minimize: Target | None = None,
        subject_to: Mapping[str, float] | None = None,
        cost_fn: float | None = None,
        cost_fp: float | None = None,
        prevalence: float | None = None,
        objective: Objective | None = None,
        name: str = "default",
        calibration: str | None = "auto",
        confidence: float | None = None,
        by: ArrayLike | None = None,
        jointly: int = 1,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> OperatingPoint:
        """Choose the operating point for an aim, spelled out as in :class:`~lossdial.dial.Objective` or given as one.

        The point is kept under ``name``, with the calibration of its probabilities. Without data, on the held-out
        scores of ``fit``. With a ``confidence`` its bounds hold on new data with that probability, in every part that
        ``by`` names, and the point carries the certificate. On data that ``fit`` has not seen, λ is then chosen on what
        ``fit`` kept, and all rows certify. Of several certificates all hold at once where each is asked for with
        ``jointly`` their number.
        """
        point = self.dial(X, y, groups=groups, sample_weight=sample_weight).tune(
            maximize=maximize,
            minimize=minimize,
            subject_to=subject_to,
            cost_fn=cost_fn,
            cost_fp=cost_fp,
            prevalence=prevalence,
            objective=objective,
            name=name,
            calibration=calibration,
            confidence=confidence,
            by=by,
            jointly=jointly,
        )
        return self.keep(point)

    def _tune_if_enough(self, objective: Objective, calibration: str | None = "auto") -> None:
        """What ``fit`` does for its aim: too few positives to tune on are a warning, since the model is whole."""
        try:
            self.tune(objective=objective, calibration=calibration)
        except TooFewPositives as reason:
            warn(f"the aim is not tuned for, and predict stays as trained: {reason}")

    def adapt(
        self,
        X: Any = None,
        y: Any = None,
        *,
        prevalence: float | Estimate | None = None,
        cost_fn: float,
        cost_fp: float,
        name: str = "default",
        X_new: Any = None,
        groups_new: ArrayLike | None = None,
        confidence: float | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> OperatingPoint:
        """The point of least expected cost where a share ``prevalence`` is positive; no labels from there, no training.

        In place of a prevalence: unlabelled rows ``X_new`` from there, of which ``groups_new`` says which belong
        together (a patient's). The share is estimated from them, or
        :class:`~lossdial.dial.Declined` where no share explains their scores. With a ``confidence`` recall and FPR of
        the point are certified on rows set aside; without, it says 'not certified'. Without (X, y), by the scores that
        ``fit`` kept, where these are of the model that scores ``X_new``. ``predict_proba`` gives probabilities at that
        prevalence.
        """
        if (prevalence is None) == (X_new is None):
            raise ValueError("give prevalence, or X_new to estimate it from; one of them.")
        dial = self.dial(X, y, groups=groups, sample_weight=sample_weight)
        if X_new is not None:
            self._require_comparable(dial)
        probe = None if X_new is None else dial.probe(self._standing)
        if X_new is not None and (spent := self._spent(X_new)):
            warn(f"X_new: {spent}, so their scores are not those of new cases.")
        found = dial.adapt(
            prevalence=prevalence,
            cost_fn=cost_fn,
            cost_fp=cost_fp,
            name=name,
            score_new=None if probe is None else self._scores_at(X_new, probe.lam),
            groups_new=groups_new,
            point="default" if probe is None else probe,
            confidence=confidence,
        )
        return self.keep(found)

    def estimate_prevalence(
        self,
        X_new: Any,
        X: Any = None,
        y: Any = None,
        point: str = "default",
        *,
        groups_new: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Estimate:
        """The share of positives among unlabelled rows, with a 95 % interval, where only that share has changed since
        the labelled (X, y), or the rows that ``fit`` kept scores of, if these are of the model that scores ``X_new``.

        ``groups_new`` says which of the new rows belong together (a patient's), ``groups`` which of the labelled ones.
        """
        chosen = self._required(point)
        ask = self.dial if X is None else partial(self._dial_at, chosen)
        dial = ask(X, y, groups=groups, sample_weight=sample_weight)
        self._require_comparable(dial)
        probe = dial.probe(chosen)
        return dial.estimate_prevalence(self._scores_at(X_new, probe.lam), probe, groups_new)

    def certify(
        self,
        X: Any,
        y: Any,
        point: str = "default",
        confidence: float = 0.95,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> OperatingPoint:
        """Certify recall and FPR of a point on rows that took no part in training or choosing it; it is kept so."""
        chosen = self._required(point)
        dial = self._dial_at(chosen, X, y, groups=groups, sample_weight=sample_weight)
        return self.keep(dial.certify(chosen, confidence))

    def refer(
        self,
        X: Any = None,
        y: Any = None,
        *,
        npv: float,
        precision: float,
        prevalence: float | None = None,
        confidence: float = 0.95,
        name: str = "referral",
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Referral:
        """Two thresholds with certified NPV below and precision above; what lies between goes to a person.

        The band is kept under ``name``, and ``predict(X, point=name)`` says clear, refer or act.
        """
        dial = self.dial(X, y, groups=groups, sample_weight=sample_weight)
        found = dial.refer(npv=npv, precision=precision, prevalence=prevalence, confidence=confidence, name=name)
        return self.keep_band(found)

    def cap_alerts(
        self,
        X_new: Any,
        *,
        rate: float | None = None,
        per_day: float | None = None,
        volume: float | ArrayLike | None = None,
        groups_new: ArrayLike | None = None,
        confidence: float = 0.95,
        point: str = "default",
        name: str = "budget",
        X: Any = None,
        y: Any = None,
    ) -> OperatingPoint:
        """A point at the λ of another whose alerts keep to a budget, certified on cases without labels as they come.

        At most a share ``rate`` of them, or ``per_day`` on average where ``volume`` come a day, one number or a list of
        what came on each of some days. ``groups_new`` says which of the cases belong together (a patient's). Figures
        are of (X, y), or of the scores that ``fit`` kept.
        """
        require_fresh(self._spent(X_new))
        dial = self.dial(X, y)
        probe = dial.probe(self._required(point))
        scores = self._scores_at(X_new, probe.lam)
        found = dial.cap_alerts(
            scores,
            rate=rate,
            per_day=per_day,
            volume=volume,
            confidence=confidence,
            groups_new=groups_new,
            point=probe,
            name=name,
        )
        return self.keep(found)

    def sample_size(
        self,
        X: Any = None,
        y: Any = None,
        *,
        recall: float | None = None,
        confidence: float = 0.95,
        prevalence: float | None = None,
        groups: ArrayLike | None = None,
    ) -> SampleSize:
        """How many positives certifying a recall takes, and what to expect of it, on (X, y) or what ``fit`` kept."""
        if recall is None:
            raise ValueError(
                "give the recall to be certified by name: price(X, y, recall=0.95), or price(recall=0.95)."
            )
        return self.dial(X, y, groups=groups).sample_size(recall, confidence, prevalence)

    def compare(
        self, other: Any, X: Any, y: Any, objectives: Sequence[Objective | str] = OBJECTIVES, *, groups: Any = None
    ) -> Verdict:
        """What this model gains over another on the very same rows, paired, for all aims at once: over a classifier, or
        the dial that it has on these rows."""
        mine = self.dial(X, y, groups=groups)
        if isinstance(other, Dial):
            theirs = other
        elif isinstance(other, DialMixin):
            theirs = other.dial(X, y, groups=groups)
        else:
            theirs = Dial.of(other, X, y, groups=groups, pos_label=self._positive)
        return mine.compare(theirs, objectives)

    def monitor(
        self,
        point: str = "default",
        confidence: float = 0.95,
        *,
        alerts_only: bool = False,
        prevalence: float | None = None,
        precision: float | None = None,
    ) -> Monitor:
        """Bets against a point's certificate; show it outcomes by ``watch.see(clf.margin(X, point), y)``, y in {0, 1}.

        ``alerts_only``: only alerts get an outcome, and precision is watched, the given one or what the certificate
        promises at a ``prevalence``.
        """
        return Monitor.of(self._required(point), confidence, alerts_only, prevalence, precision)

    def margin(self, X: Any, point: str = "default") -> NDArray[Any]:
        """The scores (n,) that the threshold of a point is compared with: high where the positive class is likely."""
        return self._scores_at(X, self._required(point).lam)

    @property
    @abstractmethod
    def _positive(self) -> Any:
        """The class that is looked for."""

    @property
    @abstractmethod
    def _standing(self) -> OperatingPoint:
        """The default point, or a stand-in where it is untuned."""

    @abstractmethod
    def _scores_at(self, X: Any, lam: Mapping[str, float]) -> NDArray[Any]:
        """Scores (n,) of raw rows at one λ."""

    def _require_comparable(self, dial: Dial) -> None:
        """Stop where new rows' scores cannot be compared with those of a dial, because another model gave them."""

    @abstractmethod
    def _spent(self, X: Any) -> str:
        """Why raw rows cannot certify, where training has seen them; else empty."""

    @abstractmethod
    def _dial_at(self, point: OperatingPoint, X: Any, y: Any, *, groups: Any, sample_weight: Any) -> Dial:
        """The dial that has the point's λ."""

    def _required(self, name: str) -> OperatingPoint:
        found = self._point(name)
        if isinstance(found, Referral):
            raise ValueError(f"{name!r} is a referral band, with two thresholds; give an operating point.")
        return self._standing if found is None else found

    def keep(self, point: OperatingPoint) -> OperatingPoint:
        """Take up an operating point, such as one chosen on a :meth:`dial` of this estimator, under its name."""
        check_is_fitted(self)
        if point.name in self.bands:
            raise ValueError(f"{point.name!r} is a referral band; give the point a name of its own.")
        self.points_[point.name] = point
        return point

    def keep_band(self, band: Referral) -> Referral:
        """Take up a referral band under its name, which no operating point has."""
        check_is_fitted(self)
        if band.name in self.points or band.name == "default":
            raise ValueError(f"{band.name!r} is an operating point; give the band a name of its own.")
        self.bands_[band.name] = band
        return band

    def verdict(
        self,
        X: Any = None,
        y: Any = None,
        objectives: Sequence[Objective] = OBJECTIVES,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Verdict:
        """What moving λ gains for each aim over moving the threshold alone; without data, on the held-out scores."""
        return self.dial(X, y, groups=groups, sample_weight=sample_weight).verdict(objectives)

    @property
    def points(self) -> Mapping[str, OperatingPoint]:
        """The operating points by name."""
        check_is_fitted(self)
        return MappingProxyType(self.points_)

    @property
    def bands(self) -> Mapping[str, Referral]:
        """The referral bands by name."""
        check_is_fitted(self)
        return MappingProxyType(self.bands_)

    def _point(self, name: str) -> OperatingPoint | Referral | None:
        """The point, or band, of that name; None is a default that is untuned yet."""
        if name == "default" or name in self.points:
            return self.points.get(name)
        if name in self.bands:
            return self.bands[name]
        raise ValueError(f"there is no operating point {name!r}; {closest(name, [*self.points, *self.bands])}")
