"""One training against a search: by hand, in cases where the answer is known, and where it cannot be said."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lossdial.dial import Surface
from lossdial.dial.surface import swapped_halves
from lossdial_studies.claims import (
    OTHER_METRICS,
    against_search,
    against_tables,
    averaged,
    claim_tables,
    claimable,
    claims,
    comparable,
    metric_claims,
)
from lossdial_studies.comparisons import Side, Sides, bound, compare
from lossdial_studies.experiment import Experiment
from lossdial_studies.protocols import halves, measure
from lossdial_studies.rendering import written
from lossdial_studies.store import Store, StoreError

N = 400
Y = np.repeat([0, 1], [N // 2, N // 2])
SOME = (0, 1, 5)
ALL = tuple(range(16))


def make(folder: Path, runs: dict[tuple[str, int, int], float]) -> tuple[pd.DataFrame, Store]:
    """Runs (method, setting, seed) whose scores tell the classes apart by so many standard deviations."""
    store = Store.create(folder)
    parts = halves(Y.astype(np.int64), None)
    for (name, setting, seed), distance in runs.items():
        run = Experiment("cifar10-auto-truck", 100.0, "cpu", name, setting, seed, 35)
        lams = run.how.evaluation(run.space)
        random = np.random.default_rng([setting, seed, len(name)])
        noise = random.normal(size=(N, 1)) + 0.3 * random.normal(size=(N, len(lams)))
        scores = (noise + distance * Y[:, None]).astype(np.float32)
        measured = measure(Surface(Y, scores, [lam.as_dict() for lam in lams]), parts)
        store.write(run, run.key, measured, 10.0, (Y, scores))
    return store.frame(), store


def searched(
    folder: Path, strength: dict[str, float], seeds: int = 3, settings: tuple[int, ...] = ALL
) -> tuple[pd.DataFrame, Store]:
    """A search at these settings, and LCT at the one density, over two seeds more."""
    runs = {}
    for name, distance in strength.items():
        lct = "lct" in name
        places = [(setting, seed) for setting in ((1,) if lct else settings) for seed in range(seeds + 2 * lct)]
        runs |= {(name, *place): distance for place in places}
    return make(folder, runs)


def naive(frame: pd.DataFrame, store: Store, side: Side, seed: int) -> float:
    """The AUC of one side of two halvings."""
    rows = frame[(frame["method"] == side.method) & (frame["seed"] == seed)]
    runs, values = [store.scores(key)[1] for key in rows["key"].unique()], []
    for a, b in (pair for halving in range(2) for pair in swapped_halves(Y == 1, halving)):
        if side.kind in ("best", "one"):
            scores = np.hstack(runs)
            chosen = int(np.argmax([roc_auc_score(Y[a], s[a]) for s in scores.T]))
            values.append(roc_auc_score(Y[b], scores[b, chosen]))
        elif side.kind == "mean":
            values.append(np.mean([roc_auc_score(Y[b], s[b, 0]) for s in runs]))
        else:
            values.append(roc_auc_score(Y[b], np.mean(np.hstack(runs), axis=1)[b]))
    return float(np.mean(values))


def test_the_figures_are_those_of_naive_choices(tmp_path: Path) -> None:
    frame, store = searched(tmp_path, {"vs": 1.0, "vs:block": 1.1, "vs+lct": 1.2})
    differences = claims(frame, store, resamples=6, halvings=2)
    assert len(differences) == 2 * 3 + 3  # one training against six rivals, and the block against the plain search
    for one in differences:
        ours, rival = ([naive(frame, store, side, seed) for seed in range(3)] for side in (one.ours, one.rival))
        assert (one.auc, one.rival_auc) == pytest.approx((np.mean(ours), np.mean(rival)), abs=1e-6)
        assert one.seeds == (0, 1, 2)
        assert one.ahead == sum(a > b for a, b in zip(ours, rival, strict=True))


def test_one_training_against_the_best_of_some_settings(tmp_path: Path) -> None:
    strength = {"vs": 1.0, "vs+lct:polynomial": 1.2, "vs+lct:no-film": 1.2}
    frame, store = searched(tmp_path, strength, settings=SOME)
    differences, auc, rows, left_out = against_search(frame, store, resamples=6, halvings=2)
    assert [one.ours.method for one in differences] == ["vs+lct:no-film", "vs+lct:polynomial"]
    search = [naive(frame, store, Side("vs", "best", 3), seed) for seed in range(3)]
    for one in differences:
        mine = [naive(frame, store, one.ours, seed) for seed in range(3)]  # the seeds that both have
        assert (one.auc, one.rival_auc) == pytest.approx((np.mean(mine), np.mean(search)), abs=1e-6)
        assert 0 <= one.kept <= 1
    assert auc == pytest.approx(np.mean(search), abs=1e-9)
    assert left_out == []
    means = averaged(rows, store)
    assert [size for size, _ in means] == [1, 2, 3]
    scores = [np.hstack([store.scores(key)[1] for key in group["key"].unique()]) for _, group in rows.groupby("seed")]
    assert means[-1][1] == pytest.approx(np.mean([roc_auc_score(Y, s.mean(axis=1)) for s in scores]), abs=1e-6)


def test_any_density_is_their_mean(tmp_path: Path) -> None:
    runs = {(name, setting, 0): 1.0 for name in ("vs", "vs+lct") for setting in ALL}
    differences = claims(*make(tmp_path, runs), resamples=4, halvings=2)
    by_kind = {one.ours.kind: one for one in differences if one.rival.kind == "best"}
    assert by_kind["one"].auc != by_kind["any"].auc
    assert by_kind["one"].rival_auc == by_kind["any"].rival_auc
    assert "mean over 16 densities" in by_kind["any"].ours.title


def test_no_one_halving_decides(tmp_path: Path) -> None:
    frame, store = searched(tmp_path, {"vs": 1.0, "vs+lct:no-film": 1.0}, settings=SOME)
    best, one = Side("vs", "best", 3), Side("vs+lct:no-film", "one", 1)
    sides = Sides.read(frame, store, ("vs", one.method), ("best", "one"), 3)
    alone, many = (
        [compare(sides, [(one, best)], 80, halvings, seed)[0][0].low for seed in range(6)] for halvings in (1, 40)
    )
    assert np.std(many) < 0.6 * np.std(alone)


@pytest.mark.parametrize(("lct", "verdict", "reached"), [(2.5, "better", True), (0.3, "not shown", False)])
def test_verdicts_where_the_answer_is_known(tmp_path: Path, lct: float, verdict: str, reached: bool) -> None:
    frame, store = searched(tmp_path, {"vs": 1.2, "vs+lct": lct}, seeds=4)
    one = next(one for one in claims(frame, store, resamples=40, halvings=4) if one.rival.kind == "mean")
    assert one.verdict == verdict
    assert one.low < one.difference
    assert one.detectable > one.difference - one.low  # power asks for more than the bound does
    table, _ = against_tables(frame, store, resamples=40, halvings=4)
    assert table.rows[1][5] == ("reached (100 %)" if reached else "missed (0 %)")
    assert against_tables(frame, store, resamples=40, halvings=4)[0] == table


def test_the_bound_covers(tmp_path: Path) -> None:
    """Both are equally good, so a 95 % bound lies above 0 in 5 % of studies: of 40, more than 7 with p < 0.002.

    A seed's images are easy or hard for both, by ten times what tells one training from the next.
    """
    above = 0
    for k in range(40):
        ease = np.random.default_rng(k).normal(1.0, 0.5, 3)
        runs = {(name, i, 3 * k + s): ease[s] for i, name in enumerate(("vs", "vs+lct:no-film")) for s in range(3)}
        (one,), *_ = against_search(*make(tmp_path / str(k), runs), resamples=100)
        above += one.low > 0
    assert above <= 7


@pytest.mark.parametrize(("seeds", "shared"), [(3, 0.0), (5, 0.0), (5, 0.5), (7, 1.0)])
def test_the_bound_over_seeds_and_rows_covers(seeds: int, shared: float) -> None:
    """Differences whose mean is 0, of which rows move all seeds together by ``shared`` and each alone by 0.5.

    The bound lies above 0 in 5 % of 3,000 studies, give or take four standard deviations of that count: 3.4 to 6.6 %;
    few seeds make the degrees of freedom uncertain, for which 1 % more is allowed for on either side.
    """
    random, above = np.random.default_rng(seeds), 0
    for _ in range(3000):
        rows = shared * random.normal() + 0.5 * random.normal(size=seeds)
        resampled = shared * random.normal(size=(200, 1)) + 0.5 * random.normal(size=(200, seeds))
        differences = rows + random.normal(size=seeds)  # and the seeds themselves by 1
        above += bound(differences, differences + resampled)[0] > 0
    assert 0.024 < above / 3000 < 0.076


def test_seeds_that_are_not_whole_or_alone(tmp_path: Path) -> None:
    frame, store = searched(tmp_path, {"vs": 1.0, "vs+lct": 1.2}, seeds=2)
    cut = frame[~((frame["method"] == "vs") & (frame["seed"] == 1) & (frame["setting"] == 3))]
    one = claims(cut, store, resamples=4, halvings=2)[0]
    assert one.seeds == (0,)
    assert math.isnan(one.low)
    assert one.verdict == "one seed"
    table, _ = against_tables(cut, store, resamples=3)
    assert table.rows[1][4:6] == ("–", "missed (0 %)")
    assert "Left out: seed 1, of which the search is not complete." in table.notes


def test_every_way_of_writing_it(tmp_path: Path) -> None:
    frame, store = searched(tmp_path, {"vs": 1.0, "vs:block": 1.1, "vs+lct": 1.2})
    against = against_tables(frame, store, resamples=4)
    tables = claim_tables(frame, store, resamples=4)
    for table in (*against, *tables):
        assert all(len(row) == len(table.headings) for row in table.rows)
        for format in ("markdown", "latex", "csv"):
            text = written(table, format)
            assert all(row[-1] in text for row in table.rows)
    assert against[0].rows[0][0] == "VS, best of 16"
    assert any("the bar of 0.85 is missed" in note for note in against[1].notes)  # a distance of 1 is an AUC of 0.76
    assert len(against[1].rows) == 16
    about = "cifar10-auto-truck, β = 100, preset cpu, 35 epochs"
    titles = [f"AUC against VS, {about}", f"AUC against VS, FiLM at a constant λ, {about}"]
    assert [table.title for table in tables[:-1]] == titles
    assert "by the other metrics" in tables[-1].title


def test_what_a_store_is_enough_for(tmp_path: Path) -> None:
    frame, store = searched(tmp_path, {"vs": 1.0, "vs:block": 1.1, "vs+lct": 1.2}, seeds=1)
    assert claimable(frame, store)
    assert comparable(frame, store)
    assert not claimable(frame[frame["method"] != "vs:block"], store)
    for enough in (claimable, comparable):
        assert not enough(frame[frame["method"] != "vs"], store)
        assert not enough(frame.iloc[:0], store)
    assert not comparable(pd.concat([frame, frame.assign(epochs=10)]), store)
    (store.folder / "scores" / f"{frame['key'].iloc[0]}.npz").unlink()
    assert not claimable(frame, store)


def test_where_it_cannot_be_said(tmp_path: Path) -> None:
    frame, store = searched(tmp_path, {"vs": 1.0, "vs+lct": 1.0}, seeds=1)
    with pytest.raises(ValueError, match=r"this table is of one epochs; there are 35, 10\. Keep one with --epochs"):
        against_search(pd.concat([frame, frame.assign(epochs=10)]), store)
    for rows in (frame[frame["method"] != "vs"], frame[frame["method"] == "vs"], frame[frame["seed"] > 0]):
        for make_them in (against_search, claims):
            with pytest.raises(ValueError, match="no seed has both a complete search of vs and a training"):
                make_them(rows, store)
    with pytest.raises(StoreError, match="do not give the AUC of its rows on half 0"):
        against_search(frame.assign(auc_on_0=frame["auc_on_0"] + 1e-3), store)
    (store.folder / "scores" / f"{frame['key'].iloc[0]}.npz").unlink()
    with pytest.raises(StoreError, match="packed results come without their scores"):
        against_search(frame, store)


def rows_of(make_results, seeds=(0, 1, 2)):
    return make_results(methods=("vs", "vs:block", "vs+lct"), seeds=seeds, settings=ALL, preset="fast")


def test_other_metrics_are_those_of_naive_choices(make_results) -> None:
    frame = rows_of(make_results)
    found = metric_claims(frame).to_dict("records")
    assert len(found) == 2 * len(OTHER_METRICS)
    for claim in found:
        sign = -1 if claim["metric"] == "brier" else 1
        pairs = []
        for seed in range(3):
            for name in ("vs+lct", claim["search"]):
                rows = frame[(frame["method"] == name) & (frame["seed"] == seed)]
                rows = rows[rows["setting"] == 1] if name == "vs+lct" else rows
                picked = [
                    max(rows.to_dict("records"), key=lambda row: sign * row[f"{claim['metric']}_on_{half}"])
                    for half in (0, 1)
                ]
                pairs.append(np.mean([row[f"{claim['metric']}_from_{half}"] for half, row in enumerate(picked)]))
        one, best = np.mean(pairs[::2]), np.mean(pairs[1::2])
        assert (claim["one"], claim["best"]) == pytest.approx((one, best))
        assert claim["low_best"] < sign * (one - best)


def test_other_metrics_of_seeds_that_are_not_whole_or_alone(make_results) -> None:
    frame = rows_of(make_results)
    cut = metric_claims(frame[~((frame["method"] == "vs") & (frame["seed"] == 1) & (frame["setting"] == 7))])
    assert cut.groupby("search")["seeds"].unique().to_dict() == {"vs": [2], "vs:block": [3]}
    assert metric_claims(frame[frame["method"] != "vs+lct"]).empty
    assert metric_claims(rows_of(make_results, seeds=(0,)))["low_mean"].isna().all()
