import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from scipy.stats import norm
from sklearn.metrics import roc_curve

from lossdial.base.errors import InputError
from lossdial.dial.calibration import calibrate
from lossdial.dial.choice.envelope import Envelope, adapt, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import crossfit, select
from lossdial.dial.metrics.registry import FPR, RECALL, expected_cost
from lossdial.dial.surface import Surface, swapped_halves
from lossdial.dial.uncertainty.intervals import estimates


def make(seed=0, n=80, m=4, ties=False):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    y[:2] = [0, 1]
    scores = rng.normal(size=(n, m)) * rng.uniform(0.5, 3, m) + y[:, None] * rng.uniform(0.5, 2, m)
    scores = np.round(scores) if ties else scores
    return Surface(y, scores.astype(np.float32), tuple({"tau": float(k)} for k in range(m)))


def slopes(hull):
    with np.errstate(divide="ignore"):
        return np.diff(hull.tpr) / np.diff(hull.fpr)


@given(st.integers(0, 10**6), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_envelope_is_the_upper_hull_of_all_roc_curves(seed, ties, weighted):
    plain = make(seed, n=40, ties=ties)
    weight = np.random.default_rng(seed).exponential(size=40) if weighted else None
    surface = Surface(plain.y, plain.scores, plain.lams, weight)
    hull = envelope(surface, "platt")
    assert hull.auc >= surface.metric("auc").max() - 1e-12
    assert (np.diff(slopes(hull)) <= 1e-9).all()
    curves = [roc_curve(surface.y, surface.score(k), sample_weight=weight)[:2] for k in range(4)]
    points = np.concatenate([np.stack(curve, axis=1) for curve in curves])
    assert (points[:, 1] <= np.interp(points[:, 0], hull.fpr, hull.tpr) + 1e-9).all()
    if not weighted:  # closing the region below with a far point leaves scipy the same corners
        everything = np.concatenate([points, [[1, 0]]])
        corners = {tuple(np.round(c, 9)) for c in everything[ConvexHull(everything).vertices]} - {(1.0, 0.0)}
        assert {tuple(np.round(c, 9)) for c in zip(hull.fpr, hull.tpr, strict=True)} == corners
    for vertex in hull.vertices:
        score = surface.score(vertex.index)
        assert FPR(surface.y, score, vertex.threshold, weight) == pytest.approx(vertex.fpr)
        assert RECALL(surface.y, score, vertex.threshold, weight) == pytest.approx(vertex.tpr)
        assert vertex.lam == surface.lams[vertex.index]
        assert vertex.calibration == calibrate(surface.y, score, "platt", weight)


@pytest.mark.parametrize("cost_fn", [0.01, 0.3, 1, 20, 1000])
@pytest.mark.parametrize("prevalence", [0.001, 0.02, 0.3, 0.9])
def test_best_vertex_is_the_best_point_for_every_cost_and_prevalence(cost_fn, prevalence):
    surface = make(3, n=200)
    hull = envelope(surface, None)
    vertex = hull.best(cost_fn, 1, prevalence)
    objective = Objective(minimize="expected_cost", cost_fn=cost_fn, cost_fp=1, prevalence=prevalence)
    cost = prevalence * cost_fn * (1 - hull.tpr[vertex]) + (1 - prevalence) * hull.fpr[vertex]
    assert cost == pytest.approx(select(surface, objective).value)
    # The slope of the cost line lies between those of the edges that meet at the vertex.
    slope, edges = (1 - prevalence) / (prevalence * cost_fn), np.r_[math.inf, slopes(hull), 0]
    assert edges[vertex + 1] - 1e-9 <= slope <= edges[vertex] + 1e-9


def one_by_one(surface, block_bytes=None):  # noqa: ARG001 - the method's own signature
    return ((slice(k, k + 1), surface.score_rows(k, k + 1)) for k in range(surface.n_lams))


def test_ends_equal_points_and_blocks(monkeypatch):
    surface = make(5, m=9)
    hull = envelope(surface)
    first, last = hull.vertices[0], hull.vertices[-1]
    assert (first.fpr, first.tpr, first.threshold) == (0, 0, math.inf)
    assert (last.fpr, last.tpr, last.threshold) == (1, 1, -math.inf)
    scores = np.repeat(np.float32([[0.0], [1.0], [2.0], [3.0]]), 5, axis=1)
    alike = Surface([0, 1, 0, 1], scores, tuple({"tau": float(k)} for k in range(5)))
    assert {vertex.index for vertex in envelope(alike).vertices} == {2}  # the central λ
    monkeypatch.setattr(Surface, "blocks", one_by_one)
    assert envelope(surface).vertices == hull.vertices
    assert {vertex.index for vertex in envelope(alike).vertices} == {2}


def test_halves_are_measured_on_the_samples_that_did_not_choose():
    surface = make(7, n=200)
    hull = envelope(surface, seed=3)
    for half, (selecting, measuring) in zip(hull.halves, swapped_halves(surface.labels, seed=3), strict=True):
        assert half.vertices[1].fpr == envelope(surface.take(selecting)).vertices[1].fpr
        y = surface.y[measuring]
        assert (half.n_positive, half.n_negative) == (y.sum(), (1 - y).sum())
        for vertex, (fpr, tpr) in zip(half.vertices, half.held_out, strict=True):
            score = surface.score(vertex.index)[measuring]
            assert fpr == pytest.approx(FPR(y, score, vertex.threshold))
            assert tpr == pytest.approx(RECALL(y, score, vertex.threshold))


@pytest.mark.parametrize("kind", ["platt", "isotonic"])
def test_json_round_trip_is_exact(kind):
    surface = make(8)
    hull = envelope(Surface(surface.y, surface.scores, surface.lams, None, np.arange(80) // 4), kind)
    assert hull.effective[0] < surface.n_positive
    again = Envelope.from_json(json.loads(json.dumps(hull.to_json(), allow_nan=False)))
    assert (again.vertices, again.effective) == (hull.vertices, hull.effective)
    assert again.to_json() == hull.to_json()


LAMS = tuple({"tau": float(k)} for k in range(5))


def crossing(n_positive, n_negative, seed):
    """Five λ whose ROC curves cross: the positives' spread grows with λ as their mean does."""
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    spread_of, mean = np.linspace(0.7, 2.5, 5), np.linspace(1.2, 3.0, 5)
    noise = rng.standard_normal((y.size, 1)) * 0.8 + rng.standard_normal((y.size, 5)) * 0.6
    scores = np.where(y[:, None] == 1, mean + spread_of * noise, noise)
    return Surface(y, scores.astype(np.float32), LAMS)


def test_adapting_equals_choosing_with_the_same_cost_and_prevalence():
    surface = crossing(100, 900, 0)
    hull = envelope(surface)
    for prevalence, cost_fn in ((0.001, 100), (0.02, 5), (0.5, 1), (0.9, 0.1)):
        point = adapt(hull, prevalence, cost_fn, 1, "clinic")
        objective = Objective(minimize="expected_cost", cost_fn=cost_fn, cost_fp=1, prevalence=prevalence)
        assert point.metrics["expected_cost"].value == pytest.approx(select(surface, objective).value)
        assert point.description == str(objective)
        score = surface.score(surface.lams.index(point.lam))
        cost = expected_cost(cost_fn, 1, prevalence)(surface.y, score, point.threshold)
        assert cost == pytest.approx(point.metrics["expected_cost"].value)
        assert point.crossfit["expected_cost"].value == pytest.approx(
            crossfit(surface, objective)["expected_cost"].value, rel=0.02
        )


def test_the_printout_says_where_costs_break_even_beside_the_threshold():
    point = adapt(envelope(crossing(100, 900, 0)), prevalence=0.002, cost_fn=500, cost_fp=1)
    assert point.break_even == pytest.approx(1 / 501)
    told = f"calibrated {point.threshold_probability:.3g} at prevalence 0.002; an alert breaks even at 0.002 if"
    assert told in str(point)
    # Near, not upon it: the one is counted, the other computed.
    assert 0.1 < point.threshold_probability / point.break_even < 10
    assert type(point).from_json(point.to_json()).break_even == point.break_even


def test_probabilities_are_right_at_the_new_prevalence():
    rng = np.random.default_rng(2)
    y = np.repeat([1, 0], [2000, 18_000])
    shift = np.sqrt(2) * norm.ppf(0.9)
    surface = Surface(y, (rng.standard_normal(y.size) + shift * y).astype(np.float32)[:, None], LAMS[:1])
    point = adapt(envelope(surface), prevalence=0.5, cost_fn=1, cost_fp=1)
    # Log-odds of two unit normals at shares of one half: d·s - d²/2.
    grid = np.linspace(-1, 3, 9)
    expected = 1 / (1 + np.exp(-(shift * grid - shift**2 / 2)))
    np.testing.assert_allclose(point.probability(grid), expected, atol=0.03)
    assert point.prevalence == 0.5


@pytest.mark.parametrize("prevalence", [0.001, 0.01, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("slope", [0.2, 1.0, 5.0])
def test_the_adapted_point_is_as_good_as_one_chosen_with_labels(prevalence, slope):
    # Adapted on data with a tenth of positives, measured on a test set of another share: the least cost of any point
    # there, chosen with its labels, lies within the interval of the adapted point's cost.
    n_negative = round(200 * (1 - prevalence) / prevalence)
    test = crossing(200, n_negative, seed=round(1000 * prevalence + slope))
    cost_fn = (1 - prevalence) / prevalence / slope
    point = adapt(envelope(crossing(300, 2700, 3)), prevalence, cost_fn, 1)
    objective = Objective(minimize="expected_cost", cost_fn=cost_fn, cost_fp=1, prevalence=prevalence)
    best, cost = select(test, objective), expected_cost(cost_fn, 1, prevalence)
    (estimate,) = estimates(test.at(test.lams.index(point.lam)), [cost], point.threshold)["expected_cost"]
    assert estimate.low <= best.value <= estimate.value + 1e-12


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"vertices": 3}, "'vertices'"),
        ({"vertices": []}, "at least two corners"),
        ({"vertices": [1, 2]}, "entry 0"),
        ({"vertices": [{"fpr": 0.0, "tpr": 0.0}] * 2}, "'calibration'"),
        ({"n_positive": "many"}, "'n_positive'"),
        ({"prevalence": 0}, "'prevalence'"),
        ({"effective": [1.0]}, "'effective'"),
        ({"held_out": [[0.1, 0.2]]}, "'held_out'"),
        ({"halves": [envelope(make()).to_json()]}, "half 0: 'halves'"),
        ({"halves": [envelope(make()).to_json() | {"halves": [], "held_out": []}]}, "half 0: 'held_out'"),
        ({"vertex": {"threshold": math.nan}}, "entry 1: 'threshold'"),
        ({"vertex": {"fpr": 1.5}}, "entry 1: 'fpr'"),
        ({"vertex": {"lam": None}}, "entry 1: 'lam'"),
        ({"vertex": {"index": -1}}, "entry 1: 'index'"),
        ({"vertex": {"calibration": "platt"}}, "entry 1: 'calibration'"),
    ],
)
def test_json_that_was_altered_is_named(change, fragment):
    data = envelope(make()).to_json()
    data["vertices"][1] |= change.get("vertex", {})
    with pytest.raises(InputError, match=fragment):
        Envelope.from_json(data | change)
    for empty in ([], {}):
        with pytest.raises(InputError, match="envelope"):
            Envelope.from_json(empty)
