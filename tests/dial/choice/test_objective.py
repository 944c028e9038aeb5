import json

import pytest

from lossdial.dial.choice.objective import Objective
from lossdial.dial.metrics.registry import Goal, as_metric, best, f_beta


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of maximize and minimize"),
        ({"maximize": "auc", "minimize": "brier"}, "exactly one"),
        ({"maximize": "brier"}, "use minimize='brier'"),
        ({"minimize": "recall"}, "use maximize='recall'"),
        ({"maximize": "f2"}, "maximize 'f2' is unknown"),
        (
            {"maximize": "precision", "subject_to": {"recal": 0.9}},
            "constraint 'recal' is unknown. Did you mean 'recall'",
        ),
        ({"maximize": "precision", "subject_to": {"recall": 1.2}}, r"floor on recall .* \[0, 1\]; got 1.2"),
        ({"maximize": "recall", "subject_to": {"fpr": -1}}, r"cap on fpr .* got -1"),
        ({"minimize": "expected_cost"}, "needs cost_fn and cost_fp"),
        ({"minimize": "expected_cost", "cost_fn": 0, "cost_fp": 1}, "cost_fn must be positive"),
        ({"minimize": "expected_cost", "cost_fn": 1, "cost_fp": -1}, "cost_fp must be positive"),
        ({"minimize": "expected_cost", "cost_fn": 1, "cost_fp": 1, "prevalence": 1.5}, "prevalence must lie strictly"),
        ({"maximize": "f1", "cost_fn": 1}, "belong to minimize='expected_cost'"),
        ({"maximize": "f1", "prevalence": 0}, "prevalence must lie strictly"),
        ({"maximize": "auc", "prevalence": 0.1}, "prevalence moves figures at a threshold .* not auc"),
    ],
)
def test_impossible_objectives_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Objective(**arguments)


OBJECTIVES = [
    Objective(maximize="f1"),
    Objective(maximize="precision", subject_to={"recall": 0.95, "fpr": 0.2}),
    Objective(minimize="expected_cost", cost_fn=500, cost_fp=1, prevalence=0.002),
    Objective(maximize=as_metric("auc")),
    Objective(maximize="max_f1", prevalence=0.1),
]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_aim_can_be_written_down(objective):
    again = Objective.from_json(json.loads(json.dumps(objective.to_json(), allow_nan=False)))
    assert str(again) == str(objective)
    assert again.to_json() == objective.to_json()
    assert again.unfolded(0.3)[0].name == objective.unfolded(0.3)[0].name


def test_a_function_of_ones_own_cannot():
    assert Objective(maximize=lambda y, score: float(score[y == 1].mean())).to_json() is None
    assert Objective(maximize=best(Goal(f_beta(3)), "mine")).to_json() is None


def test_bounds_may_be_none_and_are_ones_own():
    bounds = {"recall": 0.9}
    objective = Objective(maximize="precision", subject_to=bounds)
    bounds["recall"] = 0.1
    assert objective.subject_to == {"recall": 0.9}
    assert Objective(maximize="f1", subject_to=None).subject_to == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"maximize": 3}, "aim: 'maximize' must be a text; got 3"),
        ({"subject_to": ["recall"]}, "aim: 'subject_to' must be an object"),
        ({"subject_to": {"recall": "high"}}, "'recall' must be a number; got 'high'"),
        ({"subject_to": {"recal": 0.9}}, "aim: constraint 'recal' is unknown"),
        ({"cost_fn": float("nan")}, "'cost_fn' must be a number; got nan"),
        ({"prevalence": 2}, "aim: prevalence must lie strictly"),
    ],
)
def test_what_was_altered_is_named(change, message):
    data = Objective(maximize="precision", subject_to={"recall": 0.9}).to_json() | change
    with pytest.raises(ValueError, match=message):
        Objective.from_json(data)


def test_a_missing_key_is_named():
    data = Objective(maximize="f1").to_json()
    del data["minimize"]
    with pytest.raises(ValueError, match="aim: 'minimize' is missing"):
        Objective.from_json(data)
