import json

import pytest

from lossdial.base.errors import InputError
from lossdial.dial.choice.objective import Objective
from lossdial.dial.metrics.registry import as_metric, best, f_beta


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({}, "maximize"),
        ({"maximize": "auc", "minimize": "brier"}, "maximize"),
        ({"maximize": "brier"}, "maximize"),
        ({"minimize": "recall"}, "minimize"),
        ({"maximize": "f2"}, "maximize"),
        ({"maximize": "precision", "subject_to": {"recal": 0.9}}, "subject_to"),
        ({"maximize": "precision", "subject_to": {"recall": 1.2}}, "subject_to"),
        ({"maximize": "recall", "subject_to": {"fpr": -1}}, "subject_to"),
        ({"minimize": "expected_cost"}, "cost_fn"),
        ({"minimize": "expected_cost", "cost_fn": 0, "cost_fp": 1}, "cost_fn"),
        ({"minimize": "expected_cost", "cost_fn": 1, "cost_fp": -1}, "cost_fp"),
        ({"minimize": "expected_cost", "cost_fn": 1, "cost_fp": 1, "prevalence": 1.5}, "prevalence"),
        ({"maximize": "f1", "cost_fn": 1}, "cost_fn"),
        ({"maximize": "f1", "prevalence": 0}, "prevalence"),
        ({"maximize": "auc", "prevalence": 0.1}, "prevalence"),
    ],
)
def test_impossible_objectives_are_refused(arguments, argument):
    with pytest.raises(InputError) as raised:
        Objective(**arguments)
    assert raised.value.argument == argument


OBJECTIVES = [
    Objective(maximize="f1"),
    Objective(maximize="precision", subject_to={"recall": 0.95, "fpr": 0.2}),
    Objective(minimize="expected_cost", cost_fn=500, cost_fp=1, prevalence=0.002),
    Objective(maximize=as_metric("auc")),
    Objective(maximize="max_f1", prevalence=0.1),
]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_can_be_written_down(objective):
    again = Objective.from_json(json.loads(json.dumps(objective.to_json(), allow_nan=False)))
    assert str(again) == str(objective)
    assert again.to_json() == objective.to_json()
    assert again.unfolded(0.3)[0].name == objective.unfolded(0.3)[0].name


def test_a_function_of_ones_own_cannot():
    assert Objective(maximize=lambda y, score: float(score[y == 1].mean())).to_json() is None
    assert Objective(maximize=best(f_beta(3), name="mine")).to_json() is None


def test_bounds_may_be_none_and_are_ones_own():
    bounds = {"recall": 0.9}
    objective = Objective(maximize="precision", subject_to=bounds)
    bounds["recall"] = 0.1
    assert objective.subject_to == {"recall": 0.9}
    assert Objective(maximize="f1", subject_to=None).subject_to == {}


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"maximize": 3}, "'maximize'"),
        ({"subject_to": ["recall"]}, "'subject_to'"),
        ({"subject_to": {"recall": "high"}}, "'recall'"),
        ({"subject_to": {"recal": 0.9}}, "subject_to"),
        ({"cost_fn": float("nan")}, "'cost_fn'"),
        ({"prevalence": 2}, "prevalence"),
        ({"minimize": None, "maximize": None}, "maximize"),
    ],
)
def test_what_was_altered_is_named(change, fragment):
    data = Objective(maximize="precision", subject_to={"recall": 0.9}).to_json() | change
    with pytest.raises(ValueError, match=f"objective.*{fragment}"):
        Objective.from_json(data)
    with pytest.raises(ValueError, match=r"objective.*'minimize'"):
        Objective.from_json({"maximize": "f1"})
