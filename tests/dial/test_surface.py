import numpy as np
import pytest

from lossdial.dial.metrics import functions as metrics
from lossdial.dial.metrics.registry import PAPER_METRICS
from lossdial.dial.surface import FoldedScores, Surface


def make(n=200, m=7, c=5, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int)
    features = (rng.normal(size=(n, c)) + y[:, None]).astype(np.float32)
    weights, biases = rng.normal(size=(m, c)).astype(np.float32), rng.normal(size=m).astype(np.float32)
    lams = tuple({"gamma": 0.1, "tau": float(k)} for k in range(m))
    return y, FoldedScores(features, weights, biases), lams


def test_folded_scores_are_one_matrix_product():
    _, folded, _ = make()
    expected = folded.features @ folded.weights.T + folded.biases
    np.testing.assert_allclose(folded.columns(2, 5), expected[:, 2:5], rtol=1e-5)
    assert folded.columns(0, 7).dtype == np.float32


@pytest.mark.parametrize("block_bytes", [1, 2000, 2**25])
def test_blocks_change_nothing(block_bytes):
    y, folded, lams = make()
    held = Surface(y, folded.columns(0, 7), lams)
    expected = {name: getattr(metrics, name.partition("@")[0])(y, held.scores) for name in PAPER_METRICS}
    for surface in (held, Surface(y, folded, lams)):
        found = surface.metrics(PAPER_METRICS, block_bytes=block_bytes)
        for name in PAPER_METRICS:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-6)


def test_threshold_may_be_one_per_lam():
    y, folded, lams = make()
    surface = Surface(y, folded, lams)
    cuts = np.linspace(-1, 1, 7).astype(np.float32)
    expected = [metrics.recall(y, surface.score(k), float(cuts[k])) for k in range(7)]
    np.testing.assert_allclose(surface.metric("recall", cuts), expected)


def test_take_and_at_give_the_part():
    y, folded, lams = make()
    surface = Surface(y, folded, lams)
    index = np.arange(0, 200, 2)
    for part in (surface.take(index), surface.take(np.arange(200) % 2 == 0)):
        np.testing.assert_array_equal(part.y, y[index])
        np.testing.assert_allclose(part.score(3), surface.score(3)[index], rtol=1e-5)
    assert surface.at(4).lams == (lams[4],)
    np.testing.assert_allclose(surface.at(4).metric("auc"), surface.metric("auc")[4:5])


def test_counts_and_the_order_of_lams():
    y, folded, lams = make()
    surface = Surface(y, folded, lams)
    assert (surface.n_positive, surface.n_negative) == (y.sum(), (1 - y).sum())
    assert surface.prevalence == y.mean()
    assert surface.by_plainness.tolist() == [3, 2, 4, 1, 5, 0, 6]
    plain = Surface(y, folded, lams, plain=lams[0])
    assert plain.by_plainness.tolist() == plain.take(np.arange(len(y))).by_plainness.tolist() == list(range(7))


def test_one_lam_works():
    surface = Surface([0, 1, 1], [[0.0], [1.0], [-1.0]], ({"tau": 1.0},))
    assert surface.metric("auc").tolist() == [0.5]
    assert surface.by_plainness.tolist() == [0]


@pytest.mark.parametrize(
    ("y", "scores", "lams", "message"),
    [
        ([0, 0], [[1.0], [2.0]], [{"t": 0}], "no positives"),
        ([0, 1], [1.0, 2.0], [{"t": 0}], r"shape \(n, m\), one column per λ; got \(2,\)"),
        ([0, 1], [[1.0], [2.0]], [{"t": 0}, {"t": 1}], r"\(n, m\) = \(2, 2\).*got \(2, 1\)"),
        ([0, 1], [[1.0, 2.0], [2.0, 1.0]], [{"t": 0}, {"g": 1}], "same names"),
        ([0, 1], np.empty((2, 0)), [], "at least one λ"),
    ],
)
def test_parts_that_disagree_are_named(y, scores, lams, message):
    with pytest.raises(ValueError, match=message):
        Surface(y, scores, lams)


def test_folded_parts_that_disagree_are_named():
    with pytest.raises(ValueError, match=r"got \(3, 2\), \(4, 3\) and \(4,\)"):
        FoldedScores(np.zeros((3, 2)), np.zeros((4, 3)), np.zeros(4))


def test_nan_scores_stop_when_read():
    surface = Surface([0, 1], [[np.nan], [1.0]], [{"t": 0}])
    with pytest.raises(ValueError, match="score must be finite"):
        surface.metric("auc")


def test_scores_keep_their_precision():
    low = 0.1
    high = np.nextafter(low, 1)  # the same float32
    surface = Surface([0, 1], np.array([[low], [high]]), [{"t": 0}])
    assert surface.score(0).dtype == np.float64
    assert surface.metric("auc").tolist() == [1.0]
    assert surface.metric("recall", low).tolist() == [1.0]
    assert surface.metric("fpr", low).tolist() == [0.0]
    assert Surface([0, 1], np.float32([[low], [high]]), [{"t": 0}]).score(0).dtype == np.float32
    assert Surface([0, 1], [[1], [2]], [{"t": 0}]).score(0).dtype == np.float64
    folded = FoldedScores(np.array([[low], [high]]), np.ones((1, 1)), np.zeros(1))
    assert Surface([0, 1], folded, [{"t": 0}]).metric("auc").tolist() == [1.0]


def test_members_score_the_log_odds_of_their_mean_probability():
    rng = np.random.default_rng(0)
    features, weights, biases = rng.normal(size=(6, 3)), rng.normal(size=(4, 5, 3)), rng.normal(size=(4, 5))
    folded = FoldedScores(features, weights, biases)
    assert folded.shape == (6, 5)
    probability = (1 / (1 + np.exp(-(np.einsum("nc,kmc->knm", features, weights) + biases[:, None])))).mean(axis=0)
    np.testing.assert_allclose(folded.columns(1, 4), np.log(probability / (1 - probability))[:, 1:4])
    assert np.isfinite(FoldedScores(1e4 * features, weights, biases).columns(0, 5)).all()
    one = FoldedScores(features.astype(np.float32), weights[:1].astype(np.float32), biases[:1].astype(np.float32))
    assert one.columns(0, 5).dtype == np.float32


def test_weights_and_groups_go_with_the_samples():
    y, folded, lams = make()
    weight = np.random.default_rng(1).exponential(size=200)
    weight[:7] = 0
    groups = np.arange(200) // 4
    for scores in (folded, folded.columns(0, 7)):
        surface = Surface(y, scores, lams, weight, groups)
        assert surface.labels.size == 193
        np.testing.assert_allclose(surface.metric("auc")[2], metrics.auc(y, folded.columns(0, 7)[:, 2], weight))
        part = surface.take(np.arange(0, 193, 3))
        np.testing.assert_array_equal(part.weight, weight[7::3])
        assert part.groups.size == part.labels.size
        assert surface.at(3).weight is not None
        for selecting, measuring in surface.swapped_halves(0):
            assert selecting.labels.size + measuring.labels.size == 193


def test_another_prevalence_is_a_matter_of_weights():
    y, folded, lams = make()
    surface = Surface(y, folded.columns(0, 7).astype(np.float64), lams).at(2)
    moved = surface.at_prevalence(0.01)
    assert moved.prevalence == pytest.approx(0.01)
    assert moved.metric("auc")[0] == pytest.approx(surface.metric("auc")[0])
    tpr, fpr = surface.metric("recall", 0.5)[0], surface.metric("fpr", 0.5)[0]
    assert moved.metric("precision", 0.5)[0] == pytest.approx(0.01 * tpr / (0.01 * tpr + 0.99 * fpr))
    assert moved.samples.effective == pytest.approx(surface.samples.effective)


def test_a_lam_that_is_not_there_is_named():
    y, folded, lams = make()
    assert Surface(y, folded, lams).column(lams[4]) == 4
    with pytest.raises(ValueError, match=r"point 'a' has λ = \{'tau': 9.0\}, which is not on the surface"):
        Surface(y, folded, lams).column({"tau": 9.0}, "point 'a'")
