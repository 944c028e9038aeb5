"""``DialedClassifier``: the dial around any classifier of scikit-learn's kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    indexable,
)

from lossdial.base.errors import InputError, warn
from lossdial.base.labels import are_positive, flat, positive_class
from lossdial.data.encoder.table import as_pandas
from lossdial.data.leaks import row_numbers
from lossdial.dial import Dial, Objective, OperatingPoint
from lossdial.dial.certificates.evidence import Sketch, trained_on
from lossdial.dial.checks import FOLD_MODELS, FloatArray, TooFewPositives
from lossdial.dial.classifiers import FittedClassifier, margins_of
from lossdial.sklearn.points import PointsMixin, two_classes

Rows = NDArray[np.intp]
#: what an untuned classifier certifies and compares with: a margin above 0
_UNTUNED: Final = OperatingPoint("default", {}, 0.0, "untuned", metrics={}, n_positive=0, n_negative=0)


@dataclass(frozen=True, eq=False)
class _Trained(FittedClassifier):
    """The classifier that predicts, with its points and a sketch of the rows it was trained on."""

    seen: Sketch | None = None

    def margins(self, X: Any, lam: Mapping[str, float]) -> FloatArray:
        return super().margins(as_pandas(X), lam)

    def trained_on(self, X: Any) -> str:
        return "" if self.seen is None else trained_on(self.seen, row_numbers(as_pandas(X)))


def _has_probabilities(self: DialedClassifier) -> bool:
    """Whether the estimator has probabilities, or a point."""
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
    objective : Objective, optional
        What ``fit`` tunes the point ``"default"`` for, so that tuning takes part in pipelines and cross-validation.
    calibration : {"auto", "temperature", "platt", "beta", "isotonic"} or None
        How the probabilities of the point that ``fit`` tunes are calibrated; ``"auto"`` takes the best by log loss.
    cv : int, splitter, iterable of splits or "prefit"
        A number gives stratified folds, which keep groups together where ``fit`` is given groups. ``"prefit"`` takes a
        fitted estimator as it is, as a ``FrozenEstimator`` is.
    pos_label : label, optional
        The positive class. By default the rarer one.
    n_jobs : int, optional
        How many folds are trained at a time.
    random_state : int, RandomState or None
        Shuffles the rows before they are dealt into a number of folds; None deals them in their order.

    Attributes
    ----------
    estimator_ : the classifier that predicts, trained on all rows
    classes_ : array of shape (2,), sorted
    pos_label_ : the positive class
    dial_ : Dial of rows not trained on, or None where there were too few of a class to leave any out
    points : mapping of name -> OperatingPoint; ``"default"``, once tuned, is what ``predict`` uses
    n_features_in_, feature_names_in_ : as its estimator has them

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(2000, weights=[0.9], random_state=0)
    >>> clf = DialedClassifier(LogisticRegression()).fit(X, y)
    >>> clf.tune(maximize="precision", subject_to={"recall": 0.9}, name="screening").metrics["recall"].value >= 0.9
    True
    >>> clf.predict(X, point="screening").shape
    (2000,)
    """

    estimator_: Any
    classes_: NDArray[Any]
    pos_label_: Any
    dial_: Dial | None
    points_: dict[str, OperatingPoint]

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

    # --- training

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Train on all rows, and once per fold for scores of rows not trained on; then tune for ``objective``.

        Parameters
        ----------
        X, y
            Rows, as the estimator takes them, and labels of two classes.
        sample_weight
            How much each row counts: in training, where the estimator's ``fit`` takes weights, and in the dial.
        groups
            Rows of one group (a patient) stay in one fold and are resampled together.
        **params
            For the estimator's ``fit``. With metadata routing enabled, estimator and splitter get what they request.

        Returns
        -------
        DialedClassifier
        """
        X, y = indexable(as_pandas(X), as_pandas(y))
        y = column_or_1d(flat(y, DataConversionWarning))
        assert_all_finite(y, input_name="y")
        self.classes_ = two_classes(y)
        check_consistent_length(X, y, sample_weight, groups)
        self.pos_label_ = positive_class(y, self.pos_label)
        to_fit: Mapping[str, Any] = {}
        to_split: Mapping[str, Any] = {}
        if self._prefit:
            check_is_fitted(self.estimator)
            self.estimator_, self._coded = self.estimator, False
        else:
            to_fit, to_split = self._routed(sample_weight, groups, params)
            self.estimator_, self._coded = self._fitted(X, y, to_fit)
        if not self._coded:
            self.classes_ = np.unique(getattr(self.estimator_, "classes_", y))
        self.points_ = {}
        for learned in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, learned):
                setattr(self, learned, getattr(self.estimator_, learned))
        self._trained_on = None if self._prefit else Sketch.of(row_numbers(X))
        self.dial_ = self._evidence(X, y, sample_weight, groups, to_fit, to_split)
        if self.objective is not None:
            self._tune_if_enough(self.objective, self.calibration)
        return self

    @property
    def _prefit(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator) or (isinstance(self.cv, str) and self.cv == "prefit")

    def _routed(
        self, sample_weight: Any, groups: Any, params: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The arguments of the estimator's ``fit`` and of the splitter's ``split``.

        Without metadata routing: weights for an estimator whose ``fit`` takes them, groups for the splitter.
        """
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        grouping = {} if groups is None else {"groups": groups}
        if get_config()["enable_metadata_routing"]:
            requested = process_routing(self, "fit", **weights, **grouping, **params)
            return requested.estimator.fit, requested.splitter.split
        if weights and not has_fit_parameter(self.estimator, "sample_weight"):
            kind = type(self.estimator).__name__
            step = ", as <step>__sample_weight" if hasattr(self.estimator, "steps") else ""
            warn(
                f"fit of {kind} takes no sample_weight: the weights count in the dial's figures, not in training. "
                f"To have both, pass them to its parts too{step}, or enable metadata routing."
            )
            weights = {}
        return {**params, **weights}, grouping

    def _fitted(self, X: Any, y: NDArray[Any], params: Mapping[str, Any]) -> tuple[Any, bool]:
        """The estimator trained on y; or on 1 for the positive class, where it takes none but 0 and 1, and True."""
        try:
            return clone(self.estimator).fit(X, y, **params), False
        except ValueError:
            if np.array_equal(np.unique(y), [0, 1]):
                raise
            try:
                return clone(self.estimator).fit(X, (y == self.pos_label_).astype(np.intp), **params), True
            except ValueError:
                pass  # the labels were not the reason
            raise

    def _evidence(
        self,
        X: Any,
        y: NDArray[Any],
        weight: Any,
        groups: Any,
        to_fit: Mapping[str, Any],
        to_split: Mapping[str, Any],
    ) -> Dial | None:
        """The dial of rows by models that have not seen them; None, with a warning, where there are too few rows."""
        if self._prefit:
            return self.dial(X, y, groups=groups, sample_weight=weight)
        splits, problem = self._splits(X, y, groups, to_split)
        if problem:
            warn(
                f"{problem}, so no row can be scored by a model that has not seen it. To tune, give {{tune}} data of "
                "its own."
            )
            return None
        labels, positive = self._inner(y), self._inner(self.pos_label_)
        scores = Parallel(n_jobs=self.n_jobs)(
            delayed(_score_fold)(clone(self.estimator), X, labels, positive, train, test, to_fit)
            for train, test in splits
        )
        rows = np.concatenate([test for _, test in splits])
        order = np.argsort(rows)
        rows = rows[order]
        return Dial(
            (y == self.pos_label_)[rows].astype(np.uint8),
            np.concatenate(scores)[order],
            groups=None if groups is None else np.asarray(groups)[rows],
            sample_weight=None if weight is None else np.asarray(weight)[rows],
            spent=FOLD_MODELS,
        )

    def _splits(
        self, X: Any, y: NDArray[Any], groups: Any, to_split: Mapping[str, Any]
    ) -> tuple[list[tuple[Rows, Rows]], str]:
        """Rows to train on and to score, fold by fold, and why there are too few for that, if so.

        A number of folds gives at most as many as the rarer class has rows (or groups).
        """
        folds: Iterable[Any]
        if isinstance(self.cv, Integral):
            if self.cv < 2:
                raise InputError("cv", "must be 2 folds or more, a splitter, splits, or 'prefit'", got=self.cv)
            units = np.arange(len(y)) if groups is None else np.asarray(groups)
            n_splits = min(int(self.cv), *(len(np.unique(units[y == label])) for label in np.unique(y)))
            if n_splits < 2:
                return [], f"a class has a single {'row' if groups is None else 'group'}"
            shuffle = {} if self.random_state is None else {"shuffle": True, "random_state": self.random_state}
            kind = StratifiedKFold if groups is None else StratifiedGroupKFold
            folds = kind(n_splits, **shuffle).split(X, y, groups)
        else:
            folds = check_cv(self.cv, y, classifier=True).split(X, y, **to_split)
        splits = [(np.asarray(train), np.asarray(test)) for train, test in folds]
        most = np.bincount(np.concatenate([test for _, test in splits])).max()
        if most > 1:
            problem = f"scores rows up to {most} times, which would count them as so many"
            remedy = "Use a splitter that tests each row at most once, such as StratifiedKFold."
            raise InputError("cv", problem, got=self.cv, remedy=remedy)
        for number, (train, _) in enumerate(splits, 1):
            left = np.unique(y[train]).tolist()
            if len(left) < 2:
                return [], f"without fold {number} of {len(splits)} only {left[0]!r} is left to train on"
        return splits, ""

    # --- the dial

    def dial(
        self, X: Any = None, y: Any = None, *, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Dial:
        """The dial of labelled rows; without any, of the cross-fitted scores of ``fit``.

        Parameters
        ----------
        X, y, groups, sample_weight
            As in :meth:`tune`.

        Returns
        -------
        Dial
            It knows the points of this estimator by name, and which rows trained it.
        """
        check_is_fitted(self, "estimator_")
        if (X is None) != (y is None):
            remedy = "Give both, or neither to use the cross-fitted scores of fit."
            raise InputError("X", "and {y} go together", remedy=remedy)
        model = self._model
        if X is None:
            if self.dial_ is None:
                problem = "fit had too few rows of a class to score any by a model that has not seen them"
                raise TooFewPositives("", problem, remedy="Pass X and y that training has not seen.")
            self.dial_.model = model
            return self.dial_
        X = as_pandas(X)
        rows = row_numbers(X)
        y = self._inner(flat(as_pandas(y), DataConversionWarning))
        positive = self._inner(self.pos_label_)
        spent = "" if model.seen is None else trained_on(model.seen, rows, np.asarray(y) == positive)
        if spent:
            warn(
                f"{spent}: figures will be too good, and what is chosen by them wrong. Pass other data, or none to use "
                "the cross-fitted scores of fit."
            )
        dial = Dial.of(self.estimator_, X, y, groups=groups, sample_weight=sample_weight, pos_label=positive)
        dial.spent, dial.rows, dial.model = spent, rows, model
        return dial

    @property
    def _model(self) -> _Trained:
        side = list(self.estimator_.classes_).index(self._inner(self.pos_label_))
        return _Trained(self.estimator_, side, {"default": _UNTUNED, **self.points_}, self._trained_on)

    @property
    def _stored(self) -> Mapping[str, OperatingPoint]:
        return self.points_

    def _store(self, point: OperatingPoint) -> None:
        self.points_[point.name] = point

    def _point(self, name: str) -> OperatingPoint:
        return _UNTUNED if self._is_untuned(name) else super()._point(name)

    def _is_untuned(self, name: str) -> bool:
        return name == "default" and name not in self.points

    # --- predictions

    def predict(
        self, X: Any, point: str = "default", cost_fn: ArrayLike | None = None, cost_fp: ArrayLike | None = None
    ) -> NDArray[Any]:
        if not self._is_untuned(point) or cost_fn is not None or cost_fp is not None:
            return super().predict(X, point, cost_fn, cost_fp)
        labels = np.asarray(self.estimator_.predict(as_pandas(X)))
        return self._labels(labels == 1) if self._coded else labels

    predict.__doc__ = PointsMixin.predict.__doc__

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, point: str = "default") -> FloatArray:
        """Probabilities (n, 2), columns as ``classes_``.

        Parameters
        ----------
        X
            Raw rows, as in ``fit``.
        point
            The name of an operating point: its probabilities are calibrated, and at its prevalence. While
            ``"default"`` is untuned they are the estimator's.

        Returns
        -------
        array of shape (n, 2)
        """
        if not self._is_untuned(point):
            return self._probabilities(X, point)
        order = [list(self.estimator_.classes_).index(self._inner(label)) for label in self.classes_]
        return np.asarray(self.estimator_.predict_proba(as_pandas(X)))[:, order]

    def _margins(self, X: Any, lam: Mapping[str, float]) -> FloatArray:
        check_is_fitted(self, "estimator_")
        return self._model.margins(X, lam)

    def _inner(self, labels: Any) -> Any:
        """Labels as the estimator inside knows them: 1 for the positive one where it takes none but 0 and 1."""
        if not self._coded:
            return labels
        positive, negative = self.pos_label_, self.classes_[self.classes_ != self.pos_label_][0]
        return are_positive(labels, (negative, positive))

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


def _score_fold(
    estimator: Any, X: Any, y: NDArray[Any], positive: Any, train: Rows, test: Rows, params: Mapping[str, Any]
) -> FloatArray:
    """Margins of the rows of a fold by a model trained on the others."""
    model = estimator.fit(_safe_indexing(X, train), y[train], **_check_method_params(X, params, indices=train))
    return margins_of(model, _safe_indexing(X, test), list(model.classes_).index(positive))
