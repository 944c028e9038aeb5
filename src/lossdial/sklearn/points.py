"""What both estimators share: operating points that are chosen, kept by name, and predicted by."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from lossdial.base.errors import InputError, closest, warn
from lossdial.dial import OBJECTIVES, Dial, Estimate, Objective, OperatingPoint, Verdict
from lossdial.dial.checks import FloatArray, TooFewPositives
from lossdial.dial.choice.cases import both_costs, worth_an_alert
from lossdial.dial.metrics.metric import MetricLike


class PointsMixin:
    """An estimator with operating points by name, and a :meth:`dial`, of which all else is asked."""

    classes_: NDArray[Any]
    pos_label_: Any

    @abstractmethod
    def dial(
        self, X: Any = None, y: Any = None, *, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Dial:
        """The dial of labelled rows; without any, of those that ``fit`` kept scores of."""

    @abstractmethod
    def _margins(self, X: Any, lam: Mapping[str, float]) -> FloatArray:
        """Scores (n,) of raw rows at one λ, high where the positive class is likely."""

    @property
    @abstractmethod
    def _stored(self) -> Mapping[str, OperatingPoint]:
        """The points that are kept, by name."""

    @abstractmethod
    def _store(self, point: OperatingPoint) -> None:
        """Keep a point under its name."""

    @property
    def _flipped(self) -> bool:
        """Whether the positive class is the first of ``classes_``."""
        return bool(self.classes_[0] == self.pos_label_)

    # --- choosing

    def tune(
        self,
        X: Any = None,
        y: Any = None,
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
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> OperatingPoint:
        """Choose the operating point that serves an objective best, and keep it under its name.

        Parameters
        ----------
        X, y
            Labelled rows that training has not seen. Without them, the scores that ``fit`` kept.
        groups
            Rows of one group (a patient) belong together.
        sample_weight
            How much each row counts.
        maximize, minimize, subject_to, cost_fn, cost_fp, prevalence, objective, calibration, by, jointly
            As in :meth:`Dial.tune <lossdial.Dial.tune>`.
        name
            The point is kept under this name; ``predict`` uses ``"default"``.
        confidence
            As there. New rows all certify, because what ``fit`` kept chooses λ.

        Returns
        -------
        OperatingPoint
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
        """Tune at the end of ``fit``; too few positives to tune on are a warning, since the model is whole."""
        try:
            self.tune(objective=objective, calibration=calibration)
        except TooFewPositives as reason:
            warn(f"the objective is not tuned for, and predict stays as trained: {reason}")

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
        """Choose the point of least expected cost at another prevalence; it needs no labels from there, no training.

        Parameters
        ----------
        X, y, groups, sample_weight
            As in :meth:`tune`.
        prevalence, cost_fn, cost_fp, name, X_new, groups_new, confidence
            As in :meth:`Dial.adapt <lossdial.Dial.adapt>`.

        Returns
        -------
        OperatingPoint

        Raises
        ------
        Declined
            Where no prevalence explains the scores of ``X_new``, or the kept scores are of other models.
        """
        if (prevalence is None) == (X_new is None):
            raise InputError("prevalence", "or {X_new} to estimate it from must be given, one of the two")
        terms: dict[str, Any] = {"prevalence": prevalence, "cost_fn": cost_fn, "cost_fp": cost_fp, "name": name}
        if all(part is None for part in (X, y, X_new, groups_new, confidence)):
            return self.keep(self._adapted(terms))
        dial = self.dial(X, y, groups=groups, sample_weight=sample_weight)
        return self.keep(dial.adapt(**terms, X_new=X_new, groups_new=groups_new, confidence=confidence))

    def _adapted(self, terms: Mapping[str, Any]) -> OperatingPoint:
        """Adapt by what ``fit`` kept."""
        return self.dial().adapt(**terms)

    def verdict(
        self,
        X: Any = None,
        y: Any = None,
        objectives: Sequence[Objective] = OBJECTIVES,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Verdict:
        """What moving λ gains over moving the threshold alone, as :meth:`Dial.verdict <lossdial.Dial.verdict>`."""
        return self.dial(X, y, groups=groups, sample_weight=sample_weight).verdict(objectives)

    # --- what is kept

    @property
    def points(self) -> Mapping[str, OperatingPoint]:
        """The operating points by name; ``predict`` uses ``"default"``."""
        check_is_fitted(self)
        return MappingProxyType(self._stored)

    def keep(self, point: OperatingPoint) -> OperatingPoint:
        """Keep an operating point under its name, such as one that a :meth:`dial` of this estimator gave.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> from lossdial import DialedClassifier
        >>> X, y = make_classification(2000, weights=[0.9], random_state=0)
        >>> clf = DialedClassifier(LogisticRegression()).fit(X[:1000], y[:1000])
        >>> point = clf.keep(clf.dial(X[1000:], y[1000:]).certify("default"))
        >>> clf.points["default"].certificate.confidence
        0.95
        """
        check_is_fitted(self)
        self._store(point)
        return point

    def _point(self, name: str) -> OperatingPoint:
        if name in self.points:
            return self.points[name]
        raise InputError("point", f"must name an operating point; {closest(name, self.points)}", got=name)

    # --- predicting

    def margin(self, X: Any, point: str = "default") -> FloatArray:
        """The scores (n,) that the threshold of a point is compared with, high where the positive class is likely.

        A monitor sees these: ``monitor.see(clf.margin(X, "screening"), y)``.
        """
        return self._margins(X, self._point(point).lam)

    def predict(
        self, X: Any, point: str = "default", cost_fn: ArrayLike | None = None, cost_fp: ArrayLike | None = None
    ) -> NDArray[Any]:
        """The labels (n,) that an operating point gives.

        Parameters
        ----------
        X
            Raw rows, as in ``fit``.
        point
            The name of a point. One with two thresholds gives ``"clear"``, ``"refer"`` or ``"act"``.
        cost_fn, cost_fp
            Costs of a miss and of a false alarm, one number or one per case: the threshold is then each case's own, by
            the point's probabilities.

        Returns
        -------
        array of shape (n,)
        """
        chosen = self._point(point)
        scores = self._margins(X, chosen.lam)
        if cost_fn is not None or cost_fp is not None:
            return self._labels(worth_an_alert(chosen, scores, *both_costs(cost_fn, cost_fp)))
        return self._labels(chosen.predict(scores)) if chosen.lower is None else chosen.actions(scores)

    def decision_function(self, X: Any) -> FloatArray:
        """How far each row (n,) is beyond the threshold of the default point; positive where ``classes_[1]`` is
        predicted."""
        point = self._point("default")
        margin = self._margins(X, point.lam) - point.threshold
        return -margin if self._flipped else margin

    def _probabilities(self, X: Any, point: str) -> NDArray[np.float64]:
        """(n, 2), columns as ``classes_``: a point's probabilities."""
        chosen = self._point(point)
        return self._columns(chosen.probability(np.asarray(self._margins(X, chosen.lam), dtype=np.float64)))

    def _columns(self, positive: FloatArray) -> NDArray[np.float64]:
        """Probabilities (n,) of the positive class as columns (n, 2), in the order of ``classes_``."""
        return np.stack([positive, 1 - positive] if self._flipped else [1 - positive, positive], axis=1)

    def _labels(self, positive: NDArray[np.bool_]) -> NDArray[Any]:
        """Which rows (n,) are positive, as labels."""
        return self.classes_[(positive ^ self._flipped).astype(np.intp)]


def two_classes(y: NDArray[Any]) -> NDArray[Any]:
    """The classes of labels (n,), sorted; labels of another number of classes are an error."""
    check_classification_targets(y)
    kind, classes = type_of_target(y, input_name="y"), np.unique(y)
    if len(classes) < 2:
        names = f"one class only, {classes.tolist()[0]!r}" if len(classes) else "no rows"
        raise InputError("y", f"holds {names}; two classes are needed to tell apart")
    if kind != "binary":
        raise InputError(
            "y",
            f"holds {len(classes)} values; two are needed",
            remedy=f"Only binary classification is supported. The type of the target is {kind}.",
        )
    return classes
