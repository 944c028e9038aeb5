import numpy as np
import pytest
from scipy.stats import norm

from lossdial.dial.choice.envelope import Envelope, adapt, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import crossfit, select
from lossdial.dial.metrics import functions as metrics
from lossdial.dial.metrics.registry import expected_cost
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import estimates

LAMS = tuple({"tau": float(k)} for k in range(5))


def make(n_positive, n_negative, seed):
    """Five λ whose ROC curves cross: the positives' spread grows with λ as their mean does."""
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    spread_of, mean = np.linspace(0.7, 2.5, 5), np.linspace(1.2, 3.0, 5)
    noise = rng.standard_normal((y.size, 1)) * 0.8 + rng.standard_normal((y.size, 5)) * 0.6
    scores = np.where(y[:, None] == 1, mean + spread_of * noise, noise)
    return Surface(y, scores.astype(np.float32), LAMS)


def test_adapting_equals_choosing_with_the_same_cost_and_prevalence():
    surface = make(100, 900, 0)
    hull = envelope(surface)
    for prevalence, cost_fn in ((0.001, 100), (0.02, 5), (0.5, 1), (0.9, 0.1)):
        point = adapt(hull, prevalence, cost_fn, 1, "clinic")
        objective = Objective(minimize="expected_cost", cost_fn=cost_fn, cost_fp=1, prevalence=prevalence)
        assert point.metrics["expected_cost"].value == pytest.approx(select(surface, objective).value)
        assert point.description == str(objective)
        score = surface.score(surface.lams.index(point.lam))
        found = metrics.expected_cost(surface.y, score, cost_fn, 1, prevalence, point.threshold)
        assert found == pytest.approx(point.metrics["expected_cost"].value)
        assert point.crossfit["expected_cost"].value == pytest.approx(
            crossfit(surface, objective)["expected_cost"].value, rel=0.02
        )


def test_the_printout_says_where_costs_break_even_beside_the_threshold():
    point = adapt(envelope(make(100, 900, 0)), prevalence=0.002, cost_fn=500, cost_fp=1)
    assert point.break_even == pytest.approx(1 / 501)
    told = f"calibrated {point.threshold_probability:.3g} at prevalence 0.002; an alert breaks even at 0.002 if"
    assert told in str(point)
    # Near, not upon it: the one is counted, the other computed.
    assert 0.1 < point.threshold_probability / point.break_even < 10
    assert type(point).from_json(point.to_json()).break_even == point.break_even


def test_figures_are_restated_at_the_new_prevalence():
    surface = make(100, 900, 1)
    point = adapt(envelope(surface), prevalence=0.3, cost_fn=2, cost_fp=1)
    score = surface.score(surface.lams.index(point.lam))
    tpr, fpr = metrics.recall(surface.y, score, point.threshold), metrics.fpr(surface.y, score, point.threshold)
    assert point.metrics["recall"].value == pytest.approx(tpr)
    assert point.metrics["precision"].value == pytest.approx(0.3 * tpr / (0.3 * tpr + 0.7 * fpr))
    assert point.metrics["accuracy"].value == pytest.approx(0.3 * tpr + 0.7 * (1 - fpr))
    assert all(e.low <= e.value <= e.high for e in point.metrics.values())


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
    # Adapted on validation data with a tenth of positives, judged on a test set of another share: the least cost of
    # any point there, found with the labels, lies within the bootstrap interval of the adapted point's cost.
    n_positive = 200
    test = make(n_positive, round(n_positive * (1 - prevalence) / prevalence), seed=round(1000 * prevalence + slope))
    cost_fn = (1 - prevalence) / prevalence / slope
    point = adapt(envelope(make(300, 2700, 3)), prevalence, cost_fn, 1)
    objective = Objective(minimize="expected_cost", cost_fn=cost_fn, cost_fp=1, prevalence=prevalence)
    best, cost = select(test, objective), expected_cost(cost_fn, 1, prevalence)
    column = test.at(test.lams.index(point.lam))
    found = estimates(column, [cost], point.threshold)["expected_cost"][0]
    assert found.low <= best.value <= found.value + 1e-12


def test_an_envelope_read_back_adapts_alike():
    hull = envelope(make(60, 400, 5))
    assert adapt(Envelope.from_json(hull.to_json()), 0.01, 50, 1) == adapt(hull, 0.01, 50, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1, 1), "prevalence must lie strictly between 0 and 1; got 0"),
        ((1.0, 1, 1), "prevalence must"),
        ((0.1, 0, 1), "cost_fn must be positive"),
        ((0.1, 1, -1), "cost_fp must be positive"),
    ],
)
def test_impossible_terms_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        adapt(envelope(make(20, 100, 6)), *arguments)
