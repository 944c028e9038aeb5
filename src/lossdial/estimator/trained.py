"""A trained classifier: predict, turn the dial, save."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from lossdial.bundle import Bundle, Holdout, class_array
from lossdial.dial import (
    AIMS,
    Estimate,
    Objective,
    OperatingPoint,
    Surface,
    Verdict,
    adapt,
    choose,
    envelope,
    estimate_prevalence,
    verdict,
)
from lossdial.dial.checks import require_positives
from lossdial.models import MLP
from lossdial.spaces import Lam

__all__ = ["TrainedClassifier"]

Labels = NDArray[np.int64]
T = TypeVar("T")


class TrainedClassifier(ClassifierMixin, BaseEstimator):
    """What :class:`LCTClassifier` does once ``fit`` or ``load`` has given it a ``bundle_``."""

    backbone: nn.Module | None
    pos_label: Any
    classes_: NDArray[Any]
    bundle_: Bundle

    def decision_function(self, X: ArrayLike, lam: Mapping[str, float] | Lam | None = None) -> NDArray[np.float32]:
        """Positive where ``classes_[1]`` is predicted, (n,): the margin at λ, or, without λ, the distance from the
        threshold of the default point at its own λ."""
        point = self._point("default")
        margin = self._margins(X, point.lam if lam is None else lam)
        margin = margin - np.float32(point.threshold) if lam is None else margin
        return -margin if self._flipped else margin

    def predict_proba(
        self, X: ArrayLike, lam: Mapping[str, float] | Lam | None = None, point: str = "default"
    ) -> NDArray[np.float64]:
        """(n, 2), columns as ``classes_``: the softmax at λ; or at the λ of an operating point, with its calibration
        and moved to its prevalence where it has them."""
        chosen = self._point(point)
        margin = self._margins(X, chosen.lam if lam is None else lam).astype(np.float64)
        positive = expit(margin if lam is not None else chosen.margin(margin))
        columns = [positive, 1 - positive] if self._flipped else [1 - positive, positive]
        return np.stack(columns, axis=1)

    def predict(self, X: ArrayLike, point: str = "default") -> NDArray[Any]:
        """The labels that an operating point gives, (n,)."""
        chosen = self._point(point)
        positive = chosen.predict(self._margins(X, chosen.lam))
        return self.classes_[(positive ^ self._flipped).astype(np.intp)]

    def _point(self, name: str) -> OperatingPoint:
        check_is_fitted(self)
        if name not in self.points:
            raise ValueError(f"there is no operating point {name!r}; there are {', '.join(self.points)}.")
        return self.points[name]

    def _margins(self, X: ArrayLike, lam: Mapping[str, float] | Lam) -> NDArray[np.float32]:
        check_is_fitted(self)
        features = self._features(X)
        return self.bundle_.margins(features, lam if isinstance(lam, Lam) else self.bundle_.model.space.point(**lam))

    def _features(self, X: ArrayLike) -> Tensor:
        return self.bundle_.model.embed(as_tensor(self._validate(X, reset=False)))

    @property
    def points(self) -> Mapping[str, OperatingPoint]:
        """The operating points by name."""
        return self.bundle_.points

    def surface(self, X: Any = None, y: Any = None, lams: Lam | None = None) -> Surface:
        """Labels and scores of every sample at every λ; nothing calls the backbone again.

        Without data, those held out in ``fit``. ``lams``: an even grid over the trained range unless given, as by
        ``Space.grid(gamma=[...], tau=[...])``.
        """
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise ValueError("pass X and y together, or neither to use the data held out in fit.")
        model = self.bundle_.model  # part of every key: the id of a model forgotten may come again
        key: tuple[Any, ...] = (model, None if lams is None else checksum(lams.values.numpy()))
        if X is None:
            if self.bundle_.holdout is None:
                raise ValueError(
                    "there are no held-out data: fit had none to spare, or their file was removed from the bundle. "
                    "Pass X and y that training has not seen."
                )
            data = self.bundle_.holdout
        else:
            X, y = self._validate(X, y, reset=False)
            labels, crc = self._labels(y), checksum(X)
            if crc == self.bundle_.training.get("data_crc32"):
                warnings.warn(
                    "these are the data that the model was trained on: figures will be too good, and the choice of λ "
                    "and threshold wrong. Pass validation data, or none to use the share that fit held out.",
                    UserWarning,
                    stacklevel=3,
                )
            key = (*key, X.shape, crc, checksum(labels))
            features = self._kept("features", (model, X.shape, crc), lambda: model.embed(as_tensor(X)))
            data = Holdout(features, labels)
        return self._kept("surfaces", key, lambda: self.bundle_.surface(data, lams))

    def _kept(self, kind: str, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What was made for this key before, so that the next question about the same data does no work twice."""
        cache: dict[tuple[Any, ...], T] = self.__dict__.setdefault("_cache", {}).setdefault(kind, {})
        if key not in cache:
            while len(cache) >= 3:  # held-out, validation and test data
                cache.pop(next(iter(cache)))
            cache[key] = make()
        return cache[key]

    def tune(
        self,
        X: Any = None,
        y: Any = None,
        *,
        maximize: str | Callable[[Any, Any], float] | None = None,
        minimize: str | Callable[[Any, Any], float] | None = None,
        subject_to: Mapping[str, float] | None = None,
        cost_fn: float | None = None,
        cost_fp: float | None = None,
        prevalence: float | None = None,
        name: str = "default",
        calibration: Literal["temperature", "platt", "beta", "isotonic"] | None = None,
        lams: Lam | None = None,
    ) -> OperatingPoint:
        """Choose λ and threshold for an aim, without training; the point is kept under ``name``.

        The aim is as in :class:`~lossdial.dial.Objective`. Without data, on those held out in ``fit``. A calibration is
        fitted at the chosen λ and kept with the point, for ``predict_proba``.
        """
        objective = Objective(maximize, minimize, subject_to or {}, cost_fn, cost_fp, prevalence)
        point = choose(self.surface(X, y, lams), objective, name, calibration=calibration)
        self.bundle_ = self.bundle_.with_point(point)
        return point

    def adapt(
        self,
        *,
        prevalence: float | Estimate,
        cost_fn: float,
        cost_fp: float,
        name: str = "default",
        X: Any = None,
        y: Any = None,
        lams: Lam | None = None,
    ) -> OperatingPoint:
        """The point of least expected cost where a share ``prevalence`` is positive; no labels from there, no training.

        λ and threshold come in closed form from the ROC envelope over all λ: of (X, y) where given, else of the data
        held out in ``fit``. ``predict_proba`` then gives probabilities at the new prevalence.
        """
        check_is_fitted(self)
        if X is not None or self.bundle_.envelope is None:
            self.bundle_ = replace(self.bundle_, envelope=envelope(self.surface(X, y, lams)))
        if self.bundle_.envelope is None:
            raise ValueError("there is no envelope to choose from; pass X and y.")
        require_positives(self.bundle_.envelope.n_positive)
        point = adapt(self.bundle_.envelope, float(prevalence), cost_fn, cost_fp, name)
        self.bundle_ = self.bundle_.with_point(point)
        return point

    def estimate_prevalence(self, X_new: Any, X: Any = None, y: Any = None, point: str = "default") -> Estimate:
        """The share of positives among unlabelled samples, with a 95 % interval, by the EM of Saerens et al.

        It takes it that only the share differs from the labelled (X, y), or the data held out in ``fit``, on which
        the scores of the point's λ are calibrated.
        """
        lam = self.bundle_.model.space.stack([self._point(point).lam])
        known = self.surface(X, y, lam)
        return estimate_prevalence(self.bundle_.margins(self._features(X_new), lam.at(0)), known.y, known.score(0))

    def verdict(
        self, X: Any = None, y: Any = None, objectives: Sequence[Objective] = AIMS, lams: Lam | None = None
    ) -> Verdict:
        """Does moving λ beat moving only the threshold at the best single λ, and by how much?

        Cross-fitted, with an interval for each aim; ``print`` it for a sentence. Without data, on those held out.
        """
        return verdict(self.surface(X, y, lams), objectives)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained model into a folder; see :class:`~lossdial.bundle.Bundle`."""
        check_is_fitted(self)
        self.bundle_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], backbone: nn.Module | None = None) -> Self:
        """The estimator that ``save`` wrote; it predicts bit for bit the same."""
        return cls.from_bundle(Bundle.load(path, backbone))

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """An estimator around a trained model."""
        model = bundle.model
        table = model.backbone if isinstance(model.backbone, MLP) else None
        negative, positive = bundle.classes
        estimator = cls(
            loss=bundle.loss["name"],
            space=model.space,
            backbone=None if table is not None else model.backbone,
            hidden=table.config.hidden if table is not None else (64, 64),
            head_widths=getattr(model.head.config, "widths", ()),
            film_scale=getattr(model.head.config, "scale", "1+sigma"),
            pos_label=positive,
        )
        estimator.classes_ = np.sort(class_array([negative, positive]))
        estimator.history_ = list(bundle.training.get("history", []))
        if table is not None:
            estimator.n_features_in_ = table.in_features
        if bundle.feature_names is not None:
            estimator.feature_names_in_ = np.array(bundle.feature_names, dtype=object)
        estimator.bundle_ = bundle
        return estimator

    @property
    def _flipped(self) -> bool:
        """Whether the positive class is the first of ``classes_``."""
        return self.pos_label is not None and bool(self.classes_[0] == self.pos_label)

    def _validate(self, X: Any, y: Any = "no_validation", reset: bool = True) -> Any:
        """Checked arrays: float32, or uint8 images as they are."""
        images = self.backbone is not None
        keep = images and getattr(X, "dtype", None) in (np.uint8, torch.uint8)
        dtype = np.uint8 if keep else np.float32
        return validate_data(self, X, y, reset=reset, dtype=dtype, allow_nd=images, order="C")

    def _labels(self, y: Any) -> Labels:
        """1 for the positive class, 0 for the other."""
        y = np.asarray(y)
        if self.pos_label is not None and self.pos_label not in self.classes_:
            raise ValueError(f"pos_label={self.pos_label!r} is not one of the labels {self.classes_.tolist()}.")
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y holds {unknown.tolist()[0]!r}, which was not seen in training: {self.classes_.tolist()}."
            )
        return (y == self.classes_[0 if self._flipped else 1]).astype(np.int64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.three_d_array = self.backbone is not None
        return tags


def as_tensor(x: NDArray[Any]) -> Tensor:
    """The array as a tensor that shares its memory where it can."""
    return torch.from_numpy(np.ascontiguousarray(x))


def checksum(x: NDArray[Any]) -> int:
    """A fingerprint of an array's bytes."""
    return zlib.crc32(np.ascontiguousarray(x).tobytes())
