import copy
import dataclasses
import pickle
import warnings

import numpy as np
import pytest

from lossdial.dial import metrics
from lossdial.dial.objectives import Objective
from lossdial.dial.scores import FoldedScores
from lossdial.dial.selecting import select
from lossdial.dial.splitting import swapped_halves
from lossdial.dial.surface import Surface
from lossdial.dial.tuning import REPORT, choose, crossfit


def make(seed=0, n_positive=80, n_negative=500, m=4, gap=1.5):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    scores = rng.normal(size=(y.size, m)) + gap * y[:, None]
    return Surface(y, scores.astype(np.float32), tuple({"tau": float(k)} for k in range(m)))


def test_choose_reports_the_selected_point_with_intervals():
    surface = make()
    objective = Objective(maximize="precision", subject_to={"recall": 0.9})
    point, selection = choose(surface, objective, "screening"), select(surface, objective)
    assert point.name == "screening"
    assert (point.lam, point.threshold) == (surface.lams[selection.index], selection.threshold)
    assert (point.n_positive, point.n_negative, point.feasible) == (80, 500, True)
    assert set(point.metrics) >= set(REPORT)
    score = surface.score(selection.index)
    assert point.metrics["precision"].value == pytest.approx(metrics.precision(surface.y, score, point.threshold))
    assert point.metrics["auc"].value == pytest.approx(metrics.auc(surface.y, score))
    assert all(e.low <= e.value + 1e-9 and e.value <= e.high + 1e-9 for e in point.metrics.values())
    assert set(point.crossfit) == {"precision", "recall"}


def test_crossfit_measures_on_the_half_that_did_not_choose():
    surface, objective = make(1), Objective(maximize="f1")
    expected = []
    for selecting, measuring in swapped_halves(surface.labels, seed=3):
        chosen = select(surface.take(selecting), objective)
        expected.append(metrics.f1(surface.y[measuring], surface.score(chosen.index)[measuring], chosen.threshold))
    assert crossfit(surface, objective, resamples=50, seed=3)["f1"].value == pytest.approx(np.mean(expected))


def test_crossfit_is_not_flattered_by_selection():
    # Scores without information: the best of 30 λ and all thresholds looks better than chance, the held-out does not.
    gaps = []
    for seed in range(20):
        surface = make(seed, m=30, gap=0)
        point = choose(surface, Objective(maximize="balanced_accuracy"), report=(), resamples=10, seed=seed)
        assert point.metrics["balanced_accuracy"].value > 0.52
        gaps.append(point.crossfit["balanced_accuracy"].value - 0.5)
    # The mean of 20 has a standard error near 0.006; five of them.
    assert abs(np.mean(gaps)) < 0.03


def test_halves_are_stratified_and_disjoint():
    labels = np.arange(100) < 10
    (first, second), swapped = swapped_halves(labels, seed=0)
    assert np.array_equal(np.sort(np.concatenate([first, second])), np.arange(100))
    assert labels[first].sum() == labels[second].sum() == 5
    assert swapped[0] is second
    assert swapped[1] is first


def test_figures_are_computed_when_looked_at_and_a_copy_carries_them():
    calls = []

    def count(y, score):
        calls.append(1)
        return float(score[y == 1].mean())

    point = choose(make(2), Objective(maximize=count), resamples=10)
    chosen = len(calls)
    assert len(point.metrics) > len(point.crossfit) > 0
    looked = len(calls)
    assert looked > chosen
    assert dict(point.metrics) == dict(pickle.loads(pickle.dumps(point)).metrics) == dict(copy.deepcopy(point).metrics)
    assert len(calls) == looked
    assert point == dataclasses.replace(point)


def test_surface_remembers_its_rows_ranking_and_halves():
    class Counted(FoldedScores):
        calls = 0

        def columns(self, start, stop):
            Counted.calls += 1
            return super().columns(start, stop)

    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], [60, 300])
    folded = Counted(rng.normal(size=(360, 4)), rng.normal(size=(5, 4)), np.zeros(5))
    surface = Surface(y, folded, [{"tau": float(k)} for k in range(5)])
    first = [select(surface, Objective(maximize=m)).value for m in ("f1", "auc", "balanced_accuracy")]
    assert Counted.calls == 1
    fresh = Surface(y, np.asarray(folded.columns(0, 5)), surface.lams)
    assert first == [select(fresh, Objective(maximize=m)).value for m in ("f1", "auc", "balanced_accuracy")]
    assert surface.swapped_halves(3) is surface.swapped_halves(3)


def test_few_positives_warn_and_fewer_refuse():
    with pytest.warns(UserWarning, match="only 49 positives to tune on"):
        choose(make(n_positive=49), Objective(maximize="f1"), resamples=10)
    with pytest.raises(ValueError, match="have 4 positives; at least 5 are needed"):
        choose(make(n_positive=4), Objective(maximize="f1"), resamples=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose(make(n_positive=50), Objective(maximize="f1"), resamples=10)


def test_bounds_that_cannot_be_met_warn_and_are_noted():
    with pytest.warns(UserWarning, match="precision is at most"):
        point = choose(
            make(), Objective(maximize="recall", subject_to={"precision": 0.99, "recall": 0.95}), resamples=10
        )
    assert not point.feasible
    assert "The nearest was taken" in point.note


def test_same_seed_same_point():
    surface, objective = make(2), Objective(maximize="auc")
    assert choose(surface, objective, resamples=50) == choose(surface, objective, resamples=50)
