import math
import statistics
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, brier_score_loss, f1_score, roc_auc_score

from lossdial.dial import PAPER_METRICS, Surface
from lossdial_studies.protocols import METRICS, PROTOCOLS, best, halves, measure

MakeResults = Callable[..., pd.DataFrame]
Point = tuple[int, float, float]


@pytest.fixture
def frame(make_results: MakeResults) -> pd.DataFrame:
    return make_results(["vs+lct"]).sample(frac=1, random_state=0)  # the order of rows says nothing


def _by_point(frame: pd.DataFrame, column: str) -> dict[Point, dict[int, float]]:
    found: dict[Point, dict[int, float]] = {}
    for _, row in frame.iterrows():
        point = (int(row["setting"]), float(row["gamma"]), float(row["tau"]))
        found.setdefault(point, {})[int(row["seed"])] = float(row[column])
    return found


def _naive_choice(frame: pd.DataFrame, column: str, less: bool) -> Point:
    figures = _by_point(frame, column)
    order = sorted(figures)
    means = [statistics.fmean(figures[p].values()) for p in order]
    return order[means.index(min(means) if less else max(means))]


@pytest.mark.parametrize("metric", PAPER_METRICS)
def test_paper_is_a_naive_loop_over_the_evaluation_split(frame: pd.DataFrame, metric: str) -> None:
    point = _naive_choice(frame, metric, less=metric == "brier")
    figures = _by_point(frame, metric)[point].values()
    found = best(frame, metric, "paper")
    assert found.value == pytest.approx(statistics.fmean(figures))
    assert found.spread == pytest.approx(statistics.stdev(figures))
    assert (found.n_seeds, found.trainings) == (3, 9)


@pytest.mark.parametrize("metric", PAPER_METRICS)
def test_held_out_is_a_naive_loop_over_the_halves(frame: pd.DataFrame, metric: str) -> None:
    points = [_naive_choice(frame, f"{metric}_on_{k}", less=metric == "brier") for k in (0, 1)]
    reported = [_by_point(frame, f"{metric}_from_{k}")[points[k]] for k in (0, 1)]
    per_seed = [(reported[0][s] + reported[1][s]) / 2 for s in (0, 1, 2)]
    found = best(frame, metric, "held-out")
    assert found.value == pytest.approx(statistics.fmean(per_seed))
    assert found.spread == pytest.approx(statistics.stdev(per_seed))
    assert (found.n_seeds, found.trainings) == (3, 9)


@pytest.mark.parametrize("metric", ["auc", "max_f1", "brier"])
def test_held_out_never_looks_at_the_half_it_reports(frame: pd.DataFrame, metric: str) -> None:
    """What is reported of half 1 is numbered, so that the figure tells which (setting, λ) was chosen."""
    number = frame.groupby(["setting", "gamma", "tau"]).ngroup().astype(float)
    frame = frame.assign(**{f"{metric}_from_0": number, f"{metric}_from_1": 0.0})
    before = best(frame, metric, "held-out")
    noise = np.random.default_rng(1).uniform(0, 1, (2, len(frame)))
    other = frame.assign(**{f"{metric}_on_1": noise[0], metric: noise[1]})
    assert best(other, metric, "held-out") == before


def test_held_out_is_humbler_than_paper_where_there_is_nothing_to_find(make_results: MakeResults) -> None:
    # All figures are noise about 0.75 of which the best of 320 flatters. A held-out figure is the mean of two uniforms
    # on [0.5, 1]; the mean of 20 has standard error 0.023, so 0.85 is four of them away: it fails once in 30,000 seeds.
    noise = [make_results(["vs+lct"], settings=range(16), seeds=(0,), seed=seed) for seed in range(20)]
    held_out, paper = (statistics.fmean(best(n, "auc", p).value for n in noise) for p in ("held-out", "paper"))  # type: ignore[arg-type]
    assert held_out < 0.85 < 0.95 < paper


def test_one_seed_has_no_spread(make_results: MakeResults) -> None:
    for protocol in ("paper", "held-out"):
        found = best(make_results(["focal"], seeds=[4]), "auc", protocol)  # type: ignore[arg-type]
        assert math.isnan(found.spread)
        assert (found.n_seeds, found.trainings) == (1, 3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_lacks_a_seed_is_left_out(frame: pd.DataFrame, protocol: str) -> None:
    figures = [c for c in frame if str(c).startswith("auc")]
    frame.loc[frame["setting"] == 10, figures] = 0.99  # would win
    full = frame[(frame["setting"] != 10) | (frame["seed"] != 1)]
    with pytest.warns(UserWarning, match=r"vs\+lct on cifar10-auto-truck, β = 100: 20 of 60 .* 0, 1, 2 and are left"):
        found = best(full, "auc", protocol)  # type: ignore[arg-type]
    assert found.value < 0.99
    assert found.trainings == 8  # those left out were paid for too

    diverged = frame.copy()
    diverged.loc[(diverged["setting"] == 10) & (diverged["seed"] == 1), figures] = np.nan
    with pytest.warns(UserWarning, match="20 of 60"):
        assert best(diverged, "auc", protocol) == replace(found, trainings=9)  # type: ignore[arg-type]


def test_a_metric_outside_the_paper_has_the_paper_s_protocol_alone(frame: pd.DataFrame) -> None:
    frame["log_loss"] = 1 - frame["auc"]
    assert best(frame, "log_loss", "paper").value == pytest.approx(1 - best(frame, "auc", "paper").value)
    with pytest.raises(ValueError, match=r"no column log_loss_on_0, log_loss_from_0.*it has the metrics auc, .*Halves"):
        best(frame, "log_loss", "held-out")


def test_errors_say_what_to_do(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="no rows"):
        best(frame.iloc[:0], "auc", "paper")
    with pytest.raises(ValueError, match="one of paper, held-out; got 'test'"):
        best(frame, "auc", "test")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"no column g_mean.*it has the metrics auc, average_precision"):
        best(frame, "g_mean", "paper")
    with pytest.raises(ValueError, match="'acu'"):
        best(frame, "acu", "paper")
    with pytest.raises(ValueError, match="one preset; got frozen, cpu"):
        best(pd.concat([frame, frame.assign(preset="cpu")]), "auc", "paper")
    with pytest.raises(ValueError, match=r"several rows.*again.*Keep one run"):
        best(pd.concat([frame, frame.iloc[:1].assign(key="again")]), "auc", "paper")
    with pytest.raises(ValueError, match=r"no finite auc_on_0.*diverged"):
        best(frame.assign(auc_on_0=np.nan), "auc", "held-out")


# how a run is measured

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
