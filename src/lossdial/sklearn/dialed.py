"""``DialedClassifier``: the dial around any classifier of scikit-learn's kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    indexable,
)

from lossdial.base.errors import warn
from lossdial.base.labels import are_positive, flat, positive_class
from lossdial.data.leaks import row_numbers
from lossdial.data.schema import as_pandas
from lossdial.dial import Dial, Objective, OperatingPoint
from lossdial.dial.certificates.evidence import Sketch, trained_on
from lossdial.dial.checks import FloatArray, TooFewPositives
from lossdial.dial.choice.cases import both_costs, worth_an_alert
from lossdial.dial.classifiers import FittedClassifier
from lossdial.sklearn.crossfitting import CannotSplit, Metadata, cross_fitted, fitted, folds, margins, routed
from lossdial.sklearn.points import PointsMixin

__all__ = ["DialedClassifier"]


@dataclass(frozen=True, eq=False)
class _Trained(FittedClassifier):
    """The classifier that predicts, with its points and a sketch of the rows it was trained on."""

    seen: Sketch | None = None

    def margins(self, X: Any, lam: Mapping[str, float]) -> FloatArray:
        return super().margins(as_pandas(X), lam)

    def trained_on(self, X: Any) -> str:
        return "" if self.seen is None else trained_on(self.seen, row_numbers(as_pandas(X)))


def _has_probabilities(self: DialedClassifier) -> bool:
    """Those of its estimator, or of a point."""
    return hasattr(self.estimator, "predict_proba") or self.objective is not None or bool(getattr(self, "points_", {}))


class DialedClassifier(PointsMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Any binary classifier with the dial: threshold, probabilities and costs are chosen after training, exactly.

    ``fit`` trains the estimator on all rows, and once per fold for scores of rows that the scoring model has not seen.
    On these ``tune``, ``adapt`` and ``verdict`` choose and measure, unless they are given data. Untuned it predicts as
    its estimator does.

    Parameters
    ----------
    estimator : classifier with ``decision_function`` or ``predict_proba``
        It is cloned, not changed. A ``FrozenEstimator`` is taken as it is: no fold is trained, and ``fit`` wants rows
        that the classifier inside has not seen.
    aim : Objective, optional
        What ``fit`` tunes the point ``"default"`` for, so that tuning takes part in pipelines and cross-validation.
    calibration : {"auto", "temperature", "platt", "beta", "isotonic"} or None
        How the probabilities of the point that ``fit`` tunes are calibrated; ``"auto"`` takes the best by log loss.
    cv : int, splitter, iterable of splits or "prefit"
        A number gives stratified folds, which keep groups together where ``fit`` is given groups. ``"prefit"`` takes a
        fitted estimator as it is, as a ``FrozenEstimator`` is.
    pos_label : label, optional
        The class to look for. By default the rarer one.
    n_jobs : int, optional
        How many folds are trained at a time.
    random_state : int, RandomState or None
        Shuffles the rows before they are dealt into a number of folds; None deals them in their order.

    Attributes
    ----------
    estimator_ : the classifier that predicts, trained on all rows
    classes_ : array of shape (2,), sorted
    pos_label_ : the class that is looked for
    dial_ : Dial of rows not trained on, or None where there were too few of a class to leave any out
    points : mapping of name -> OperatingPoint; ``"default"``, once tuned, is what ``predict`` uses
    n_features_in_, feature_names_in_ : as its estimator has them

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(2000, weights=[0.9], random_state=0)
    >>> clf = DialedClassifier(LogisticRegression()).fit(X, y)
    >>> clf.tune(maximize="precision", subject_to={"recall": 0.9}).metrics["recall"].value >= 0.9
    True
    """

    estimator_: Any
    classes_: NDArray[Any]
    pos_label_: Any
    dial_: Dial | None

    def __init__(
        self,
        estimator: Any,
        *,
        objective: Objective | None = None,
        calibration: str | None = "auto",
        cv: Any = 5,
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.objective = objective
        self.calibration = calibration
        self.cv = cv
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Train on all rows, and per fold for scores of rows not trained on; then tune for ``aim``, if there is one.

        Weights count in training, where the estimator's ``fit`` takes them, and in the dial's figures. Rows of one
        group (a patient) stay in one fold and are resampled together. ``params`` are for the estimator's ``fit``.
        With metadata routing enabled, estimator and splitter get what they request.
        """
        X, y = indexable(as_pandas(X), as_pandas(y))
        y = _binary(y)
        check_consistent_length(X, y, sample_weight, groups)
        positive = positive_class(y, self.pos_label)
        if self._prefit:
            given = Metadata({}, {})
            check_is_fitted(self.estimator)
            self.estimator_, self._coded = self.estimator, False
        else:
            given = routed(self, sample_weight, groups, params)
            self.estimator_, self._coded = fitted(self.estimator, X, y, positive, given.fit)
        self.classes_ = np.unique(y if self._coded else getattr(self.estimator_, "classes_", y))
        self.pos_label_ = positive
        self.points_ = {}
        for learned in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, learned):
                setattr(self, learned, getattr(self.estimator_, learned))
        self._trained_on = None if self._prefit else Sketch.of(row_numbers(X))
        self.dial_ = self._evidence(X, y, sample_weight, groups, given)
        if self.objective is not None:
            self._tune_if_enough(self.objective, self.calibration)
        return self

    @property
    def _prefit(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator) or (isinstance(self.cv, str) and self.cv == "prefit")

    def _evidence(self, X: Any, y: NDArray[Any], weight: Any, groups: Any, given: Metadata) -> Dial | None:
        """Labels and scores of rows that the scoring model has not seen."""
        if self._prefit:
            return self.dial(X, y, groups=groups, sample_weight=weight)
        try:
            splits = folds(self.cv, X, y, groups, given.split, self.random_state)
        except CannotSplit as reason:
            warn(
                f"{reason}, so no row can be scored by a model that has not seen it. To tune, give tune data of their "
                "own: tune(X, y, …)."
            )
            return None
        rows, scores = cross_fitted(
            self.estimator, X, self._inner(y), self._inner(self.pos_label_), splits, given.fit, self.n_jobs
        )
        labels = (y == self.pos_label_)[rows].astype(np.uint8)
        names, weights = (None if part is None else np.asarray(part)[rows] for part in (groups, weight))
        spent = "their scores are those of one model per fold, which is not used"
        return Dial(labels, scores, groups=names, sample_weight=weights, spent=spent)

    def dial(
        self, X: Any = None, y: Any = None, *, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Dial:
        """The dial of data that the classifier has not seen; without any, of the cross-fitted scores of ``fit``."""
        check_is_fitted(self, "estimator_")
        if (X is None) != (y is None):
            raise ValueError("pass X and y together, or neither to use the cross-fitted scores of fit.")
        model = self._model
        if X is None:
            if self.dial_ is None:
                raise TooFewPositives(
                    "fit had too few rows of a class to score any by a model that has not seen them. Pass X and y that "
                    "training has not seen."
                )
            self.dial_.model = model
            return self.dial_
        X = as_pandas(X)
        rows = row_numbers(X)
        spent = "" if model.seen is None else trained_on(model.seen, rows)
        if spent:
            warn(
                f"{spent}: figures will be too good, and what is chosen by them wrong. Pass other data, or none to use "
                "the cross-fitted scores of fit."
            )
        y = self._inner(flat(as_pandas(y), DataConversionWarning))
        positive = self._inner(self.pos_label_)
        dial = Dial.of(self.estimator_, X, y, groups=groups, sample_weight=sample_weight, pos_label=positive)
        dial.spent, dial.rows, dial.model = spent, rows, model
        return dial

    @property
    def _model(self) -> _Trained:
        side = list(self.estimator_.classes_).index(self._inner(self.pos_label_))
        return _Trained(self.estimator_, side, {"default": self._untuned, **self.points_}, self._trained_on)

    def predict(
        self, X: Any, point: str = "default", cost_fn: ArrayLike | None = None, cost_fp: ArrayLike | None = None
    ) -> NDArray[Any]:
        if self._point(point) is not None:
            return super().predict(X, point, cost_fn, cost_fp)
        if cost_fn is not None or cost_fp is not None:
            return self._labels(worth_an_alert(self._untuned, self._margins(X), *both_costs(cost_fn, cost_fp)))
        labels = np.asarray(self.estimator_.predict(as_pandas(X)))
        return self._labels(labels == 1) if self._coded else labels

    predict.__doc__ = PointsMixin.predict.__doc__

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, point: str = "default") -> FloatArray:
        """(n, 2), columns as ``classes_``: a point's probabilities, calibrated and moved to its prevalence; those of
        the estimator while ``"default"`` is untuned."""
        if self._point(point) is not None:
            return self._probabilities(X, point)
        order = [list(self.estimator_.classes_).index(self._inner(label)) for label in self.classes_]
        return np.asarray(self.estimator_.predict_proba(as_pandas(X)))[:, order]

    def decision_function(self, X: Any) -> FloatArray:
        """Positive where ``classes_[1]`` is predicted, (n,): the margin over the threshold of the default point; over
        0 while it is untuned."""
        chosen = self.points.get("default")
        margin = self._margins(X)
        margin = margin if chosen is None else margin - chosen.threshold
        return -margin if self._flipped else margin

    def _margins(self, X: Any, lam: Any = None) -> FloatArray:  # noqa: ARG002 (there is one λ)
        check_is_fitted(self, "estimator_")
        return margins(self.estimator_, as_pandas(X), self._inner(self.pos_label_))

    def _inner(self, labels: Any) -> Any:
        """Labels as the estimator inside knows them: 1 for the positive one where it takes none but 0 and 1."""
        return are_positive(labels, self._classes) if self._coded else labels

    @property
    def _classes(self) -> tuple[Any, Any]:
        """The negative class, and the positive one."""
        return self.classes_[int(self._flipped)], self.classes_[int(not self._flipped)]

    @property
    def _untuned(self) -> OperatingPoint:
        return OperatingPoint("default", {}, 0.0, "untuned", metrics={}, n_positive=0, n_negative=0)

    @property
    def _flipped(self) -> bool:
        """Whether the positive class is the first of ``classes_``."""
        return bool(self.classes_[0] == self.pos_label_)

    def get_metadata_routing(self) -> MetadataRouter:
        """``sample_weight`` and ``groups`` are its own; estimator and splitter may request what they like."""
        into = MethodMapping
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=into().add(caller="fit", callee="fit"))
            .add(splitter=self.cv, method_mapping=into().add(caller="fit", callee="split"))
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.classifier_tags.multi_class = False
        tags.input_tags = inner.input_tags
        tags.non_deterministic = inner.non_deterministic
        return tags


def _binary(y: Any) -> NDArray[Any]:
    """Labels (n,) of two classes, or an error that says what they are."""
    y = column_or_1d(flat(y, DataConversionWarning))
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    classes = np.unique(y).tolist()
    if kind != "binary" and classes:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}. "
            f"It holds {len(classes)} values; two are needed."
        )
    if len(classes) < 2:
        held = f"one class only, {classes[0]!r}" if classes else "no rows"
        raise ValueError(f"y holds {held}; two classes are needed to tell apart.")
    return np.asarray(y)
