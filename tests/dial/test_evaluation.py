import json

import numpy as np
import pytest

from lossdial.dial import Dial, Objective, evaluate_points
from lossdial.dial.metrics.registry import BRIER, FPR, RECALL, expected_cost
from lossdial.dial.points import OperatingPoint

LAMS = [{"tau": float(k)} for k in range(3)]


def make(seed, n_positive=100, n_negative=900):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    return y, 3 * (rng.normal(size=(y.size, 3)) + np.array([1.5, 1.7, 1.9]) * y[:, None]) + 1


@pytest.fixture(scope="module")
def points():
    dial = Dial(*make(0), LAMS)
    dial.tune(maximize="f1", name="balance")
    dial.tune(maximize="recall", subject_to={"fpr": 0.1, "brier": 0.07}, name="capped")
    dial.tune(minimize="expected_cost", cost_fn=20, cost_fp=1, name="cost")
    dial.adapt(prevalence=0.01, cost_fn=500, cost_fp=1, name="clinic")
    return dict(dial.points)


@pytest.fixture(scope="module")
def evaluations(points):
    y, scores = make(1)
    return {e.name: e for e in evaluate_points(Dial(y, scores, LAMS), list(points.values()), resamples=100)}


def test_counts_figures_and_objective(points, evaluations):
    y, scores = make(1)
    for name, point in points.items():
        predicted = point.predict(scores[:, LAMS.index(point.lam)])
        counts = evaluations[name].counts
        expected = [(predicted & (y == 1)).sum(), (predicted & (y == 0)).sum(), (~predicted & (y == 1)).sum()]
        assert [counts.tp, counts.fp, counts.fn] == expected
        assert counts.tp + counts.fp + counts.fn + counts.tn == 1000
        assert evaluations[name].description == point.description
        recall = evaluations[name].figures["recall"]
        assert recall.value == pytest.approx(counts.tp / 100)
        assert recall.low < recall.value < recall.high


def test_bounds_are_judged_on_these_samples(points, evaluations):
    assert (evaluations["balance"].bounds, evaluations["balance"].bounds_met) == ((), None)
    y, scores = make(1)
    checks = {check.bound.metric.name: check for check in evaluations["capped"].bounds}
    score = scores[:, LAMS.index(points["capped"].lam)]
    assert checks["fpr"].estimate.value == pytest.approx(FPR(y, score, points["capped"].threshold))
    assert checks["fpr"].met == (checks["fpr"].estimate.value <= 0.1)
    assert checks["brier"].estimate.value == pytest.approx(BRIER(y, points["capped"].margin(score)))
    assert checks["brier"].bound.value == 0.07
    assert evaluations["capped"].bounds_met == all(check.met for check in checks.values())


def test_costs_are_at_the_prevalence_of_the_objective(points, evaluations):
    y, scores = make(1)
    assert evaluations["balance"].expected_cost is None
    point = points["cost"]
    cost = expected_cost(20, 1, np.mean(y))(y, scores[:, LAMS.index(point.lam)], point.threshold)
    assert evaluations["cost"].expected_cost.value == pytest.approx(cost)
    clinic = points["clinic"]
    score = scores[:, LAMS.index(clinic.lam)]
    evaluation = evaluations["clinic"]
    assert evaluation.prevalence == pytest.approx(0.01)
    assert evaluation.expected_cost.value == pytest.approx(expected_cost(500, 1, 0.01)(y, score, clinic.threshold))
    tpr, fpr = RECALL(y, score, clinic.threshold), FPR(y, score, clinic.threshold)
    assert evaluation.figures["precision"].value == pytest.approx(0.01 * tpr / (0.01 * tpr + 0.99 * fpr))
    # Probabilities at 1 %, judged where 1 % are positive, are right; judged here they would not be.
    assert evaluation.figures["calibration_error@15"].value < 0.01


def test_a_point_read_back_is_judged_alike_in_plain_json(points, evaluations):
    again = OperatingPoint.from_json(json.loads(json.dumps(points["capped"].to_json())))
    (other,) = evaluate_points(Dial(*make(1), LAMS), [again], resamples=100)
    data = json.loads(json.dumps(other.to_json(), allow_nan=False))
    assert data == evaluations["capped"].to_json()
    assert data["aim"]["subject_to"] == {"fpr": 0.1, "brier": 0.07}


def test_too_few_samples_state_no_figure(points):
    y, scores = make(2)
    few = np.r_[:1, 100:140]
    (evaluation,) = evaluate_points(Dial(y[few], scores[few], LAMS), [points["capped"]])
    assert (evaluation.figures, evaluation.bounds_met) == ({}, None)
    assert "1 positive" in evaluation.note
    assert evaluation.counts.tp + evaluation.counts.fn == 1


def test_the_dials_own_points_unless_given():
    dial = Dial(*make(0), LAMS)
    dial.tune(objective=Objective(maximize="f1"), name="a")
    weight = np.random.default_rng(0).exponential(size=1000)
    assert [e.name for e in evaluate_points(dial, resamples=20)] == ["a"]
    (weighted,) = evaluate_points(Dial(*make(0), LAMS, sample_weight=weight), list(dial.points.values()), resamples=20)
    counts = weighted.counts
    assert counts.tp + counts.fp + counts.fn + counts.tn == pytest.approx(weight.sum())
    with pytest.raises(ValueError, match="point 'a'"):
        evaluate_points(Dial(*make(0), [{"phi": float(k)} for k in range(3)]), list(dial.points.values()))
