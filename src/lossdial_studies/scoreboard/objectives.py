"""The objectives, and the figures that scores reach for them: one function for every rival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lossdial.dial import Objective, Surface
from lossdial.dial.calibration import calibrated, calibrations
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.selection import select


@dataclass(frozen=True)
class BoardObjective:
    """A figure that rivals are ranked by."""

    name: str
    title: str
    greater_is_better: bool = True


#: a missed positive's cost, in false alarms, and the share of positives where the model is used
COSTS: Final = tuple((ratio, share) for ratio in (5.0, 20.0, 100.0) for share in (0.01, 0.05, 0.2))

#: nine, the expected cost counting as one
OBJECTIVES: Final = (
    BoardObjective("auc", "AUC"),
    BoardObjective("average_precision", "AP"),
    BoardObjective("brier", "Brier", False),
    BoardObjective("log_loss", "log loss", False),
    BoardObjective("f1", "F1"),
    BoardObjective("balanced_accuracy", "bal. acc."),
    BoardObjective("precision_at_recall@0.9", "prec. at rec. .9"),
    BoardObjective("precision_at_recall@0.99", "prec. at rec. .99"),
    BoardObjective("cost", "cost", False),
)
_CALIBRATION: Final = "auto"  # as a point of the dial has it: the kind of least cross-fitted log loss, or none


def cost_name(ratio: float, share: float) -> str:
    return f"cost@{ratio:g}:{share:g}"


def objectives() -> dict[str, Objective]:
    """What the dial is asked for, by the name of the figure."""
    return {
        **{name: Objective(maximize=name) for name in ("auc", "average_precision", "f1", "balanced_accuracy")},
        **{name: Objective(minimize=name) for name in ("brier", "log_loss")},
        **{
            f"precision_at_recall@{r:g}": Objective(maximize="precision", subject_to={"recall": r}) for r in (0.9, 0.99)
        },
        **{
            cost_name(ratio, share): Objective(minimize="expected_cost", cost_fn=ratio, cost_fp=1.0, prevalence=share)
            for ratio, share in COSTS
        },
    }


@dataclass(frozen=True, eq=False)
class Scored:
    """What a rival hands in."""

    validation: NDArray[np.floating]  # margins (n, m) at m settings
    test: NDArray[np.floating]  # (n', m)
    trainings: int  # models that were fitted
    y: NDArray[np.int64] | None = None  # of validation rows, where they are not the cell's own
    thresholds: Mapping[str, float] = field(default_factory=dict)  # that the rival chose by itself; m is then 1


def figures(y: NDArray[np.int64], y_test: NDArray[np.int64], scored: Scored) -> dict[str, float]:
    """Every figure on test rows, at the setting and threshold that the dial chooses for it on validation rows y (n,).

    `recall@0.9` is what the threshold for precision at that recall reached. `cost` is the mean over the nine costs,
    each as a share of the cost of calling everybody positive, or nobody, whichever is less.
    """
    lams = [{"setting": float(i)} for i in range(scored.validation.shape[1])]
    chosen_on = Surface(y if scored.y is None else scored.y, scored.validation, lams)
    tested = Surface(y_test, scored.test, lams)
    found: dict[str, float] = {}
    for name, objective in objectives().items():
        choice = select(chosen_on, objective, _CALIBRATION)
        one = tested.at(choice.index)
        threshold = scored.thresholds.get(name, choice.threshold)
        if name in ("brier", "log_loss"):
            calibration = calibrations(chosen_on.at(choice.index), _CALIBRATION)
            found[name] = float(calibrated(one, calibration).metrics([name])[name][0])
        elif name.startswith("precision_at_recall@"):
            at = one.metrics(["precision", "recall"], threshold)
            found[name] = float(at["precision"][0])
            found[f"recall@{name.partition('@')[2]}"] = float(at["recall"][0])
        else:
            metric = objective.unfolded(tested.prevalence)[0]
            found[name] = float(one.metrics([metric], threshold)[metric.name][0])
    shares = [found[cost_name(ratio, share)] / min(share * ratio, 1 - share) for ratio, share in COSTS]
    return found | {"cost": float(np.mean(shares))}


def margins(probability: NDArray[np.floating]) -> FloatArray:
    """Log-odds of probabilities, finite."""
    p = np.clip(np.asarray(probability, dtype=np.float64), 1e-9, 1 - 1e-9)
    return np.asarray(np.log(p) - np.log1p(-p))
