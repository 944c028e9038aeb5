"""A trained classifier: predict, turn the dial, save."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from lossdial.base.labels import flat
from lossdial.bundle import Bundle
from lossdial.bundle.predictor import Predictor, class_array
from lossdial.data.encoder.table import require_readable
from lossdial.data.schema import ImageRows, TableSchema, are_paths, as_dense, as_pandas, require_finite
from lossdial.dial import Dial, OperatingPoint
from lossdial.dial.metrics.registry import sigmoid
from lossdial.sklearn.parameters import NestedParameters, parameters_from_json
from lossdial.sklearn.points import PointsMixin
from lossdial.spaces import Lam

__all__ = ["TrainedClassifier"]


class TrainedClassifier(PointsMixin, ClassifierMixin, NestedParameters):
    """What :class:`LCTClassifier` does once ``fit`` or ``load`` has given it a ``bundle_``."""

    network: Any
    classes_: NDArray[Any]
    bundle_: Bundle

    # --- predictions

    def decision_function(self, X: Any, *, lam: Mapping[str, float] | Lam | None = None) -> NDArray[np.float32]:
        """Positive where ``classes_[1]`` is predicted, (n,): the margin at λ, or, without λ, the distance from the
        threshold of the default point at its own λ."""
        point = self.points["default"]
        margin = self._margins(X, point.lam if lam is None else lam)
        margin = np.asarray(margin - np.float32(point.threshold)) if lam is None else margin
        return -margin if self._flipped else margin

    def predict_proba(
        self, X: Any, point: str = "default", *, lam: Mapping[str, float] | Lam | None = None
    ) -> NDArray[np.float64]:
        """(n, 2), columns as ``classes_``: an operating point's probabilities, calibrated and at its prevalence; or,
        where ``lam`` is given, the network's own at that λ."""
        if lam is None:
            return self._probabilities(X, point)
        return self._columns(sigmoid(self._margins(X, lam).astype(np.float64)))

    def _margins(self, X: Any, lam: Mapping[str, float] | Lam) -> NDArray[np.float32]:
        return self._predictor.margins(self._features(X), lam)

    def _features(self, X: Any) -> Tensor:
        check_is_fitted(self)
        return self._predictor.features(self._validate(X, reset=False))

    @property
    def _predictor(self) -> Predictor:
        return self.bundle_.predictor

    @property
    def points(self) -> Mapping[str, OperatingPoint]:
        """The operating points by name; ``"default"`` is what ``predict`` uses."""
        check_is_fitted(self)
        return self.bundle_.points

    # --- the dial

    def dial(
        self,
        X: Any = None,
        y: Any = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        lams: Lam | None = None,
    ) -> Dial:
        """Labels and scores of every sample at every λ, to ask anything of; the backbone is called once.

        Without data, those held out in ``fit``. ``lams``: an even grid over the trained range unless given, as by
        ``Space.grid(gamma=[...], tau=[...])``. ``groups``: rows of one patient belong together.
        """
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise ValueError("pass X and y together, or neither to use the data held out in fit.")
        if X is None:
            if lams is not None:
                raise ValueError("of held-out data only the scores at the model's own λ are kept; pass X and y.")
            return self.bundle_.held_out()
        X, y = self._validate(X, y, reset=False)
        X = self._predictor.schema.readable(X)
        key = (self._predictor.model, self._predictor.schema.fingerprints(X).tobytes())
        features = self._kept(key, lambda: self._predictor.features(X))
        return self.bundle_.dial(X, y, groups=groups, sample_weight=sample_weight, lams=lams, features=features)

    def _kept(self, key: tuple[Any, ...], make: Callable[[], Tensor]) -> Tensor:
        """What was made for this key before: the next question about the same data does not call the backbone again."""
        cache: dict[tuple[Any, ...], Tensor] = self.__dict__.setdefault("_cache", {})
        if key not in cache:
            while len(cache) >= 2:  # validation and test data
                cache.pop(next(iter(cache)))
            cache[key] = make()
        return cache[key]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_cache"}

    def _adapted(self, terms: Mapping[str, Any]) -> OperatingPoint:
        """Adapt by the kept scores, or by the envelope where that alone was kept."""
        check_is_fitted(self)
        return self.bundle_.adapt(**terms)

    def keep(self, point: OperatingPoint) -> OperatingPoint:
        check_is_fitted(self)
        self.bundle_ = self.bundle_.with_point(point)
        return point

    keep.__doc__ = PointsMixin.keep.__doc__

    # --- on disk

    def save(self, path: str | os.PathLike[str], evidence: bool = True, replace: bool = False) -> None:
        """Write the trained model into a folder; see :class:`~lossdial.bundle.Bundle`.

        evidence: keep scores and labels of the held-out samples with it, so that it can be tuned without data.
        replace: also where the folder holds another model, which is then lost.
        """
        check_is_fitted(self)
        bundle = self.bundle_ if evidence else dataclasses.replace(self.bundle_, evidence=None, seen=None)
        bundle.save(path, replace=replace)
        # the same model, which now knows what it wrote where
        self.bundle_ = dataclasses.replace(bundle, evidence=self.bundle_.evidence, seen=self.bundle_.seen)

    @classmethod
    def load(cls, path: str | os.PathLike[str], network: nn.Module | None = None) -> Self:
        """The estimator that ``save`` wrote, or the command: the same parameters, the same predictions bit for bit."""
        return cls.from_bundle(Bundle.load(path, network))

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """An estimator around a trained model."""
        estimator = cls(
            **parameters_from_json(bundle.training.parameters, {"network": bundle.predictor.model.backbone})
        )
        estimator._take(bundle)
        return estimator

    def _take(self, bundle: Bundle) -> None:
        """Be the trained estimator of a bundle."""
        schema = bundle.predictor.schema
        self.classes_ = np.sort(class_array(bundle.predictor.classes))
        self.history_ = [dict(row) for row in bundle.training.history]
        encoder = getattr(schema, "encoder", None)
        if encoder is not None:
            self.feature_names_in_ = encoder.feature_names_in_
            self.n_features_in_ = encoder.n_features_in_
        elif hasattr(schema, "shape"):
            self.n_features_in_ = schema.shape[0]
        self.bundle_ = bundle

    # --- scikit-learn

    @property
    def _flipped(self) -> bool:
        """Whether the positive class is the first of ``classes_``."""
        return bool(self.classes_[0] == self._predictor.classes[1])

    def _validate(self, X: Any, y: Any = "no_validation", reset: bool = True) -> Any:
        """X as scikit-learn wants it checked; rows that are not arrays (frames, files) are the schema's business."""
        X = as_dense(as_pandas(X))
        alone = isinstance(y, str) and y == "no_validation"
        if not alone and y is not None:
            y = flat(as_pandas(y), DataConversionWarning)
        schema = None if reset or not hasattr(self, "bundle_") else self._predictor.schema
        if isinstance(schema, TableSchema) and isinstance(X, np.ndarray) and X.ndim == 2 and schema.numbered:
            X = pd.DataFrame(X)
        if isinstance(X, pd.DataFrame):
            require_readable(X)
            X = X.set_axis(X.columns.map(str), axis=1)  # numbers, too, are names: scikit-learn knows none but text
        whole = isinstance(X, (pd.DataFrame, ImageRows)) or are_paths(X)
        if whole or isinstance(schema, TableSchema):  # of which an array has the columns in their order
            if not isinstance(X, ImageRows) and not are_paths(X):
                validate_data(self, X, reset=reset, skip_check_array=True)
            return X if alone else (X, np.asarray(y))
        bytes_ = getattr(X, "dtype", None) in (np.uint8, "uint8")
        dtype = np.uint8 if bytes_ and np.ndim(X) > 2 else np.float32
        checked = validate_data(
            self,
            X,
            y,
            reset=reset,
            dtype=dtype,
            allow_nd=isinstance(self.network, nn.Module),
            order="C",
            ensure_all_finite=False,  # told below, in words of our own
        )
        require_finite(checked[0] if isinstance(checked, tuple) else checked)
        return checked

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = isinstance(self.network, nn.Module)
        return tags
