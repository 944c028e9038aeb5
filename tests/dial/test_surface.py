import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.base.errors import InputError
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import select
from lossdial.dial.metrics.registry import AUC, PAPER_METRICS, RECALL, as_metric
from lossdial.dial.surface import Samples, Surface, swapped_halves


def test_what_samples_are_worth():
    alike, weighted = Samples.of([1, 0, 0, 1, 0], groups=[3, 1, 2, 5, 4])
    assert (weighted, alike.groups, alike.prevalence) == (None, None, 0.4)
    assert alike.totals == alike.effective == alike.units == (alike.n_positive, alike.n_negative) == (2, 3)
    for scale in (1, 10):
        unequal, _ = Samples.of([1, 1, 0, 0], scale * np.array([1, 3, 2, 2]))
        assert (unequal.totals, unequal.effective) == ((4 * scale, 4 * scale), (16 / 10, 2))
    grouped, _ = Samples.of([1] * 6 + [0] * 4, groups=["a"] * 3 + ["b"] * 3 + ["c"] * 2 + ["d"] * 2)
    assert grouped.effective == grouped.units == (2, 2)
    left, weighted = Samples.of([1, 0, 1, 0], [1, 0, 1, 1], groups=["a", "b", "a", "c"])
    assert weighted.tolist() == [0, 2, 3]
    assert (left.labels.tolist(), left.weight, left.groups.tolist()) == ([True, True, False], None, [0, 0, 1])


@pytest.mark.parametrize(
    ("arguments", "argument", "fragment"),
    [
        ({"sample_weight": [1, 2]}, "sample_weight", "(2,)"),
        ({"sample_weight": [1, -1, 2]}, "sample_weight", "sample 1"),
        ({"sample_weight": [1, np.nan, 2]}, "sample_weight", "nan"),
        ({"sample_weight": [0, 1, 1]}, "y", "no positives"),
        ({"groups": [1, 2]}, "groups", "(3,)"),
        ({"groups": [1.0, np.nan, 2.0]}, "groups", "sample 1"),
        ({"groups": np.array(["a", None, "b"], dtype=object)}, "groups", "sample 1"),
    ],
)
def test_wrong_weights_and_groups_are_named(arguments, argument, fragment):
    with pytest.raises(InputError) as raised:
        Samples.of([1, 0, 0], **arguments)
    assert raised.value.argument == argument
    assert fragment in str(raised.value)


@given(st.integers(0, 10**6), st.integers(4, 40), st.booleans())
@settings(max_examples=80, deadline=None)
def test_halves_share_out_the_positives_and_never_split_a_group(seed, n_groups, grouped):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(n_groups), rng.integers(1, 6, n_groups)))
    labels = (rng.random(n_groups) < 0.4)[groups] & (rng.random(groups.size) < 0.7)
    given_groups, units = (groups, groups) if grouped else (None, np.arange(groups.size))
    (first, second), swapped = swapped_halves(labels, seed, given_groups)
    assert (swapped[0] is second, swapped[1] is first) == (True, True)
    assert np.array_equal(np.sort(np.concatenate([first, second])), np.arange(groups.size))
    assert not set(units[first]) & set(units[second])
    for stratum in (np.unique(units[labels]), np.setdiff1d(units, units[labels])):
        sides = [np.intersect1d(units[half], stratum).size for half in (first, second)]
        assert abs(sides[0] - sides[1]) <= 1
    assert np.array_equal(swapped_halves(labels, seed, given_groups)[0][0], first)
    several = {tuple(swapped_halves(groups % 2 > 0, seed + k, given_groups)[0][0]) for k in range(10)}
    assert len(several) > 1


@pytest.fixture
def lazy(lazy_scores):
    """Labels, lazy scores (200, 7) and their λ."""
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.2).astype(int)
    features = (rng.normal(size=(200, 5)) + y[:, None]).astype(np.float32)
    weights, biases = rng.normal(size=(7, 5)).astype(np.float32), rng.normal(size=7).astype(np.float32)
    return y, lazy_scores(features, weights, biases), tuple({"gamma": 0.1, "tau": float(k)} for k in range(7))


@pytest.mark.parametrize("block_bytes", [1, 2000, 2**25])
def test_blocks_change_nothing(monkeypatch, lazy, block_bytes):
    monkeypatch.setattr(Surface.blocks, "__defaults__", (block_bytes,))
    y, scores, lams = lazy
    held = scores.columns(0, 7)
    expected = {name: as_metric(name)(y, held) for name in PAPER_METRICS}
    for surface in (Surface(y, held, lams), Surface(y, scores, lams)):
        values = surface.metrics(PAPER_METRICS)
        for name in PAPER_METRICS:
            np.testing.assert_allclose(values[name], expected[name], atol=1e-6)


def test_rows_ranking_and_halves_are_computed_once(lazy_scores):
    class Counted(lazy_scores):
        calls = 0

        def columns(self, start, stop):
            Counted.calls += 1
            return super().columns(start, stop)

    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], [60, 300])
    scores = Counted(rng.normal(size=(360, 4)), rng.normal(size=(5, 4)), np.zeros(5))
    surface = Surface(y, scores, [{"tau": float(k)} for k in range(5)])
    for name in ("f1", "auc", "balanced_accuracy"):
        select(surface, Objective(maximize=name))
    assert Counted.calls == 1
    assert surface.swapped_halves(3) is surface.swapped_halves(3)


def test_threshold_may_be_one_per_lam(lazy):
    surface = Surface(*lazy)
    cuts = np.linspace(-1, 1, 7).astype(np.float32)
    expected = [RECALL(lazy[0], surface.score(k), float(cuts[k])) for k in range(7)]
    np.testing.assert_allclose(surface.metric("recall", cuts), expected)


def test_take_and_at_give_some_samples_and_one_lam(lazy):
    surface = Surface(*lazy)
    for some in (surface.take(np.arange(0, 200, 2)), surface.take(np.arange(200) % 2 == 0)):
        np.testing.assert_array_equal(some.y, lazy[0][::2])
        np.testing.assert_allclose(some.score(3), surface.score(3)[::2], rtol=1e-5)
    assert surface.at(4).lams == (lazy[2][4],)
    np.testing.assert_allclose(surface.at(4).metric("auc"), surface.metric("auc")[4:5])


def test_weights_and_groups_go_with_the_samples(lazy):
    y, scores, lams = lazy
    weight = np.random.default_rng(1).exponential(size=200)
    weight[:7] = 0
    for held in (scores, scores.columns(0, 7)):
        surface = Surface(y, held, lams, weight, np.arange(200) // 4)
        assert surface.labels.size == 193
        np.testing.assert_allclose(surface.metric("auc")[2], AUC(y, scores.columns(2, 3)[:, 0], sample_weight=weight))
        some = surface.take(np.arange(0, 193, 3))
        np.testing.assert_array_equal(some.weight, weight[7::3])
        assert some.groups.size == some.labels.size
        assert surface.at(3).weight is not None
        for selecting, measuring in surface.swapped_halves(0):
            assert selecting.labels.size + measuring.labels.size == 193


def test_the_plainest_lam_comes_first_or_the_central_one(lazy):
    surface = Surface(*lazy)
    assert surface.by_plainness.tolist() == [3, 2, 4, 1, 5, 0, 6]
    plain = Surface(*lazy, plain=lazy[2][0])
    assert plain.by_plainness.tolist() == plain.take(np.arange(200)).by_plainness.tolist() == list(range(7))
    one = Surface([0, 1, 1], [[0.0], [1.0], [-1.0]], ({"tau": 1.0},))
    assert (one.metric("auc").tolist(), one.by_plainness.tolist()) == ([0.5], [0])


def test_another_prevalence_weights_the_classes(lazy):
    y, scores, lams = lazy
    surface = Surface(y, scores.columns(0, 7).astype(np.float64), lams).at(2)
    moved = surface.at_prevalence(0.01)
    assert moved.prevalence == pytest.approx(0.01)
    assert moved.metric("auc")[0] == pytest.approx(surface.metric("auc")[0])
    tpr, fpr = surface.metric("recall", 0.5)[0], surface.metric("fpr", 0.5)[0]
    assert moved.metric("precision", 0.5)[0] == pytest.approx(0.01 * tpr / (0.01 * tpr + 0.99 * fpr))
    assert moved.samples.effective == pytest.approx(surface.samples.effective)


def test_scores_keep_their_precision(lazy_scores):
    low = 0.1
    high = np.nextafter(low, 1)  # the same float32
    held, lazily = np.array([[low], [high]]), lazy_scores(np.array([[low], [high]]), np.ones((1, 1)), np.zeros(1))
    for scores in (held, lazily):
        surface = Surface([0, 1], scores, [{"t": 0}])
        assert surface.score(0).dtype == np.float64
        assert surface.metric("auc").tolist() == [1.0]
        assert (surface.metric("recall", low).tolist(), surface.metric("fpr", low).tolist()) == ([1.0], [0.0])
    assert Surface([0, 1], np.float32([[low], [high]]), [{"t": 0}]).score(0).dtype == np.float32
    assert Surface([0, 1], [[1], [2]], [{"t": 0}]).score(0).dtype == np.float64


@pytest.mark.parametrize(
    ("y", "scores", "lams", "argument"),
    [
        ([0, 0], [[1.0], [2.0]], [{"t": 0}], "y"),
        ([0, 1], [1.0, 2.0], [{"t": 0}], "scores"),
        ([0, 1], [[1.0], [2.0]], [{"t": 0}, {"t": 1}], "scores"),
        ([0, 1], [[1.0, 2.0], [2.0, 1.0]], [{"t": 0}, {"g": 1}], "lams"),
        ([0, 1], [[1.0], [2.0]], [3.0], "lams"),
        ([0, 1], np.empty((2, 0)), [], "lams"),
        ([0, 1], [[np.nan], [1.0]], [{"t": 0}], "score"),
    ],
)
def test_what_does_not_go_together_is_named(y, scores, lams, argument):
    with pytest.raises(InputError) as raised:
        Surface(y, scores, lams).metric("auc")
    assert raised.value.argument == argument


def test_a_lam_is_found_by_its_values_or_named(lazy):
    surface = Surface(*lazy)
    assert surface.column(dict(reversed(lazy[2][4].items()))) == 4
    with pytest.raises(InputError, match="point 'a'") as raised:
        surface.column({"tau": 9.0}, "point 'a'")
    assert raised.value.got == "('tau': 9.0)"
