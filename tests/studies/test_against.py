"""One training against a search: by hand, in a case where the answer is known, and where it cannot be said."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lossdial.dial import Surface
from lossdial.dial.surface import swapped_halves
from lossdial_studies import Experiment, Store, StoreError
from lossdial_studies.against import comparable, lower_bound, one_against_search
from lossdial_studies.measuring import halves, measure
from lossdial_studies.sheets import against_tables, written

N = 400


def make_store(folder: Path, strength: dict[tuple[str, int, int], float]) -> Store:
    """Runs (method, setting, seed) whose scores tell the classes apart by so many standard deviations."""
    store = Store.create(folder)
    y = np.repeat([0, 1], [N // 2, N // 2])
    parts = halves(y.astype(np.int64), None)
    for (name, setting, seed), distance in strength.items():
        run = Experiment("cifar10-auto-truck", 100.0, "cpu", name, setting, seed, 35)
        lams = run.how.evaluation(run.space)
        random = np.random.default_rng([setting, seed, len(name)])
        noise = random.normal(size=(N, 1)) + 0.3 * random.normal(size=(N, len(lams)))
        scores = (noise + distance * y[:, None]).astype(np.float32)
        measured = measure(Surface(y, scores, [lam.as_dict() for lam in lams]), parts)
        store.write(run, run.key, measured, 10.0, (y, scores))
    return store


def study(distance: float, lct: float, folder: Path, seeds: int = 3) -> tuple[Store, pd.DataFrame]:
    runs = {("vs", setting, seed): distance for setting in (0, 1, 5) for seed in range(seeds)}
    runs |= {(name, 1, seed): lct for name in ("vs+lct:polynomial", "vs+lct:no-film") for seed in range(5)}
    store = make_store(folder, runs)
    return store, store.frame()


def test_the_figures_are_those_of_a_naive_choice(tmp_path: Path) -> None:
    store, frame = study(1.0, 1.2, tmp_path)
    found = one_against_search(frame, store, resamples=6, halvings=2)
    y = np.repeat([0, 1], [N // 2, N // 2])

    def naive(name: str, seed: int) -> float:
        keys = frame[(frame["method"] == name) & (frame["seed"] == seed)]["key"].unique()
        scores = np.hstack([store.scores(key)[1] for key in keys])
        values = []
        for a, b in (*swapped_halves(y == 1, 0), *swapped_halves(y == 1, 1)):
            chosen = int(np.argmax([roc_auc_score(y[a], s[a]) for s in scores.T]))
            values.append(roc_auc_score(y[b], scores[b, chosen]))
        return float(np.mean(values))

    search = [naive("vs", seed) for seed in range(3)]
    for one in found.differences:
        mine = [naive(one.method, seed) for seed in range(3)]  # the seeds that both have
        assert one.auc == pytest.approx(np.mean(mine), abs=1e-9)
        assert one.search == pytest.approx(np.mean(search), abs=1e-9)
        assert one.seeds == (0, 1, 2)
    assert found.auc == pytest.approx(np.mean(search), abs=1e-9)
    assert [d.method for d in found.differences] == ["vs+lct:no-film", "vs+lct:polynomial"]
    assert (found.trainings, found.seconds, found.seeds) == (3, 30.0, (0, 1, 2))
    assert found.plain is not None
    assert found.plain.setting == 0
    assert [size for size, _ in found.averaged] == [1, 2, 3]
    keys = [frame[(frame["method"] == "vs") & (frame["seed"] == seed)]["key"].unique() for seed in range(3)]
    means = [np.mean([store.scores(key)[1][:, 0] for key in mine], axis=0) for mine in keys]
    assert found.averaged[-1][1] == pytest.approx(np.mean([roc_auc_score(y, mean) for mean in means]), abs=1e-6)
    assert found.settings == tuple(sorted(found.settings, key=lambda s: -s.auc))


def test_no_one_halving_decides(tmp_path: Path) -> None:
    store, frame = study(1.0, 1.0, tmp_path)
    one, many = (
        [
            one_against_search(frame, store, seed=seed, resamples=80, halvings=halvings).differences[0]
            for seed in range(6)
        ]
        for halvings in (1, 40)
    )
    assert np.std([d.low for d in many]) < 0.6 * np.std([d.low for d in one])
    assert all(0 <= d.kept <= 1 for d in many)


def test_a_bound_is_below_its_estimate_and_the_verdict_follows_it(tmp_path: Path) -> None:
    better = one_against_search(*reversed(study(0.5, 1.5, tmp_path / "better")), resamples=200)
    worse = one_against_search(*reversed(study(1.5, 0.5, tmp_path / "worse")), resamples=200)
    for one in (*better.differences, *worse.differences):
        assert one.low < one.difference
    assert all(one.reached for one in better.differences)
    assert not any(one.reached for one in worse.differences)
    same = one_against_search(*reversed(study(0.5, 1.5, tmp_path / "better")), resamples=200)
    assert same == better  # of one seed


def test_the_bound_covers(tmp_path: Path) -> None:
    """Both are equally good, so a 95 % bound lies above 0 in 5 % of studies: of 40, more than 7 with p < 0.002.

    A seed's images are easy or hard for both, by ten times what tells one training from the next.
    """
    above = 0
    for k in range(40):
        ease = np.random.default_rng(k).normal(1.0, 0.5, 3)
        runs = {(name, i, 3 * k + s): ease[s] for i, name in enumerate(("vs", "vs+lct:no-film")) for s in range(3)}
        store = make_store(tmp_path / str(k), runs)
        (one,) = one_against_search(store.frame(), store, resamples=100).differences
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
        above += lower_bound(differences, differences + resampled) > 0
    assert 0.024 < above / 3000 < 0.076


def test_a_seed_that_the_search_has_not_finished_is_left_out(tmp_path: Path) -> None:
    store, frame = study(1.0, 1.0, tmp_path)
    frame = frame[~((frame["method"] == "vs") & (frame["seed"] == 2) & (frame["setting"] == 5))]
    found = one_against_search(frame, store, resamples=3)
    assert (found.seeds, found.left_out) == ((0, 1), (2,))
    assert "Left out: seed 2" in written(against_tables(found)[0], "markdown")


def test_every_way_of_writing_it(tmp_path: Path) -> None:
    store, frame = study(1.0, 1.0, tmp_path)
    found = one_against_search(frame, store, resamples=20)
    for table in against_tables(found):
        for format in ("markdown", "latex", "csv"):
            text = written(table, format)
            assert all(row[1] in text for row in table.rows)
    first, each = against_tables(found)
    assert first.rows[0][0] == "VS, best of 3"
    assert all(row[5].startswith(("reached (", "missed (")) for row in first.rows[1:])
    assert any("the bar of 0.85 is missed" in note for note in each.notes)  # a distance of 1 is an AUC of 0.76
    assert len(each.rows) == 3


def test_where_it_cannot_be_said(tmp_path: Path) -> None:
    store, frame = study(1.0, 1.0, tmp_path, seeds=1)
    assert comparable(frame, store)
    alone = one_against_search(frame, store, resamples=3)  # one seed says nothing of others
    assert [row[4:6] for row in against_tables(alone)[0].rows[1:]] == [("–", "missed (0 %)")] * 2
    with pytest.raises(ValueError, match=r"vs\+lct:no-film and vs have no seed in common"):
        one_against_search(frame[(frame["method"] == "vs") | (frame["seed"] > 0)], store)
    with pytest.raises(ValueError, match="there is no training of vs to compare with"):
        one_against_search(frame[frame["method"] != "vs"], store)
    with pytest.raises(ValueError, match=r"no training of vs\+lct at setting 1"):
        one_against_search(frame[frame["method"] == "vs"], store)
    with pytest.raises(ValueError, match=r"search must be a method at one λ, such as 'vs'; got 'vs\+lct'"):
        one_against_search(frame, store, "vs+lct")
    two = pd.concat([frame, frame.assign(epochs=10)])
    with pytest.raises(ValueError, match=r"this table is of one epochs; there are 35, 10\. Keep one with --epochs"):
        one_against_search(two, store)
    assert not comparable(two, store)
    altered = frame.assign(auc_on_0=frame["auc_on_0"] + 1e-3)
    with pytest.raises(StoreError, match="do not give the AUC of its rows on half 0"):
        one_against_search(altered, store)
    (tmp_path / "scores" / f"{frame['key'].iloc[0]}.npz").unlink()
    assert not comparable(frame, store)
    with pytest.raises(StoreError, match="packed results come without their scores"):
        one_against_search(frame, store)
