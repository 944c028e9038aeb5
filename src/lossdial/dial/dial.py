"""`Dial`: labels and scores in, decisions out; the public face of this room."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError, closest, warn
from lossdial.dial.certificates.alerts import alert_rate_of
from lossdial.dial.certificates.evidence import require_fresh, sketch_of_rows
from lossdial.dial.certificates.points import (
    adapted_point,
    capped_point,
    certified_point,
    certify_point,
    refer,
    sample_size_on,
    with_chances,
)
from lossdial.dial.certificates.sample_size import SampleSize
from lossdial.dial.certificates.subgroups import Subgroups, by_subgroup
from lossdial.dial.checks import FloatArray, require_finite, statable
from lossdial.dial.choice.cases import CaseCosts, case_costs
from lossdial.dial.choice.envelope import Envelope, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import at_point, choose, figures_of, select
from lossdial.dial.choice.verdict import OBJECTIVES, Verdict, compare, verdict
from lossdial.dial.classifiers import (
    FittedClassifier,
    Model,
    ScoresAnywhere,
    array_of,
    coded,
    margins_of_columns,
    scores_of,
)
from lossdial.dial.metrics.metric import Metric, MetricLike
from lossdial.dial.metrics.registry import PAPER_METRICS
from lossdial.dial.monitor.monitor import Monitor
from lossdial.dial.monitor.prevalence import Declined, MixtureFit, fit_mixture
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.surface import Scores, Surface, columns_of
from lossdial.dial.uncertainty.intervals import estimates

_NEARLY_ALL = 0.9  # a share of positives above which the cases probably look different


class Dial:
    """Labels and scores of any classifier, and the questions that they answer.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of two classes.
    scores : array-like or Scores
        Margins (n,), or (n, m) at m values of λ. Without `lams`, the probabilities (n, 2) of `predict_proba` with
        columns in the sorted order of the labels: the dial takes their log-odds (see `margin_of_probability`).
    lams : sequence of mappings or Lam, optional
        The m values of λ.
    groups : array-like of shape (n,), optional
        Which rows belong together (to one patient): they stay on one side of every split and are resampled together.
    sample_weight : array-like of shape (n,), optional
        How much each row counts.
    spent : str
        Why these rows cannot certify, if they cannot: they chose the epochs, or their scores are of several models.
    plain : mapping or Lam, optional
        The λ of the plain loss, if it is known. Of equally good λ the nearest to it is taken, else the most central.
    evidence : Dial, optional
        Other rows at the same λ. Where this dial certifies, they choose.
    pos_label : optional
        The positive label. By default 1 if the labels are 0 and 1, else the rarer label.

    Examples
    --------
    >>> dial = Dial([0, 0, 1, 0, 1] * 30, [-2.0, -1.0, 1.0, 0.5, 2.0] * 30)
    >>> point = dial.tune(maximize="f1")
    >>> point.predict([0.4, 0.9]).tolist()
    [False, True]
    """

    def __init__(
        self,
        y: ArrayLike,
        scores: ArrayLike | Scores,
        lams: Iterable[Any] | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        spent: str = "",
        plain: Any = None,
        evidence: "Dial | None" = None,
        pos_label: Any = None,
    ) -> None:
        self.y, side = coded(y, pos_label)
        columns: Any = scores if isinstance(scores, Scores) else array_of(scores)
        if not isinstance(scores, Scores) and columns.ndim == 1:
            columns = columns[:, None]
        if lams is None and columns.shape[-1] != 1:
            columns = margins_of_columns(columns, side)
        self.scores: FloatArray | Scores = columns
        self.groups: NDArray[Any] | None = None if groups is None else np.asarray(groups)
        self.sample_weight: FloatArray | None = None if sample_weight is None else np.asarray(sample_weight)
        named = ({},) if lams is None else tuple(map(_by_name, lams))
        self._surface = Surface(self.y, columns, named, self.sample_weight, self.groups, _by_name(plain))
        used = self._surface.scores
        if isinstance(used, np.ndarray) and used.size and not np.isfinite([used.min(), used.max()]).all():
            require_finite(used.T)
        self.spent = spent
        self.rows: FloatArray | None = None  # a number for each raw row, where a face has them
        self.model: Model | None = None  # the model that gave the scores, where it is available
        self._evidence = None if evidence is None else evidence.surface
        self._points: dict[str, OperatingPoint] = {}

    @classmethod
    def of(
        cls,
        classifier: Any,
        X: Any,
        y: Any,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
    ) -> "Dial":
        """The dial of any fitted classifier with `decision_function` or `predict_proba`.

        Parameters
        ----------
        classifier : object
            A fitted classifier.
        X, y, groups, sample_weight
            Rows that it has not seen, their labels, and, as for `Dial`, groups and weights.
        pos_label : optional
            The positive label; the rarer one unless given, with a warning where that is in doubt.

        Returns
        -------
        Dial
        """
        labels, scores, side = scores_of(classifier, X, y, pos_label)
        dial = cls(labels, scores, groups=groups, sample_weight=sample_weight)
        dial.model = FittedClassifier(classifier, side)
        return dial

    @property
    def lams(self) -> Sequence[Mapping[str, float]]:
        """The m values of λ."""
        return self._surface.lams

    @property
    def surface(self) -> Surface:
        """Labels and scores, without the samples of no weight."""
        return self._surface

    @property
    def points(self) -> Mapping[str, OperatingPoint]:
        """The operating points that this dial has chosen, by name."""
        return MappingProxyType(self._points)

    # --- choosing a point

    def tune(
        self,
        *,
        maximize: MetricLike | None = None,
        minimize: MetricLike | None = None,
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
    ) -> OperatingPoint:
        """Choose the λ and threshold that serve an objective best, and keep them under `name`.

        Parameters
        ----------
        maximize, minimize, subject_to, cost_fn, cost_fp, prevalence
            The objective, as in `Objective`.
        objective : Objective, optional
            The objective as a value, in place of these.
        name : str
            The name of the point.
        calibration : {"auto", "temperature", "platt", "beta", "isotonic"} or None
            How its probabilities are calibrated on these data. "auto" takes the kind of least cross-fitted log loss,
            or none. No calibration changes a label.
        confidence : float, optional
            The bounds then hold on new data with this probability, and the point carries a certificate. Some rows (or
            the `evidence` of this dial) choose λ, and others certify the threshold.
        by : array-like of shape (n,), optional
            Names of subgroups: the floor on recall then holds in each of them.
        jointly : int
            How many certificates shall hold at once. Give this number with each of them.

        Returns
        -------
        OperatingPoint

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat([1, 0], [200, 1000])
        >>> dial = Dial(y, rng.standard_normal(1200) + 2 * y)
        >>> point = dial.tune(maximize="precision", subject_to={"recall": 0.9}, confidence=0.95)
        >>> print(point.certificate.bounds[0])
        recall >= 0.9 (188 of 200)
        """
        require_name(name)
        parts = (maximize, minimize, subject_to, cost_fn, cost_fp, prevalence)
        if objective is None:
            objective = Objective(maximize, minimize, subject_to or {}, cost_fn, cost_fp, prevalence)
        elif any(part is not None for part in parts):
            raise InputError("objective", "and its parts (maximize, minimize, …) are given", remedy="Give one of them.")
        if confidence is not None:
            require_fresh(self.spent)
            terms = self._surface, objective, confidence, name, by
            return self._keep(
                certified_point(*terms, calibration=calibration, jointly=jointly, evidence=self._evidence)
            )
        if by is not None:
            remedy = "Give {confidence} too; to measure subgroups use {by_subgroup}."
            raise InputError("by", "asks for a certified floor in each subgroup", remedy=remedy)
        if jointly != 1:
            remedy = "Give {confidence=0.95}, say."
            raise InputError("jointly", "needs {confidence}, whose risk it splits", remedy=remedy)
        point = choose(self._surface, objective, name, calibration=calibration)
        return self._keep(with_chances(self._surface, objective, point))

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
        """Take the point of least expected cost where a share `prevalence` is positive, and keep it under `name`.

        Parameters
        ----------
        prevalence : float or Estimate, optional
            The share of positives. It is estimated where new cases without labels are given in its place.
        cost_fn, cost_fp : float
            The costs of a miss and of a false alarm.
        name : str
            The name of the point.
        score_new : array-like of shape (k,), optional
            The scores of the new cases at the λ of `point`.
        groups_new : array-like of shape (k,), optional
            Which of the new cases belong together.
        point : str or OperatingPoint
            At whose λ new cases are compared with these rows.
        confidence : float, optional
            Some rows then choose the point, and the others certify its recall and FPR.
        X_new : optional
            The raw rows of the new cases, which the model of this dial scores, in place of `score_new`.

        Returns
        -------
        OperatingPoint

        Raises
        ------
        Declined
            Where no share of positives explains the new scores; the message says what moved.
        """
        require_name(name)
        self._surface.samples.require_positives()
        if X_new is not None:
            point, score_new, spent = self._scored(X_new, score_new, self._point(point))
            if spent:
                warn(f"X_new: {spent}, so their scores are not those of new cases.")
        if (prevalence is None) == (score_new is None):
            remedy = "Give {prevalence}, or {score_new} or {X_new} to estimate it from; one of them."
            raise InputError("prevalence", "or new cases without labels are needed", remedy=remedy)
        if groups_new is not None and score_new is None:
            raise InputError("groups_new", "names the groups of {score_new}, which is not given")
        if score_new is not None:
            fit = self.fit_mixture(score_new, point, groups_new)
            if not fit.fits:
                raise Declined("", str(fit))
            prevalence = fit.share
            if prevalence.value > _NEARLY_ALL and self._surface.prevalence < 0.5:
                warn(
                    f"nearly all of these cases ({prevalence}) would be positive. More likely all scores have moved, "
                    "which looks the same. Label some before this point is used."
                )
        share = float(prevalence if prevalence is not None else 0.5)
        if confidence is not None:
            require_fresh(self.spent)
        return self._keep(adapted_point(self._surface, share, (cost_fn, cost_fp), confidence, name))

    def refer(
        self,
        *,
        npv: float,
        precision: float,
        prevalence: float | None = None,
        confidence: float = 0.95,
        name: str = "referral",
    ) -> OperatingPoint:
        """Choose a point with two cuts, and keep it under `name`; a person decides on the cases between them.

        Parameters
        ----------
        npv, precision : float
            Certified floors: on the NPV below the lower cut and on the precision above the upper one.
        prevalence : float
            The share of positives at which both hold. It must be given.
        confidence : float
            The probability with which both hold.
        name : str
            The name of the point; not "default".

        Returns
        -------
        OperatingPoint
            The point that refers the fewest cases; see `OperatingPoint.actions`.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat([1, 0], [200, 1000])
        >>> dial = Dial(y, rng.standard_normal(1200) + 2.5 * y)
        >>> point = dial.refer(npv=0.98, precision=0.6, prevalence=0.1, name="triage")
        >>> point.actions([-1.0, 1.8, 4.0]).tolist()
        ['clear', 'refer', 'act']
        """
        require_name(name)
        if prevalence is None:
            remedy = "NPV and precision hold at a stated prevalence only: {prevalence=0.02}, say."
            raise InputError("prevalence", "must be given", remedy=remedy)
        require_fresh(self.spent)
        surface = self._surface
        point = refer(surface, npv=npv, precision=precision, prevalence=prevalence, confidence=confidence, name=name)
        return self._keep(point)

    def cap_alerts(
        self,
        score_new: ArrayLike | None = None,
        *,
        rate: float | None = None,
        per_day: float | None = None,
        volume: float | ArrayLike | None = None,
        confidence: float = 0.95,
        groups_new: ArrayLike | None = None,
        point: str | OperatingPoint = "default",
        name: str = "budget",
        X_new: Any = None,
    ) -> OperatingPoint:
        """Choose a point at the λ of `point` whose alerts stay within a budget, certified on scores without labels.

        Parameters
        ----------
        score_new : array-like of shape (k,), optional
            The scores of cases as they come, at the λ of `point`; those of this dial's rows unless they are given.
        rate : float, optional
            The cap, as a share of all cases.
        per_day, volume : float, optional
            The cap, as `per_day` alerts on average where `volume` cases come a day. `volume` may list what came on
            each of some days.
        confidence : float
            The probability with which the cap holds.
        groups_new : array-like of shape (k,), optional
            Which of the cases belong together.
        point : str or OperatingPoint
            The point whose λ is taken.
        name : str
            The name of the new point.
        X_new : optional
            The raw rows of the cases, in place of `score_new`.

        Returns
        -------
        OperatingPoint
            Its metrics are measured on this dial's rows.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat([1, 0], [100, 900])
        >>> dial = Dial(y, rng.standard_normal(1000) + 2 * y)
        >>> _ = dial.tune(maximize="f1")
        >>> point = dial.cap_alerts(per_day=20, volume=400)
        >>> print(point.certificate.bounds[0])
        alert_rate <= 0.05 (38 of 1000)
        """
        require_name(name)
        chosen = self._point(point)
        if X_new is not None:
            chosen, score_new, spent = self._scored(X_new, score_new, chosen)
            require_fresh(spent)
        elif score_new is None:
            require_fresh(self.spent)
        cap, surface = alert_rate_of(rate, per_day, volume), self._surface_at(chosen)
        capped = capped_point(surface, chosen, score_new, groups_new, cap, volume, confidence, name)
        self._points[name] = capped
        return capped

    # --- certificates and what comes later

    def certify(self, point: str | OperatingPoint, confidence: float = 0.95) -> OperatingPoint:
        """Certify recall and FPR of a point on these rows, which took no part in choosing it.

        Parameters
        ----------
        point : str or OperatingPoint
            The point, of this dial or of another.
        confidence : float
            The probability with which both bounds hold on new data.

        Returns
        -------
        OperatingPoint
            The same point with a certificate; it is kept under its name.

        Raises
        ------
        NotCertified
            Where some of these rows have chosen or certified the point.
        """
        require_fresh(self.spent)
        chosen = self._point(point)
        certified = certify_point(self._surface_at(chosen), chosen, confidence, rows=self.rows)
        self._points[certified.name] = certified
        return certified

    def sample_size(self, recall: float, confidence: float = 0.95, prevalence: float | None = None) -> SampleSize:
        """How many positives it takes to certify a recall, what these rows can certify, and the precision to expect.

        Parameters
        ----------
        recall : float
            The floor to certify.
        confidence : float
            The probability with which the floor holds.
        prevalence : float, optional
            The share of positives at which the precision is stated; that of these rows unless given.

        Returns
        -------
        SampleSize

        Examples
        --------
        >>> Dial([1, 0] * 40, np.arange(80.0)).sample_size(recall=0.95).needed
        59
        """
        return sample_size_on(self._surface, recall, confidence, prevalence, self._evidence, bool(self.spent))

    def monitor(
        self,
        point: str | OperatingPoint = "default",
        confidence: float = 0.95,
        *,
        alerts_only: bool = False,
        prevalence: float | None = None,
        precision: float | None = None,
    ) -> Monitor:
        """A monitor of a point's certificate, which sees outcomes as they come; see `Monitor.of`."""
        return Monitor.of(self._point(point), confidence, alerts_only, prevalence, precision)

    def fit_mixture(
        self, score_new: ArrayLike, point: str | OperatingPoint = "default", groups_new: ArrayLike | None = None
    ) -> MixtureFit:
        """Test whether unlabelled scores (k,) at a point's λ, in groups (k,), are a mixture of both classes' scores.

        Raises `Declined` where the scores of these rows are of other models, or of rows that training has seen.
        """
        if self.spent:
            problem = f"new scores cannot be compared with those of these rows: {self.spent}"
            remedy = "Give labelled rows that took no part in training, {X} and {y}, beside the new ones."
            raise Declined("", problem, remedy=remedy)
        chosen = self._point(point)
        samples, one = self._surface.samples, at_point(self._surface_at(chosen), chosen)
        return fit_mixture(score_new, samples.labels, one.score(0), samples.weight, samples.groups, groups_new)

    def estimate_prevalence(
        self,
        score_new: ArrayLike | None = None,
        point: str | OperatingPoint = "default",
        groups_new: ArrayLike | None = None,
        *,
        X_new: Any = None,
    ) -> Estimate:
        """Estimate the share of positives among new cases without labels, with a 95 % interval.

        Parameters
        ----------
        score_new : array-like of shape (k,), optional
            Their scores at the λ of `point`.
        point : str or OperatingPoint
            At whose λ they are compared with these rows.
        groups_new : array-like of shape (k,), optional
            Which of them belong together.
        X_new : optional
            Their raw rows, which the model of this dial scores, in place of `score_new`.

        Returns
        -------
        Estimate
        """
        if X_new is not None:
            point, score_new, _ = self._scored(X_new, score_new, self._point(point))
        elif score_new is None:
            raise InputError("score_new", "is missing", remedy="Give {score_new}, or {X_new} for the model to score.")
        return self.fit_mixture(score_new, point, groups_new).share

    # --- measuring

    @overload
    def metrics(self, metrics: Sequence[str | Metric] = ..., point: None = None) -> dict[str, tuple[Estimate, ...]]: ...

    @overload
    def metrics(self, metrics: Sequence[str | Metric], point: str | OperatingPoint) -> dict[str, Estimate]: ...

    @overload
    def metrics(self, *, point: str | OperatingPoint) -> dict[str, Estimate]: ...

    def metrics(
        self, metrics: Sequence[str | Metric] = PAPER_METRICS, point: str | OperatingPoint | None = None
    ) -> dict[str, Estimate] | dict[str, tuple[Estimate, ...]]:
        """Measure metrics, with 95 % intervals.

        Parameters
        ----------
        metrics : sequence of str or Metric
            Their names, or the metrics themselves.
        point : str or OperatingPoint, optional
            Where to measure: at its threshold, with its calibrated probabilities, and at the prevalence it was made
            for. Without a point, metrics are of every λ, at a margin of 0 and with the scores' own probabilities.

        Returns
        -------
        dict
            An `Estimate` by name; without a point, a tuple with one for each λ.
        """
        reason = statable(*self._surface.samples.units)
        if reason is not None:
            raise InputError("", reason)
        if point is None:
            return estimates(self._surface, metrics)
        chosen = self._point(point)
        return figures_of(self._surface_at(chosen), chosen, metrics)

    def by_subgroup(self, by: ArrayLike, point: str | OperatingPoint = "default") -> Subgroups:
        """Recall, FPR and precision of a point in each subgroup that `by` (n,) names, and the gaps between them."""
        chosen = self._point(point)
        return by_subgroup(self.y, self._score(chosen), chosen.threshold, by, self.groups, self.sample_weight)

    def case_costs(self, cost_fn: ArrayLike, cost_fp: ArrayLike, point: str | OperatingPoint = "default") -> CaseCosts:
        """What a threshold for each case saves at a point's λ; each cost is one number or has shape (n,)."""
        if self.sample_weight is not None and np.ptp(self.sample_weight) > 0:
            remedy = "Ask a dial of the same rows without weights."
            raise InputError("sample_weight", "cannot be heeded by case_costs, which counts rows", remedy=remedy)
        return case_costs(self.y, self._score(self._point(point)), cost_fn, cost_fp, groups=self.groups)

    def envelope(self) -> Envelope:
        """The upper hull of the ROC curves of all λ, which is all that `adapt` needs."""
        return envelope(self._surface)

    def verdict(self, objectives: Sequence[Objective] = OBJECTIVES) -> Verdict:
        """What moving λ gains over moving only the threshold, at the λ of best AUC and at that of the plain loss."""
        plain = dict(self._surface.plain)
        known = self._surface.n_lams > 1 and plain in self._surface.lams
        return verdict(self._surface, objectives, plain=plain if known else None)

    def compare(self, other: "Dial", objectives: Sequence[Objective | str] = OBJECTIVES) -> Verdict:
        """What this model gains over another on the same rows, with intervals that hold for all objectives at once."""
        if not isinstance(other, Dial):
            remedy = "Dial(y, scores) makes one of scores, Dial.of(classifier, X, y) of a model."
            raise InputError("other", "must be another Dial of the same rows", got=type(other).__name__, remedy=remedy)
        return compare(self._surface, other.surface, objectives)

    # --- points, rows and λ

    def probe(self, point: str | OperatingPoint = "default") -> OperatingPoint:
        """The point, where these rows have scores at its λ; else an untuned point at the λ of the best AUC."""
        chosen = self._point(point)
        if dict(chosen.lam) in self._surface_at(chosen).lams:
            return chosen
        lam = self._surface.lams[select(self._surface, Objective(maximize="auc")).index]
        return OperatingPoint(chosen.name, lam, 0.0, "untuned", metrics={}, n_positive=0, n_negative=0)

    def _keep(self, point: OperatingPoint) -> OperatingPoint:
        """Keep a point that these rows chose, with a sketch of the raw rows."""
        if self.rows is not None:
            point = replace(point, chosen_on=f"{point.chosen_on} {sketch_of_rows(self.rows)}")
        self._points[point.name] = point
        return point

    def _point(self, point: str | OperatingPoint) -> OperatingPoint:
        if isinstance(point, OperatingPoint):
            return point
        known = {**({} if self.model is None else self.model.points), **self._points}
        if point not in known:
            raise InputError("point", f"must name an operating point; {closest(point, known)}", got=point)
        return known[point]

    def _scored(
        self, X_new: Any, score_new: ArrayLike | None, point: OperatingPoint
    ) -> tuple[OperatingPoint, FloatArray, str]:
        """The point at whose λ raw rows are scored, their scores, and why they are not new, if training saw them."""
        if score_new is not None:
            raise InputError("X_new", "and {score_new} say the same", remedy="Give one of the two.")
        if self.model is None:
            remedy = "Use clf.dial(X, y) or Dial.of, or give {score_new}."
            raise InputError("X_new", "needs the model that scores it", remedy=remedy)
        probe = self.probe(point)
        return probe, self.model.margins(X_new, probe.lam), self.model.trained_on(X_new)

    def _surface_at(self, point: OperatingPoint) -> Surface:
        """The surface; where it lacks the λ of a point and scores can be computed there, the surface of that λ."""
        scores = self._surface.scores
        if dict(point.lam) in self._surface.lams or not isinstance(scores, ScoresAnywhere):
            return self._surface
        return self._surface.with_scores(scores.at_lam(point.lam), (point.lam,))

    def _score(self, point: OperatingPoint) -> FloatArray:
        """Scores (n,) at a point's λ of all rows, including those of no weight."""
        scores = self.scores
        if dict(point.lam) not in self._surface.lams and isinstance(scores, ScoresAnywhere):
            return scores.at_lam(point.lam).columns(0, 1)[:, 0]
        column = self._surface.column(point.lam, f"point {point.name!r}")
        return columns_of(scores, column, column + 1)[:, 0]


def require_name(name: str) -> None:
    """Stop where a point would have no name."""
    if not name.strip():
        raise InputError("name", "must not be empty", got=name, remedy="A point is asked for by its name.")


def _by_name(lam: Any) -> Any:
    """The values of a λ by name, of a mapping, a `Lam` or none."""
    return lam.as_dict() if hasattr(lam, "as_dict") else {} if lam is None else lam
