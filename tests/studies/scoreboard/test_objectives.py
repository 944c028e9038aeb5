from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score

from lossdial_studies.scoreboard.objectives import COSTS, OBJECTIVES, Scored, cost_name, figures


def _data(n: int, seed: int):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(np.int64)
    good, bad = y * 2.0 + rng.normal(size=n), rng.normal(size=n)
    return y, np.stack([bad, good], axis=1)


def _halfway(scores, accepted):
    """The threshold that the dial puts between a score and the next lower one."""
    return (accepted + scores[scores < accepted].max()) / 2


def test_the_setting_and_the_threshold_come_from_validation_rows_alone():
    y, validation = _data(400, 0)
    y_test, test = _data(500, 1)
    found = figures(y, y_test, Scored(validation, test, 2))
    assert found["auc"] == pytest.approx(roc_auc_score(y_test, test[:, 1]))
    assert found["average_precision"] == pytest.approx(average_precision_score(y_test, test[:, 1]))
    best = max(validation[:, 1], key=lambda t: f1_score(y, validation[:, 1] >= t))
    assert found["f1"] == pytest.approx(f1_score(y_test, test[:, 1] > _halfway(validation[:, 1], best)))
    assert {objective.name for objective in OBJECTIVES} <= set(found)
    # swapped columns of the test scores: the choice still falls on the second
    swapped = figures(y, y_test, Scored(validation, test[:, ::-1], 2))
    assert swapped["auc"] == pytest.approx(roc_auc_score(y_test, test[:, 0]))


def test_precision_at_a_recall_keeps_it_on_validation_rows_and_says_what_test_rows_gave():
    y, validation = _data(400, 2)
    y_test, test = _data(500, 3)
    found = figures(y, y_test, Scored(validation[:, 1:], test[:, 1:], 1))
    legal = [t for t in validation[y == 1, 1] if recall_score(y, validation[:, 1] >= t) >= 0.9]
    best = max(legal, key=lambda t: precision_score(y, validation[:, 1] >= t))
    predicted = test[:, 1] > _halfway(validation[:, 1], best)
    assert found["precision_at_recall@0.9"] == pytest.approx(precision_score(y_test, predicted))
    assert found["recall@0.9"] == pytest.approx(recall_score(y_test, predicted))


def test_cost_is_the_mean_of_costs_relative_to_deciding_without_a_model():
    y, validation = _data(400, 4)
    y_test, test = _data(500, 5)
    found = figures(y, y_test, Scored(validation, test, 2))
    shares = [found[cost_name(ratio, share)] / min(ratio * share, 1 - share) for ratio, share in COSTS]
    assert found["cost"] == pytest.approx(np.mean(shares))
    perfect = figures(y, y_test, Scored((2.0 * y - 1)[:, None], (2.0 * y_test - 1)[:, None], 1))
    assert perfect["cost"] == 0


def test_probabilities_are_calibrated_on_validation_rows():
    y, validation = _data(2000, 6)
    y_test, test = _data(2000, 7)
    plain = figures(y, y_test, Scored(validation[:, 1:], test[:, 1:], 1))
    distorted = figures(y, y_test, Scored(20 * validation[:, 1:] + 30, 20 * test[:, 1:] + 30, 1))
    assert distorted["log_loss"] == pytest.approx(plain["log_loss"], abs=0.01)


def test_a_rival_may_bring_thresholds_of_its_own():
    y, validation = _data(400, 8)
    y_test, test = _data(500, 9)
    found = figures(y, y_test, Scored(validation[:, 1:], test[:, 1:], 1, thresholds={"f1": -100.0}))
    assert found["f1"] == pytest.approx(f1_score(y_test, np.ones(500)))
