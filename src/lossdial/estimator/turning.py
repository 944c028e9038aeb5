"""Turning the dial of a fitted estimator: what is asked of it, and the points that come of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from lossdial.base.names import closest
from lossdial.dial import AIMS, Dial, Estimate, Objective, OperatingPoint, Verdict
from lossdial.dial.objectives import Target

__all__ = ["DialMixin"]


class DialMixin:
    """Questions of an estimator that has a :meth:`dial`, and the operating points it keeps in ``points_``."""

    points_: dict[str, OperatingPoint]

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
        aim: Objective | None = None,
        name: str = "default",
        calibration: str | None = "auto",
        confidence: float | None = None,
        by: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> OperatingPoint:
        """Choose the operating point for an aim, spelled out as in :class:`~lossdial.dial.Objective` or given as one.

        The point is kept under ``name``, with the calibration of its probabilities. Without data, on the held-out
        scores of ``fit``. With a ``confidence`` its bounds hold on new data with that probability, in every part that
        ``by`` names, and the point carries the certificate.
        """
        point = self.dial(X, y, groups=groups, sample_weight=sample_weight).tune(
            maximize=maximize,
            minimize=minimize,
            subject_to=subject_to,
            cost_fn=cost_fn,
            cost_fp=cost_fp,
            prevalence=prevalence,
            aim=aim,
            name=name,
            calibration=calibration,
            confidence=confidence,
            by=by,
        )
        return self.keep(point)

    def adapt(
        self,
        X: Any = None,
        y: Any = None,
        *,
        prevalence: float | Estimate,
        cost_fn: float,
        cost_fp: float,
        name: str = "default",
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> OperatingPoint:
        """The point of least expected cost where a share ``prevalence`` is positive; no labels from there, no training.

        Without data, by the held-out scores of ``fit``. ``predict_proba`` gives probabilities at that prevalence.
        """
        dial = self.dial(X, y, groups=groups, sample_weight=sample_weight)
        return self.keep(dial.adapt(prevalence=prevalence, cost_fn=cost_fn, cost_fp=cost_fp, name=name))

    def keep(self, point: OperatingPoint) -> OperatingPoint:
        """Take up an operating point, such as one chosen on a :meth:`dial` of this estimator, under its name."""
        check_is_fitted(self)
        self.points_[point.name] = point
        return point

    def verdict(
        self,
        X: Any = None,
        y: Any = None,
        objectives: Sequence[Objective] = AIMS,
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

    def _point(self, name: str) -> OperatingPoint | None:
        """The point of that name; None is a default that is untuned yet."""
        if name == "default" or name in self.points:
            return self.points.get(name)
        raise ValueError(f"there is no operating point {name!r}; {closest(name, self.points)}")
