"""What is wanted of scores, and what they are worth: one function for every rival.

The setting (λ, C, a class weight, …) and the threshold are chosen on validation rows by the dial, calibrations are
fitted there, and every figure is of test rows.
"""

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

__all__ = ["COSTS", "OBJECTIVES", "Aim", "Scored", "cost_name", "figures", "objectives"]


@dataclass(frozen=True)
class Aim:
    """A figure that rivals are ranked by."""

    name: str
    title: str
    greater_is_better: bool = True


#: a missed positive's cost, in false alarms, and the share of positives where the model is used
COSTS: Final = tuple((ratio, share) for ratio in (5.0, 20.0, 100.0) for share in (0.01, 0.05, 0.2))

#: nine, the expected cost counting as one
OBJECTIVES: Final = (
    Aim("auc", "AUC"),
    Aim("average_precision", "AP"),
    Aim("brier", "Brier", False),
    Aim("log_loss", "log loss", False),
    Aim("f1", "F1"),
    Aim("balanced_accuracy", "bal. acc."),
    Aim("precision_at_recall@0.9", "prec. at rec. .9"),
    Aim("precision_at_recall@0.99", "prec. at rec. .99"),
    Aim("cost", "cost", False),
)
_AT_RECALL: Final = (0.9, 0.99)
_CALIBRATION: Final = "auto"  # as a point of the dial has it: the kind of least cross-fitted log loss, or none


def cost_name(ratio: float, share: float) -> str:
    """
    >>> cost_name(20.0, 0.05)
    'cost@20:0.05'
    """
    return f"cost@{ratio:g}:{share:g}"


def objectives() -> dict[str, Objective]:
    """What the dial is asked for, by the name of the figure."""
    found = {name: Objective(maximize=name) for name in ("auc", "average_precision", "f1", "balanced_accuracy")}
    found |= {name: Objective(minimize=name) for name in ("brier", "log_loss")}
    for recall in _AT_RECALL:
        objective = Objective(maximize="precision", subject_to={"recall": recall})
        found[f"precision_at_recall@{recall:g}"] = objective
    for ratio, share in COSTS:
        found[cost_name(ratio, share)] = Objective(
            minimize="expected_cost", cost_fn=ratio, cost_fp=1.0, prevalence=share
        )
    return found


@dataclass(frozen=True, eq=False)
class Scored:
    """What a rival hands in.

    validation (n, m), test (n', m): margins at m settings. y: labels of the validation rows, where they are not the
    cell's own. thresholds: for aims whose threshold the rival chooses by itself (m is then 1). trainings: models
    fitted to get there.
    """

    validation: NDArray[np.floating]
    test: NDArray[np.floating]
    trainings: int
    y: NDArray[np.int64] | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


def figures(y: NDArray[np.int64], y_test: NDArray[np.int64], scored: Scored) -> dict[str, float]:
    """Every figure on test rows, at the setting and threshold chosen on validation rows y (n,) for that very figure.

    `recall@0.9` and `recall@0.99` say what the thresholds for precision at those recalls reached. `cost` is the mean
    over the nine costs, each as a share of what deciding without any model costs there.
    """
    lams = [{"setting": float(i)} for i in range(scored.validation.shape[1])]
    chosen_on = Surface(y if scored.y is None else scored.y, scored.validation, lams)
    there = Surface(y_test, scored.test, lams)
    found: dict[str, float] = {}
    for name, objective in objectives().items():
        choice = select(chosen_on, objective, _CALIBRATION)
        one = there.at(choice.index)
        threshold = scored.thresholds.get(name, choice.threshold)
        if name in ("brier", "log_loss"):
            calibration = calibrations(chosen_on.at(choice.index), _CALIBRATION)
            found[name] = float(calibrated(one, calibration).metrics([name])[name][0])
        elif name.startswith("precision_at_recall@"):
            at = one.metrics(["precision", "recall"], threshold)
            found[name] = float(at["precision"][0])
            found[f"recall@{name.partition('@')[2]}"] = float(at["recall"][0])
        else:
            metric = objective.unfolded(there.prevalence)[0]
            found[name] = float(one.metrics([metric], threshold)[metric.name][0])
    found["cost"] = float(np.mean([found[cost_name(*at)] / _without_model(*at) for at in COSTS]))
    return found


def _without_model(ratio: float, share: float) -> float:
    """The expected cost of calling everybody positive, or nobody, whichever is less."""
    return min(share * ratio, 1 - share)


def margins(probability: NDArray[np.floating]) -> FloatArray:
    """Log-odds of probabilities, finite."""
    p = np.clip(np.asarray(probability, dtype=np.float64), 1e-9, 1 - 1e-9)
    return np.asarray(np.log(p) - np.log1p(-p))
