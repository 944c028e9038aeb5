import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, brier_score_loss, f1_score, roc_auc_score

from lossdial.dial import PAPER_METRICS, Surface
from lossdial_studies.measuring import METRICS, RECALLS, halves, measure

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1], [120, 60])
SCORES = (RNG.normal(size=(180, 3)) + 1.5 * Y[:, None]).astype(np.float32)
LAMS = [{"gamma": 0.0, "tau": float(t)} for t in range(3)]


def test_the_halves_are_stratified_and_keep_groups_together() -> None:
    groups = np.arange(180) // 3
    first, second = halves(Y, groups)
    assert np.array_equal(np.sort(np.concatenate([first, second])), np.arange(180))
    assert not set(groups[first]) & set(groups[second])
    assert [int(Y[part].sum()) for part in (first, second)] == [30, 30]
    assert all(np.array_equal(a, b) for a, b in zip(halves(Y, groups), (first, second), strict=True))
    assert len(halves(Y, None)[0]) == 90


def best_f1(y: NDArray[np.int64], score: NDArray[np.float32]) -> tuple[float, float]:
    """Value and threshold, by trying them all."""
    cuts = np.sort(score)
    cuts = np.concatenate([[cuts[0] - 1], (cuts[1:] + cuts[:-1]) / 2])
    values = [f1_score(y, score > cut) for cut in cuts]
    return max(values), float(cuts[int(np.argmax(values))])


def test_rows_against_scikit_learn() -> None:
    parts = halves(Y, None)
    rows = measure(Surface(Y, SCORES, LAMS), parts)
    assert [row.lam for row in rows] == LAMS
    for i, row in enumerate(rows):
        score = SCORES[:, i]
        assert set(row.metrics) == set(METRICS)
        assert row.metrics["auc"] == pytest.approx(roc_auc_score(Y, score), abs=1e-5)
        assert row.metrics["brier"] == pytest.approx(brier_score_loss(Y, 1 / (1 + np.exp(-score))), abs=1e-5)
        assert row.metrics["max_f1"] == pytest.approx(best_f1(Y, score)[0], abs=1e-5)
        for k, (chosen, other) in enumerate((parts, parts[::-1])):
            assert row.on[k]["average_precision"] == pytest.approx(
                average_precision_score(Y[chosen], score[chosen]), abs=1e-5
            )
            # Without a threshold, what is reported is the metric on the other half.
            assert row.chosen_on[k]["auc"] == row.on[1 - k]["auc"]
            value, cut = best_f1(Y[chosen], score[chosen])
            assert row.on[k]["max_f1"] == pytest.approx(value, abs=1e-5)
            assert row.chosen_on[k]["max_f1"] == pytest.approx(f1_score(Y[other], score[other] > cut), abs=1e-5)
            assert row.chosen_on[k]["max_f1"] <= row.on[1 - k]["max_f1"] + 1e-6


def test_a_recall_floor_is_met_where_it_was_chosen_and_reported_where_it_was_not() -> None:
    parts = halves(Y, None)
    row = measure(Surface(Y, SCORES, LAMS), parts)[0]
    name = "precision_at_recall@0.99"
    score, (chosen, other) = SCORES[:, 0], parts
    lowest = score[chosen][Y[chosen] == 1].min()  # 30 positives: a recall of 0.99 takes them all
    below = score[chosen][score[chosen] < lowest].max()
    accepted = score[other] > (lowest + below) / 2
    assert row.chosen_on[0][name] == pytest.approx(Y[other][accepted].mean(), abs=1e-5)
    assert row.chosen_on[0][f"{name}:recall"] == pytest.approx(accepted[Y[other] == 1].mean(), abs=1e-5)


def test_the_metrics_include_the_paper_s_and_the_eight_recalls() -> None:
    assert set(PAPER_METRICS) <= set(METRICS)
    assert len(RECALLS) == 8
    assert {f"precision_at_recall@{recall:g}" for recall in RECALLS} <= set(METRICS)
    assert len(METRICS) == len(set(METRICS))
