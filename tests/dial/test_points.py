import json
import math

import numpy as np
import pytest

from lossdial.base.errors import InputError
from lossdial.dial.calibration import Platt
from lossdial.dial.choice.objective import Objective
from lossdial.dial.points import Estimate, OperatingPoint


def make(threshold=0.1):
    return OperatingPoint(
        name="screening",
        lam={"gamma": 0.1, "tau": 1 / 3},
        threshold=threshold,
        description="maximise precision subject to recall >= 0.99",
        metrics={"recall": Estimate(0.99, 0.97, 1.0), "precision": Estimate(1 / 7, 0.1, math.nan)},
        n_positive=52,
        n_negative=2185,
        feasible=False,
        note="no point",
        crossfit={"precision": Estimate(0.13, 0.1, 0.2)},
        calibration=Platt(0.5, 0.1),
        prevalence=0.002,
        shift=-1.5,
        objective=Objective(maximize="precision", subject_to={"recall": 0.99}, prevalence=0.002),
        missed=("recall 0.97 instead of recall >= 0.99",),
    )


@pytest.mark.parametrize("threshold", [0.1, -3e-8, math.inf, -math.inf])
def test_json_round_trip_is_exact(threshold):
    point = make(threshold)
    text = json.dumps(point.to_json(), allow_nan=False)
    again = OperatingPoint.from_json(json.loads(text))
    assert repr(again) == repr(point)
    assert json.dumps(again.to_json()) == text


def test_predict_is_a_strict_comparison_in_the_precision_of_the_scores():
    threshold = float(np.float32(0.1))
    score = np.float32([0.1, np.nextafter(np.float32(0.1), np.float32(1)), 0.0])
    assert make(threshold).predict(score).tolist() == [False, True, False]
    assert not make(math.inf).predict(score).any()
    # float64 tells scores apart that are the same float32.
    assert make(0.1).predict(np.array([0.1, np.nextafter(0.1, 1)])).tolist() == [False, True]
    assert make(0.1).predict(np.float32([0.1])).tolist() == [True]
    assert bool(make(0.1).predict(0.2))


def test_the_threshold_is_a_probability_too():
    point = make(2.0)
    expected = 1 / (1 + math.exp(-(0.5 * 2.0 + 0.1 - 1.5)))  # calibrated and shifted
    assert point.threshold_probability == point.probability([2.0])[0] == pytest.approx(expected)
    plain = OperatingPoint("plain", {}, 0.0, "", {}, 1, 1)
    assert plain.probability(np.float32([0.0])).dtype == np.float32
    assert make(math.inf).threshold_probability == 1
    assert make(-math.inf).threshold_probability == 0
    assert point.model_probability == pytest.approx(1 / (1 + math.exp(-2.0)))
    assert "threshold 2 (the model's own probability 0.881, calibrated 0.401 at prevalence" in str(point)
    assert (make(math.inf).model_probability, make(-math.inf).model_probability) == (1, 0)
    assert "threshold inf;" in str(make(math.inf))
    assert "NOT MET where it was not chosen: recall 0.97 instead of recall >= 0.99" in str(point)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": math.nan}, "point 'screening': 'threshold' must be a number; got nan"),
        ({"threshold": "nan"}, "'threshold' must be a number; got 'nan'"),
        ({"threshold": [0.1]}, "'threshold' must be a number"),
        ({"threshold": True}, "'threshold' must be a number; got True"),
        ({"lam": [1, 2]}, "'lam' must be an object of names and values"),
        ({"lam": {"tau": math.nan}}, "'tau' must be a number; got nan"),
        ({"lam": {"tau": {"tau": 1}}}, "'tau' must be a number"),
        ({"name": 3}, "operating point: 'name' must be a text; got 3"),
        ({"n_positive": -1}, "'n_positive' must be a whole number, 0 or more; got -1"),
        ({"n_negative": 2.5}, "'n_negative' must be a whole number"),
        ({"feasible": "yes"}, "'feasible' must be true or false; got 'yes'"),
        ({"metrics": {"recall": 0.5}}, "'recall' of 'metrics' must be a list of value, low and high"),
        ({"crossfit": {"recall": [1, 2]}}, "'recall' of 'crossfit' must be a list of value"),
        ({"crossfit": {"recall": [1, 2, "x"]}}, "'recall' of 'crossfit' must be a number; got 'x'"),
        ({"calibration": {"kind": "platt"}}, "'calibration' lacks 'slope'"),
        ({"aim": {"maximize": "f1"}}, "'aim': 'minimize' is missing"),
        ({"prevalence": 1.0}, "'prevalence' must lie strictly between 0 and 1"),
        ({"shift": "inf"}, "'shift' must be finite"),
        ({"missed": [1]}, "'missed' must be a text"),
    ],
)
def test_json_that_was_altered_is_named(change, message):
    with pytest.raises(InputError, match=message):
        OperatingPoint.from_json(make().to_json() | change)
    with pytest.raises(InputError, match="operating point must be an object"):
        OperatingPoint.from_json([change])


@pytest.mark.parametrize("key", sorted(set(make().to_json()) - {"model_probability", "threshold_probability"}))
def test_a_missing_key_is_named(key):
    data = make().to_json()
    del data[key]
    with pytest.raises(ValueError, match=f"{key!r} is missing"):
        OperatingPoint.from_json(data)
