import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.base.errors import InputError
from lossdial.dial.calibration import calibrations
from lossdial.dial.choice.envelope import adapt, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import choose, crossfit, select
from lossdial.dial.metrics.ranking import Counts
from lossdial.dial.metrics.registry import (
    AUC,
    BALANCED_ACCURACY,
    BRIER,
    F1,
    LOG_LOSS,
    PRECISION,
    RECALL,
    REPORT,
    as_metric,
)
from lossdial.dial.surface import Surface, swapped_halves


def make(seed=0, n=120, m=5, ties=False, prevalence=0.3):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < prevalence).astype(int)
    y[:2] = [0, 1]
    scores = rng.normal(size=(n, m)) + y[:, None] * np.linspace(0.5, 2, m)
    scores = np.round(scores * 2) / 2 if ties else scores
    return Surface(y, scores.astype(np.float32), tuple({"tau": float(k)} for k in range(m)))


def every_point(surface):
    """(λ, threshold) of every distinct decision, by brute force."""
    for index in range(surface.n_lams):
        score = surface.score(index)
        for t in [-np.inf, *np.unique(score)]:
            yield index, float(t)


def figure(surface, name, index, threshold):
    return as_metric(name)(surface.y, surface.score(index), threshold=threshold)


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(["precision", "f1", "balanced_accuracy", "g_mean"]))
@settings(max_examples=15, deadline=None)
def test_choice_is_the_best_of_all_points_that_keep_the_bounds(seed, ties, name):
    surface = make(seed, n=40, m=3, ties=ties)
    chosen = select(surface, Objective(maximize=name, subject_to={"recall": 0.6, "fpr": 0.6}))

    def keeps(k, t):
        return figure(surface, "recall", k, t) >= 0.6 and figure(surface, "fpr", k, t) <= 0.6

    legal = [figure(surface, name, k, t) for k, t in every_point(surface) if keeps(k, t)]
    assert chosen.feasible == bool(legal)
    if legal:
        assert chosen.value == pytest.approx(max(legal))
        assert figure(surface, name, chosen.index, chosen.threshold) == pytest.approx(chosen.value)
        assert keeps(chosen.index, chosen.threshold)


@pytest.mark.parametrize("name", ["auc", "average_precision"])
def test_rankings_take_the_threshold_of_best_balanced_accuracy(name):
    surface = make(2)
    chosen = select(surface, Objective(maximize=name))
    assert chosen.index == np.argmax(surface.metric(name))
    score = surface.score(chosen.index)
    expected = as_metric("max_balanced_accuracy")(surface.y, score)
    assert BALANCED_ACCURACY(surface.y, score, chosen.threshold) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["brier", "log_loss", "calibration_error"])
def test_probabilities_keep_the_threshold_at_one_half(name):
    surface = make(3)
    chosen = select(surface, Objective(minimize=name))
    assert chosen.index == np.argmin(surface.metric(name))
    assert chosen.threshold == 0
    bounded = select(surface, Objective(minimize=name, subject_to={"recall": 0.95}))
    assert RECALL(surface.y, surface.score(bounded.index), bounded.threshold) >= 0.95


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("max_f1", Objective(maximize="f1")),
        ("precision_at_recall@0.8", Objective(maximize="precision", subject_to={"recall": 0.8})),
        ("recall_at_precision@0.6", Objective(maximize="recall", subject_to={"precision": 0.6})),
        ("recall_at_fpr@0.1", Objective(maximize="recall", subject_to={"fpr": 0.1})),
    ],
)
def test_a_best_over_thresholds_takes_the_threshold_that_attains_it(name, objective):
    surface = make(4)
    chosen = select(surface, Objective(maximize=name))
    assert chosen == select(surface, objective)
    assert chosen.value == pytest.approx(surface.metric(name).max())


def distance(y, score):
    return float(score[y == 1].mean() - score[y == 0].mean())


def test_bounds_on_threshold_free_metrics_filter_lam():
    surface = make(6)
    brier = surface.metric("brier")
    cap = float(np.sort(brier)[1])
    chosen = select(surface, Objective(maximize="auc", subject_to={"brier": cap}))
    assert chosen.feasible
    assert brier[chosen.index] <= cap
    legal = surface.metric("auc")[brier <= cap]
    assert chosen.value == pytest.approx(legal.max())


@pytest.mark.filterwarnings("ignore:only 13 positives")
def test_what_cannot_be_met_gives_the_nearest_and_says_what_is_reachable():
    surface = make(7, prevalence=0.1)
    objective = Objective(maximize="f1", subject_to={"recall": 0.99, "precision": 0.95})
    chosen = select(surface, objective)
    assert not chosen.feasible
    with pytest.warns(UserWarning, match="precision is at most"):
        point = choose(surface, objective, resamples=10)
    assert (point.feasible, point.note) == (False, chosen.note)
    reachable = surface.metric("precision_at_recall@0.99").max()
    assert f"precision is at most {reachable:.4g} with recall >= 0.99" in chosen.note
    assert "recall >= 0.99 and precision >= 0.95" in chosen.note

    def shortfall(k, t):
        recall, precision = figure(surface, "recall", k, t), figure(surface, "precision", k, t)
        return max(0.99 - recall, 0) / 0.99 + max(0.95 - precision, 0) / 0.95

    least = min(shortfall(k, t) for k, t in every_point(surface))
    assert shortfall(chosen.index, chosen.threshold) == pytest.approx(least)


def miscalibrated(seed=0, n_positive=80, n_negative=600):
    """Three λ: a poor ranking with honest probabilities, a good ranking ten times too sure, and the worst of both."""
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    good, poor = rng.normal(size=y.size) + 2.5 * y, rng.normal(size=y.size) + 0.5 * y
    honest = np.log(n_positive / n_negative) + 0.5 * poor - 0.125
    return Surface(y, np.stack([honest, 10 * good - 3, 10 * poor], axis=1), [{"tau": float(k)} for k in range(3)])


@pytest.mark.parametrize("name", ["brier", "log_loss"])
def test_probabilities_are_compared_after_calibration(name):
    surface = miscalibrated()
    raw, calibrated = select(surface, Objective(minimize=name)), select(surface, Objective(minimize=name), "auto")
    assert (raw.index, calibrated.index) == (0, 1)
    (calibration,) = calibrations(surface.at(1), "auto")
    assert calibrated.value == pytest.approx(as_metric(name)(surface.y, calibration.apply(surface.score(1))))
    assert calibration.apply(calibrated.threshold) == pytest.approx(0, abs=1e-9)  # a probability of one half
    capped = Objective(maximize="recall", subject_to={"fpr": 0.2, "brier": 0.09})
    assert not select(surface, capped).feasible
    assert select(surface, capped, "platt").index == 1


@pytest.mark.parametrize("seed", range(4))
def test_whole_weights_are_repetition(seed):
    surface = make(seed, n=60, ties=seed % 2 == 0)
    times = np.random.default_rng(seed).integers(0, 4, 60)
    times[:2] = 1
    weighted = Surface(surface.y, surface.scores, surface.lams, times)
    repeated = surface.take(np.repeat(np.arange(60), times))
    for objective in (
        Objective(maximize="precision", subject_to={"recall": 0.7}),
        Objective(minimize="expected_cost", cost_fn=3, cost_fp=1),
        Objective(maximize="auc"),
        Objective(minimize="brier"),
        Objective(maximize=distance),
    ):
        one, other = select(weighted, objective), select(repeated, objective)
        assert (one.index, one.threshold) == (other.index, other.threshold)
        assert one.value == pytest.approx(other.value, abs=1e-6)


def test_a_users_function_sees_weights_where_it_takes_them_and_gives_a_finite_float():
    surface = make(5)
    weight = np.random.default_rng(0).exponential(size=120)
    weighted = Surface(surface.y, surface.scores, surface.lams, weight)

    def mean(y, score, sample_weight=None):
        return float(np.average(score, weights=sample_weight) + y.mean() * 0)

    values = [np.average(surface.score(k), weights=weight) for k in range(5)]
    chosen = select(weighted, Objective(maximize=mean))
    assert chosen.index == np.argmax(values)
    assert chosen.value == pytest.approx(max(values), rel=1e-6)
    for function, weights in ((lambda y, score: float(score.mean() + y.mean()), weight), (lambda *_: np.nan, None)):
        with pytest.raises(InputError) as raised:
            select(Surface(surface.y, surface.scores, surface.lams, weights), Objective(maximize=function))
        assert raised.value.argument == "maximize"


@pytest.mark.parametrize(("plain", "index"), [({}, 1), ({"tau": 0.0}, 1), ({"tau": 3.0}, 2)])
def test_of_equal_points_that_of_the_plain_or_central_lam_is_taken(plain, index):
    # Three λ that reach recall 1 at FPR .2, 0 and 0; of the latter two the first is central.
    y = np.array([0] * 10 + [1] * 4)
    columns = [[*np.arange(10.0), *(floor + np.arange(4) / 10)] for floor in (7.5, 20.0, 20.0)]
    surface = Surface(y, np.array(columns).T, tuple({"tau": t} for t in (1.0, 0.0, 2.0)), plain=plain)
    chosen = select(surface, Objective(maximize="recall", subject_to={"fpr": 0.3}))
    assert chosen.index == index
    assert chosen.threshold == 14.5


OBJECTIVES = [
    *(Objective(maximize=m, subject_to={"fpr": 0.3}) for m in ("recall", "npv", "precision", "specificity", "f1")),
    *(Objective(maximize=m, subject_to={"alert_rate": 0.4}) for m in ("recall", "npv", "precision", "specificity")),
    *(Objective(maximize=m, subject_to={"npv": 0.85}) for m in ("precision", "specificity", "recall", "accuracy")),
    *(Objective(minimize=m, subject_to={"npv": 0.85}) for m in ("fpr", "alert_rate")),
    Objective(maximize="recall", subject_to={"alert_rate": 0.3}, prevalence=0.01),
    Objective(minimize="alert_rate", subject_to={"npv": 0.995}, prevalence=0.01),
    Objective(maximize="recall", subject_to={"alert_rate": 0.4, "npv": 0.9}),
    Objective(maximize="recall", subject_to={"precision": 2.0 / 3}),
    Objective(minimize="expected_cost", cost_fn=10, cost_fp=1, prevalence=0.02),
    Objective(minimize="expected_cost", cost_fn=1, cost_fp=10),
]


@given(st.integers(0, 10**6), st.sampled_from(OBJECTIVES))
@settings(max_examples=60, deadline=None)
def test_no_point_is_taken_that_another_dominates(seed, objective):
    surface = make(seed, n=40, m=4, ties=True)
    chosen = select(surface, objective)
    metric, bounds = objective.unfolded(surface.prevalence)

    def rates(k, t):
        return figure(surface, "recall", k, t), figure(surface, "fpr", k, t)

    def value(of, tpr, fpr):
        sizes = surface.n_positive, surface.n_negative
        return float(of.function(Counts(*np.array([[tpr * sizes[0]], [fpr * sizes[1]]]), *sizes))[0])

    def kept(point):
        return all(
            value(m, *point) >= bound - 1e-9 if m.greater_is_better else value(m, *point) <= bound + 1e-9
            for m, bound in bounds
        )

    taken = rates(chosen.index, chosen.threshold)
    legal = [point for point in {rates(k, t) for k, t in every_point(surface)} if kept(point)]
    assert chosen.feasible == bool(legal)
    if legal:
        sign = 1 if metric.greater_is_better else -1
        best = max(sign * value(metric, *point) for point in legal)
        assert sign * value(metric, *taken) >= best - 1e-9
        for recall, fpr in (point for point in legal if sign * value(metric, *point) >= best - 1e-9):
            assert not (recall >= taken[0] and fpr <= taken[1] and (recall, fpr) != taken)


def equal_gaps(seed=0, n_positive=80, n_negative=500, m=4, gap=1.5):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    scores = rng.normal(size=(y.size, m)) + gap * y[:, None]
    return Surface(y, scores.astype(np.float32), tuple({"tau": float(k)} for k in range(m)))


@pytest.mark.filterwarnings("ignore:point 'screening' keeps its bounds")
def test_choose_reports_the_selected_point_with_intervals():
    surface = equal_gaps()
    objective = Objective(maximize="precision", subject_to={"recall": 0.9})
    point, selection = choose(surface, objective, "screening"), select(surface, objective)
    assert (point.lam, point.threshold) == (surface.lams[selection.index], selection.threshold)
    assert (point.n_positive, point.n_negative, point.feasible) == (80, 500, True)
    assert set(point.metrics) >= set(REPORT)
    score = surface.score(selection.index)
    assert point.metrics["precision"].value == pytest.approx(PRECISION(surface.y, score, point.threshold))
    assert point.metrics["auc"].value == pytest.approx(AUC(surface.y, score))
    assert all(e.low <= e.value + 1e-9 and e.value <= e.high + 1e-9 for e in point.metrics.values())
    assert set(point.crossfit) == {"precision", "recall"}


def test_crossfit_measures_on_the_half_that_did_not_choose():
    surface, objective = equal_gaps(1), Objective(maximize="f1")
    expected = []
    for selecting, measuring in swapped_halves(surface.labels, seed=3):
        chosen = select(surface.take(selecting), objective)
        expected.append(F1(surface.y[measuring], surface.score(chosen.index)[measuring], chosen.threshold))
    assert crossfit(surface, objective, resamples=50, seed=3)["f1"].value == pytest.approx(np.mean(expected))


def test_crossfit_is_not_flattered_by_selection():
    # Scores without information: the best of 30 λ and all thresholds looks better than chance, the held-out does not.
    gaps = []
    for seed in range(20):
        surface = equal_gaps(seed, m=30, gap=0)
        point = choose(surface, Objective(maximize="balanced_accuracy"), resamples=10, seed=seed)
        assert point.metrics["balanced_accuracy"].value > 0.52
        gaps.append(point.crossfit["balanced_accuracy"].value - 0.5)
    # The mean of 20 has a standard error near 0.006; five of them.
    assert abs(np.mean(gaps)) < 0.03


def test_figures_are_computed_when_looked_at_and_a_copy_carries_them():
    calls = []

    def count(y, score):
        calls.append(1)
        return float(score[y == 1].mean())

    point = choose(equal_gaps(2), Objective(maximize=count), resamples=10)
    chosen = len(calls)
    assert len(point.metrics) > len(point.crossfit) > 0
    looked = len(calls)
    assert looked > chosen
    assert dict(point.metrics) == dict(pickle.loads(pickle.dumps(point)).metrics) == dict(copy.deepcopy(point).metrics)
    assert len(calls) == looked
    assert point == dataclasses.replace(point)


def sure_of_itself(seed=0, n_positive=150, n_negative=2000):
    """One λ whose scores are several times too large."""
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    return Surface(y, (4 * (rng.normal(size=y.size) + 1.8 * y) + 3)[:, None], [{}])


def test_probabilities_are_calibrated_by_default_and_labels_do_not_change():
    surface = sure_of_itself()
    point = choose(surface, Objective(maximize="f1"), resamples=50)
    raw = choose(surface, Objective(maximize="f1"), resamples=50, calibration=None)
    assert raw.calibration is None
    assert point.calibration is not None
    score = surface.score(0)
    assert point.threshold == raw.threshold
    assert point.metrics["calibration_error@15"].value < 0.05 < 0.4 < raw.metrics["calibration_error@15"].value
    stated = point.calibration.apply(score)
    assert point.metrics["brier"].value == pytest.approx(BRIER(surface.y, stated))
    assert point.metrics["log_loss"].value == pytest.approx(LOG_LOSS(surface.y, stated))
    assert point.metrics["auc"].value == raw.metrics["auc"].value
    above = point.probability(score) > point.threshold_probability
    np.testing.assert_array_equal(above, point.predict(score))
    fresh = sure_of_itself(1)
    assert as_metric("calibration_error")(fresh.y, point.calibration.apply(fresh.score(0))) < 0.05


def test_crossfitted_probabilities_are_calibrated_on_the_choosing_half():
    surface, objective = sure_of_itself(), Objective(minimize="brier")
    expected = []
    for selecting, measuring in surface.swapped_halves(2):
        (calibration,) = calibrations(selecting, "auto")
        expected.append(BRIER(measuring.y, calibration.apply(measuring.score(0))))
    brier = crossfit(surface, objective, resamples=20, seed=2)["brier"].value
    assert brier == pytest.approx(np.mean(expected))
    assert crossfit(surface, objective, resamples=20, seed=2, calibration=None)["brier"].value > 2 * brier


@pytest.mark.parametrize(
    "objective",
    [Objective(maximize="precision", subject_to={"recall": 0.95}), Objective(maximize="precision_at_recall@0.95")],
)
def test_a_floor_that_is_missed_where_it_was_not_chosen_is_a_warning(objective):
    surface = equal_gaps(0, n_positive=60, n_negative=600, m=20)
    message = r"not where it was not chosen: recall 0\.\d+ instead of recall >= 0.95"
    with pytest.warns(UserWarning, match=message) as caught:
        point = choose(surface, objective, "screening", resamples=50)
    assert "'screening'" in str(caught[0].message)
    assert point.feasible
    assert point.crossfit["recall"].value < 0.95
    assert point.missed == (f"recall {point.crossfit['recall'].value:.4g} instead of recall >= 0.95",)
    assert point.missed[0] in str(point)
    assert point.objective == objective
    easy = choose(surface, Objective(maximize="balanced_accuracy", subject_to={"recall": 0.2}), resamples=10)
    assert easy.missed == ()


def test_a_prevalence_restates_every_figure_and_moves_the_probabilities():
    surface = sure_of_itself()
    objective = Objective(minimize="expected_cost", cost_fn=500, cost_fp=1, prevalence=0.002)
    point = choose(surface, objective, resamples=100)
    adapted = adapt(envelope(surface), 0.002, 500, 1)
    assert (point.lam, point.threshold) == (adapted.lam, adapted.threshold)
    assert (point.prevalence, point.shift, point.calibration) == (0.002, adapted.shift, adapted.calibration)
    for name in ("precision", "accuracy", "f1", "recall", "expected_cost"):
        assert point.metrics[name].value == pytest.approx(adapted.metrics[name].value), name
    assert point.metrics["brier"].value < 0.002
    assert point.metrics["calibration_error@15"].value < 0.002


def test_groups_widen_every_interval():
    surface = equal_gaps(3, n_positive=80, n_negative=400, m=3)
    groups = np.concatenate([np.arange(80) // 4, 100 + np.arange(400) // 4])
    grouped = Surface(surface.y, surface.scores, surface.lams, None, groups)
    alone = choose(surface, Objective(maximize="f1"), resamples=300)
    with pytest.warns(UserWarning, match="only 20 groups with a positive"):
        together = choose(grouped, Objective(maximize="f1"), resamples=300)
    assert (alone.lam, alone.threshold) == (together.lam, together.threshold)
    assert alone.metrics["f1"].value == together.metrics["f1"].value
    for name in ("recall", "f1", "fpr"):  # four rows of a group say no more than one
        one, four = alone.metrics[name], together.metrics[name]
        assert four.high - four.low > 1.4 * (one.high - one.low), name
