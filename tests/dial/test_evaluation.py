import json

import numpy as np
import pytest

from lossdial.dial import Dial, Objective, evaluate_points
from lossdial.dial.metrics import functions as metrics
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
def found(points):
    y, scores = make(1)
    return {e.name: e for e in evaluate_points(Dial(y, scores, LAMS), list(points.values()), resamples=100)}


def test_counts_figures_and_aim(points, found):
    y, scores = make(1)
    for name, point in points.items():
        predicted = point.predict(scores[:, LAMS.index(point.lam)])
        counts = found[name].counts
        expected = [(predicted & (y == 1)).sum(), (predicted & (y == 0)).sum(), (~predicted & (y == 1)).sum()]
        assert [counts.tp, counts.fp, counts.fn] == expected
        assert counts.tp + counts.fp + counts.fn + counts.tn == 1000
        assert found[name].description == point.description
        recall = found[name].figures["recall"]
        assert recall.value == pytest.approx(counts.tp / 100)
        assert recall.low < recall.value < recall.high
    assert str(found["balance"].counts).startswith("tp ")


def test_floors_are_judged_here(points, found):
    assert found["balance"].floors == ()
    assert found["balance"].floors_met is None
    floors = {floor.metric: floor for floor in found["capped"].floors}
    score = make(1)[1][:, LAMS.index(points["capped"].lam)]
    y = make(1)[0]
    assert floors["fpr"].found.value == pytest.approx(metrics.fpr(y, score, points["capped"].threshold))
    assert floors["fpr"].met == (floors["fpr"].found.value <= 0.1)
    assert floors["brier"].found.value == pytest.approx(metrics.brier(y, points["capped"].margin(score)))
    assert floors["brier"].bound == 0.07
    assert found["capped"].floors_met == all(floor.met for floor in floors.values())
    assert str(floors["fpr"]).startswith("fpr <= 0.1: ")


def test_costs_are_at_the_prevalence_of_the_aim(points, found):
    y, scores = make(1)
    assert found["balance"].expected_cost is None
    point = points["cost"]
    cost = metrics.expected_cost(y, scores[:, LAMS.index(point.lam)], 20, 1, threshold=point.threshold)
    assert found["cost"].expected_cost.value == pytest.approx(cost)
    clinic = points["clinic"]
    score = scores[:, LAMS.index(clinic.lam)]
    there = found["clinic"]
    assert there.prevalence == pytest.approx(0.01)
    assert there.expected_cost.value == pytest.approx(metrics.expected_cost(y, score, 500, 1, 0.01, clinic.threshold))
    tpr, fpr = metrics.recall(y, score, clinic.threshold), metrics.fpr(y, score, clinic.threshold)
    assert there.figures["precision"].value == pytest.approx(0.01 * tpr / (0.01 * tpr + 0.99 * fpr))
    # Probabilities at 1 %, judged where 1 % are positive, are right; judged here they would not be.
    assert there.figures["calibration_error@15"].value < 0.01


def test_json_is_plain(found):
    data = json.loads(json.dumps([e.to_json() for e in found.values()], allow_nan=False))
    assert data[1]["aim"]["subject_to"] == {"fpr": 0.1, "brier": 0.07}
    assert set(data[0]["counts"]) == {"tp", "fp", "fn", "tn"}


def test_a_point_read_back_is_judged_alike(points, found):
    again = OperatingPoint.from_json(json.loads(json.dumps(points["capped"].to_json())))
    (other,) = evaluate_points(Dial(*make(1), LAMS), [again], resamples=100)
    assert other.to_json() == found["capped"].to_json()


def test_too_few_samples_state_no_figure(points):
    y, scores = make(2)
    few = np.r_[:1, 100:140]
    (found,) = evaluate_points(Dial(y[few], scores[few], LAMS), [points["capped"]])
    assert found.figures == {}
    assert found.floors_met is None
    assert found.note == "no figure can be stated on 1 positive: at least 5 are needed."
    assert found.counts.tp + found.counts.fn == 1


def test_the_dials_own_points_unless_given():
    dial = Dial(*make(0), LAMS)
    dial.tune(objective=Objective(maximize="f1"), name="a")
    weight = np.random.default_rng(0).exponential(size=1000)
    assert [e.name for e in evaluate_points(dial, resamples=20)] == ["a"]
    (weighted,) = evaluate_points(Dial(*make(0), LAMS, sample_weight=weight), list(dial.points.values()), resamples=20)
    counts = weighted.counts
    assert counts.tp + counts.fp + counts.fn + counts.tn == pytest.approx(weight.sum())
    with pytest.raises(ValueError, match="point 'a' has λ"):
        evaluate_points(Dial(*make(0), [{"phi": float(k)} for k in range(3)]), list(dial.points.values()))
