import json
import math

import numpy as np
import pytest

from lossdial.dial.calibration import Platt
from lossdial.dial.points import Estimate, OperatingPoint


def make(threshold=0.1):
    return OperatingPoint(
        name="screening",
        lam={"gamma": 0.1, "tau": 1 / 3},
        threshold=threshold,
        objective="maximise precision subject to recall >= 0.99",
        metrics={"recall": Estimate(0.99, 0.97, 1.0), "precision": Estimate(1 / 7, 0.1, math.nan)},
        n_positive=52,
        n_negative=2185,
        feasible=False,
        note="no point",
        crossfit={"precision": Estimate(0.13, 0.1, 0.2)},
        calibration=Platt(0.5, 0.1),
        prevalence=0.002,
        shift=-1.5,
    )


def test_probability_is_calibrated_and_shifted():
    expected = 1 / (1 + math.exp(-(0.5 * 2.0 + 0.1 - 1.5)))
    assert make().probability([2.0])[0] == pytest.approx(expected)
    plain = OperatingPoint("plain", {}, 0.0, "", {}, 1, 1)
    assert plain.probability(np.float32([0.0])).dtype == np.float32
    assert OperatingPoint.from_json(plain.to_json()) == plain


@pytest.mark.parametrize("threshold", [0.1, -3e-8, math.inf, -math.inf])
def test_json_round_trip_is_exact(threshold):
    point = make(threshold)
    text = json.dumps(point.to_json(), allow_nan=False)
    again = OperatingPoint.from_json(json.loads(text))
    assert repr(again) == repr(point)
    assert json.dumps(again.to_json()) == text


def test_predict_is_a_strict_comparison_in_float32():
    threshold = float(np.float32(0.1))
    score = np.float32([0.1, np.nextafter(np.float32(0.1), np.float32(1)), 0.0])
    assert make(threshold).predict(score).tolist() == [False, True, False]
    assert not make(math.inf).predict(score).any()


def test_estimates_read_well():
    assert str(Estimate(0.12345, 0.1, 0.2)) == "0.123 [0.100, 0.200]"
