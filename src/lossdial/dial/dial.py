"""`Dial`: labels and scores in, decisions out; the public face of this room."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError
from lossdial.dial.certificates.promises import certified_point, told
from lossdial.dial.certificates.promising import Promising, require_name
from lossdial.dial.checks import FloatArray, require_finite, statable
from lossdial.dial.choice.envelope import Envelope, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import choose, figures_of
from lossdial.dial.choice.verdict import OBJECTIVES, Verdict, compare, verdict
from lossdial.dial.classifiers import FittedClassifier, Model, array_of, coded, margins_of_columns, scores_of
from lossdial.dial.metrics.metric import Metric, MetricLike
from lossdial.dial.metrics.registry import PAPER_METRICS
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.surface import Scores, Surface
from lossdial.dial.uncertainty.intervals import estimates


class Named(Protocol):
    """A λ that can say its values by name, as `Lam` does."""

    def as_dict(self) -> Mapping[str, float]: ...


class Dial(Promising):
    """Labels y (n,) of two classes and somebody's scores, and what can be asked of them.

    Positive is `pos_label`; or 1, where the labels are 0 and 1; or else the rarer label. `scores` are margins (n,), or
    (n, m) at m values of λ, which `lams` names (a `Lam` or a list of mappings), or lazy `Scores`. Without `lams` they
    may be the probabilities (n, 2) of `predict_proba`, columns in sorted order of the labels: the dial sees their
    log-odds, and `margin_of_probability` makes those of new rows. `groups` (n,) says which rows belong together (a
    patient's): they stay on one side of every split and are resampled as wholes. `sample_weight` (n,) is how much each
    row counts. `spent` says why these rows cannot certify, where they cannot: they chose the epochs, or their scores
    are of several models. `plain` is the λ of the plain loss, where it is known: of equally good λ the one nearest to
    it is taken, else the most central.
    `evidence` is a dial of other rows at the same λ: where these certify, those choose.

    >>> dial = Dial([0, 0, 1, 0, 1] * 30, [-2.0, -1.0, 1.0, 0.5, 2.0] * 30)
    >>> point = dial.tune(maximize="f1")
    >>> point.predict([0.4, 0.9]).tolist()
    [False, True]
    """

    def __init__(
        self,
        y: ArrayLike,
        scores: ArrayLike | Scores,
        lams: Iterable[Mapping[str, float] | Named] | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        spent: str = "",
        plain: Mapping[str, float] | Named | None = None,
        evidence: "Dial | None" = None,
        pos_label: Any = None,
    ) -> None:
        self.y, side = coded(y, pos_label)
        held: Any = scores if isinstance(scores, Scores) else array_of(scores)
        if not isinstance(scores, Scores) and held.ndim == 1:
            held = held[:, None]
        if lams is None and held.shape[-1] != 1:
            held = margins_of_columns(held, side)
        self.scores: FloatArray | Scores = held
        self.groups: NDArray[Any] | None = None if groups is None else np.asarray(groups)
        self.sample_weight: FloatArray | None = None if sample_weight is None else np.asarray(sample_weight)
        named = ({},) if lams is None else tuple(_as_dict(lam) for lam in lams)
        plain = {} if plain is None else _as_dict(plain)
        self._surface = Surface(self.y, held, named, self.sample_weight, self.groups, plain)
        kept = self._surface.scores
        if isinstance(kept, np.ndarray) and kept.size and not np.isfinite([kept.min(), kept.max()]).all():
            require_finite(kept.T)
        self.spent = spent
        self.rows: FloatArray | None = None  # a number for each raw row, where a face has them
        self.model: Model | None = None  # what gave the scores, where it is at hand
        self._choosing = None if evidence is None else evidence.surface
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
        """The dial of any fitted classifier with `decision_function` or `predict_proba`, on data it has not seen.

        Positive is `pos_label`, or else the rarer label of y; a tie or doubt is a warning that says which was taken.
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
        """Labels and scores as everything below the dial takes them, without samples of no weight."""
        return self._surface

    @property
    def points(self) -> Mapping[str, OperatingPoint]:
        """The operating points that `tune`, `adapt`, `refer` and `cap_alerts` gave so far, by name."""
        return MappingProxyType(self._points)

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
        """The λ and threshold that serve an aim best, kept under `name`.

        With a `confidence` the bounds hold on new data with that probability, and the point carries the certificate:
        λ is chosen on one part of the rows (or on the `evidence` of this dial), the threshold on another; `by` (n,)
        asks for the recall in every part. Of several certificates each holds with that probability, not all of them at
        once; where each is asked for with `jointly` their number, all of them do.

        The objective is spelled out, or given as one: `tune(objective=Objective(...))`. The point's probabilities are
        calibrated on these data: `calibration` is a kind (temperature, platt, beta, isotonic), "auto" for the one of
        least cross-fitted log loss (none among them), or None for none. All are strictly increasing, and none
        changes a label.
        """
        require_name(name)
        spelled = (maximize, minimize, subject_to, cost_fn, cost_fp, prevalence)
        if objective is None:
            objective = Objective(maximize, minimize, subject_to or {}, cost_fn, cost_fp, prevalence)
        elif any(part is not None for part in spelled):
            raise ValueError("give aim, or maximize, minimize and so on; not both.")
        if confidence is not None:
            self._require_fresh()
            point = certified_point(
                self._surface,
                objective,
                confidence,
                name,
                by,
                calibration=calibration,
                jointly=jointly,
                evidence=self._choosing,
            )
        elif by is not None:
            remedy = "Give {confidence=0.95}; to look only, use by_subgroup."
            raise InputError("by", "asks for a certified floor in each subgroup", remedy=remedy)
        elif jointly != 1:
            raise InputError("jointly", "splits the risk of a confidence", remedy="Give {confidence=0.95} too.")
        else:
            point = told(self._surface, objective, choose(self._surface, objective, name, calibration=calibration))
        return self._kept(point)

    def envelope(self) -> Envelope:
        """The ROC envelope over every λ and threshold: all that adapting needs."""
        return envelope(self._surface)

    def verdict(
        self, objectives: Sequence[Objective] = OBJECTIVES, plain: Mapping[str, float] | None = None
    ) -> Verdict:
        """Does moving λ beat moving only the threshold, at the λ of best AUC and at that of the plain loss?"""
        known = dict(self._surface.plain)
        if plain is None and self._surface.n_lams > 1 and known in self._surface.lams:
            plain = known
        return verdict(self._surface, objectives, plain=plain)

    def compare(self, other: "Dial", objectives: Sequence[Objective | str] = OBJECTIVES) -> Verdict:
        """What this model gains over another on the very same rows, paired, for all aims or metrics at once."""
        if not isinstance(other, Dial):
            raise ValueError(
                f"compare takes another Dial of the same rows; got {type(other).__name__}. Dial(y, scores) makes one "
                "of scores, Dial.of(classifier, X, y) of a model."
            )
        return compare(self._surface, other.surface, objectives)

    @overload
    def metrics(self, metrics: Sequence[str | Metric] = ..., point: None = None) -> dict[str, tuple[Estimate, ...]]: ...

    @overload
    def metrics(self, metrics: Sequence[str | Metric], point: str | OperatingPoint) -> dict[str, Estimate]: ...

    @overload
    def metrics(self, *, point: str | OperatingPoint) -> dict[str, Estimate]: ...

    def metrics(
        self, metrics: Sequence[str | Metric] = PAPER_METRICS, point: str | OperatingPoint | None = None
    ) -> dict[str, Estimate] | dict[str, tuple[Estimate, ...]]:
        """Figures with 95 % intervals: at every λ, name -> one `Estimate` each; or at a point, name -> `Estimate`.

        At a point, figures at a threshold are at its own, figures of the probabilities of its calibrated ones, and all
        at the prevalence it was made for, where that is another. At every λ, a figure that needs a threshold is at a
        margin of 0, and probabilities are the scores' own.
        """
        reason = statable(*self._surface.samples.units)
        if reason is not None:
            raise ValueError(reason)
        if point is None:
            return estimates(self._surface, metrics)
        chosen = self._point(point)
        return figures_of(self._surface_at(chosen), chosen, metrics)


def _as_dict(lam: Any) -> Any:
    return lam.as_dict() if hasattr(lam, "as_dict") else lam
