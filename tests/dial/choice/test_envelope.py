import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from sklearn.metrics import roc_curve

from lossdial.dial.calibration import calibrate
from lossdial.dial.choice.envelope import Envelope, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import select
from lossdial.dial.metrics import functions as metrics
from lossdial.dial.surface import Surface, swapped_halves


def make(seed=0, n=80, m=4, ties=False):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    y[:2] = [0, 1]
    scores = rng.normal(size=(n, m)) * rng.uniform(0.5, 3, m) + y[:, None] * rng.uniform(0.5, 2, m)
    scores = np.round(scores) if ties else scores
    return Surface(y, scores.astype(np.float32), tuple({"tau": float(k)} for k in range(m)))


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=30, deadline=None)
def test_envelope_is_the_upper_hull_of_all_roc_curves(seed, ties):
    surface = make(seed, n=40, ties=ties)
    hull = envelope(surface)
    points = np.concatenate([np.stack(roc_curve(surface.y, surface.score(k))[:2], axis=1) for k in range(4)])
    for fpr, tpr in points:
        assert tpr <= np.interp(fpr, hull.fpr, hull.tpr) + 1e-9
    # Closing the region below with a far point leaves scipy the same corners.
    everything = np.concatenate([points, [[1, 0]]])
    corners = everything[ConvexHull(everything).vertices]
    expected = {tuple(np.round(c, 9)) for c in corners} - {(1.0, 0.0)}
    assert {tuple(np.round(c, 9)) for c in zip(hull.fpr, hull.tpr, strict=True)} == expected


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=20, deadline=None)
def test_every_vertex_is_where_its_lam_and_threshold_lead(seed, ties):
    surface = make(seed, ties=ties)
    hull = envelope(surface, "platt")
    for vertex in hull.vertices:
        score = surface.score(vertex.index)
        assert metrics.fpr(surface.y, score, vertex.threshold) == pytest.approx(vertex.fpr)
        assert metrics.recall(surface.y, score, vertex.threshold) == pytest.approx(vertex.tpr)
        assert vertex.lam == surface.lams[vertex.index]
        assert vertex.calibration == calibrate(surface.y, score, "platt")


def test_best_vertex_is_the_best_point_for_every_cost_and_prevalence():
    surface = make(3, n=200)
    hull = envelope(surface)
    cost_fn, cost_fp = np.geomspace(0.01, 1000, 15), 1.0
    prevalence = np.array([0.001, 0.02, 0.3, 0.9])[:, None]
    vertices = hull.best(cost_fn, cost_fp, prevalence)
    costs = hull.expected_cost(cost_fn, cost_fp, prevalence)
    assert vertices.shape == costs.shape == (4, 15)
    for i in range(4):
        for j in range(15):
            objective = Objective(
                minimize="expected_cost", cost_fn=cost_fn[j], cost_fp=cost_fp, prevalence=float(prevalence[i, 0])
            )
            assert costs[i, j] == pytest.approx(select(surface, objective).value)
    # The slope of the cost line lies between those of the edges that meet at the vertex.
    slope = (1 - prevalence) * cost_fp / (prevalence * cost_fn)
    edges = np.r_[math.inf, hull.slopes, 0]
    assert (slope <= edges[vertices] + 1e-9).all()
    assert (slope >= edges[vertices + 1] - 1e-9).all()


def test_area_is_at_least_that_of_every_lam():
    surface = make(4, n=300)
    assert envelope(surface).auc >= surface.metric("auc").max()


def test_ends_and_blocks(monkeypatch):
    surface = make(5, m=9)
    hull = envelope(surface)
    first, last = hull.vertices[0], hull.vertices[-1]
    assert (first.fpr, first.tpr, first.threshold) == (0, 0, math.inf)
    assert (last.fpr, last.tpr, last.threshold) == (1, 1, -math.inf)
    monkeypatch.setattr(Surface, "blocks", one_by_one)
    assert envelope(surface).vertices == hull.vertices


def one_by_one(surface, block_bytes=None):  # noqa: ARG001 - the method's own signature
    return ((slice(k, k + 1), surface.score_rows(k, k + 1)) for k in range(surface.n_lams))


def test_equal_points_belong_to_the_central_lam(monkeypatch):
    scores = np.repeat(np.float32([[0.0], [1.0], [2.0], [3.0]]), 5, axis=1)
    surface = Surface([0, 1, 0, 1], scores, tuple({"tau": float(k)} for k in range(5)))
    assert {vertex.index for vertex in envelope(surface).vertices} == {2}
    monkeypatch.setattr(Surface, "blocks", one_by_one)
    assert {vertex.index for vertex in envelope(surface).vertices} == {2}


def test_halves_are_measured_on_the_samples_that_did_not_choose():
    surface = make(7, n=200)
    hull = envelope(surface, seed=3)
    for half, (selecting, measuring) in zip(hull.halves, swapped_halves(surface.labels, seed=3), strict=True):
        assert half.vertices[1].fpr == envelope(surface.take(selecting)).vertices[1].fpr
        y = surface.y[measuring]
        assert (half.n_positive, half.n_negative) == (y.sum(), (1 - y).sum())
        for vertex, (fpr, tpr) in zip(half.vertices, half.held_out, strict=True):
            score = surface.score(vertex.index)[measuring]
            assert fpr == pytest.approx(metrics.fpr(y, score, vertex.threshold))
            assert tpr == pytest.approx(metrics.recall(y, score, vertex.threshold))


@pytest.mark.parametrize("kind", ["platt", "isotonic"])
def test_json_round_trip_is_exact(kind):
    hull = envelope(make(8), kind)
    again = Envelope.from_json(json.loads(json.dumps(hull.to_json(), allow_nan=False)))
    assert again.vertices == hull.vertices
    assert [half.vertices for half in again.halves] == [half.vertices for half in hull.halves]
    np.testing.assert_array_equal(again.halves[1].held_out, hull.halves[1].held_out)
    assert again.to_json() == hull.to_json()


def test_one_lam_works():
    assert len(envelope(make(6, m=1)).vertices) >= 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 0.1), "cost_fn must be positive"),
        ((1, -1, 0.1), "cost_fp must be"),
        ((1, 1, [0.1, 1]), "prevalence must"),
    ],
)
def test_impossible_costs_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        envelope(make()).best(*arguments)


def test_whole_weights_are_repetition():
    for seed in range(8):
        surface = make(seed, ties=seed % 2 == 0)
        times = np.random.default_rng(seed).integers(0, 4, 80)
        times[:2] = 1
        weighted = envelope(Surface(surface.y, surface.scores, surface.lams, times), None)
        repeated = envelope(surface.take(np.repeat(np.arange(80), times)), None)
        assert [(v.index, v.threshold) for v in weighted.vertices] == [
            (v.index, v.threshold) for v in repeated.vertices
        ]
        np.testing.assert_allclose(weighted.fpr, repeated.fpr, atol=1e-12)
        np.testing.assert_allclose(weighted.tpr, repeated.tpr, atol=1e-12)
        assert weighted.prevalence == pytest.approx(repeated.prevalence)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=20, deadline=None)
def test_weighted_envelope_is_the_upper_hull_too(seed, ties):
    plain = make(seed, n=40, ties=ties)
    weight = np.random.default_rng(seed).exponential(size=40)
    surface = Surface(plain.y, plain.scores, plain.lams, weight)
    hull = envelope(surface, None)
    for k in range(4):
        fpr, tpr, _ = roc_curve(surface.y, surface.score(k), sample_weight=weight)
        assert (tpr <= np.interp(fpr, hull.fpr, hull.tpr) + 1e-9).all()
    for vertex in hull.vertices:
        score = surface.score(vertex.index)
        assert metrics.fpr(surface.y, score, vertex.threshold, weight) == pytest.approx(vertex.fpr)
        assert metrics.recall(surface.y, score, vertex.threshold, weight) == pytest.approx(vertex.tpr)
    assert (np.diff(hull.slopes) <= 1e-9).all()


def test_float64_scores_are_told_apart():
    low = 0.1
    hull = envelope(Surface([0, 1, 0, 1], np.array([low, np.nextafter(low, 1), -1.0, 5.0])[:, None], [{}]), None)
    assert (hull.fpr.tolist(), hull.tpr.tolist()) == ([0, 0, 1], [0, 1, 1])


def test_groups_make_it_less_sure():
    surface = make(3)
    grouped = envelope(Surface(surface.y, surface.scores, surface.lams, None, np.arange(80) // 4))
    assert grouped.effective[0] < envelope(surface).effective[0] == surface.n_positive
    again = Envelope.from_json(grouped.to_json())
    assert again.effective == grouped.effective


def altered(**change):
    return envelope(make()).to_json() | change


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "envelope must be an object"),
        ({}, "envelope: 'vertices' is missing"),
        (altered(vertices=3), "'vertices' must be a list; got 3"),
        (altered(vertices=[]), "'vertices' must hold at least two corners; got 0"),
        (altered(vertices=[1, 2]), "vertex 0 must be an object"),
        (altered(vertices=[{"fpr": 0.0, "tpr": 0.0}] * 2), "vertex 0: 'calibration' is missing"),
        (altered(n_positive="many"), "'n_positive' must be a whole number"),
        (altered(prevalence=0), "'prevalence' must lie strictly"),
        (altered(effective=[1.0]), "'effective' must hold two numbers above 0"),
        (altered(held_out=[[0.1, 0.2]]), "'held_out' must be 0 pairs"),
        (altered(halves=[envelope(make()).to_json()]), "half 0: 'halves' must be empty"),
        (altered(halves=[altered(halves=[], held_out=[])]), "half 0: 'held_out' must be"),
    ],
)
def test_json_that_was_altered_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        Envelope.from_json(data)


def test_a_vertex_that_was_altered_is_named():
    for change, message in (
        ({"threshold": math.nan}, "vertex 1: 'threshold' must be a number; got nan"),
        ({"fpr": 1.5}, r"vertex 1: 'fpr' must lie in \[0, 1\]; got 1.5"),
        ({"lam": None}, "vertex 1: 'lam' must be an object"),
        ({"index": -1}, "vertex 1: 'index' must be a whole number"),
        ({"calibration": "platt"}, "vertex 1: 'calibration' must be an object"),
    ):
        data = envelope(make()).to_json()
        data["vertices"][1] |= change
        with pytest.raises(ValueError, match=message):
            Envelope.from_json(data)
