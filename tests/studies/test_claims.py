"""The claim: by hand, in cases where the answer is known, and where it cannot be said."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lossdial.dial import Surface
from lossdial.dial.surface import swapped_halves
from lossdial_studies import Experiment, Store
from lossdial_studies.claims import Side, claim_tables, claimable, claims
from lossdial_studies.measuring import halves, measure
from lossdial_studies.sheets import written

N = 400


def make_store(folder: Path, strength: dict[str, float], seeds: int = 3, densities: tuple[int, ...] = (1,)) -> Store:
    """Runs of a method whose scores tell the classes apart by so many standard deviations; searches are whole."""
    store = Store.create(folder)
    y = np.repeat([0, 1], [N // 2, N // 2])
    parts = halves(y.astype(np.int64), None)
    for name, distance in strength.items():
        for setting in range(16) if "lct" not in name else densities:
            for seed in range(seeds):
                run = Experiment("cifar10-auto-truck", 100.0, "fast", name, setting, seed, 9)
                lams = run.how.evaluation(run.space)
                random = np.random.default_rng([setting, seed, len(name)])
                noise = random.normal(size=(N, 1)) + 0.3 * random.normal(size=(N, len(lams)))
                scores = (noise + distance * y[:, None]).astype(np.float32)
                measured = measure(Surface(y, scores, [lam.as_dict() for lam in lams]), parts)
                store.write(run, run.key, measured, 10.0, (y, scores))
    return store


def by_name(found):
    return {(c.ours.method, c.ours.kind, c.rival.method, c.rival.kind): c for c in found}


def test_the_figures_are_those_of_naive_choices(tmp_path: Path) -> None:
    store = make_store(tmp_path, {"vs": 1.0, "vs:block": 1.1, "vs+lct": 1.2})
    frame = store.frame()
    found = by_name(claims(frame, store, resamples=6, halvings=2))
    y = np.repeat([0, 1], [N // 2, N // 2])
    cuts = [pair for halving in range(2) for pair in swapped_halves(y == 1, halving)]

    def columns(name: str, seed: int) -> list[np.ndarray]:
        keys = frame[(frame["method"] == name) & (frame["seed"] == seed)]["key"].unique()
        return [store.scores(key)[1] for key in keys]

    def naive(kind: str, name: str, seed: int) -> float:
        runs, values = columns(name, seed), []
        for a, b in cuts:
            if kind in ("best", "one"):
                scores = np.hstack(runs)
                chosen = int(np.argmax([roc_auc_score(y[a], s[a]) for s in scores.T]))
                values.append(roc_auc_score(y[b], scores[b, chosen]))
            elif kind == "mean":
                values.append(np.mean([roc_auc_score(y[b], s[b, 0]) for s in runs]))
            else:
                values.append(roc_auc_score(y[b], np.mean(np.hstack(runs), axis=1)[b]))
        return float(np.mean(values))

    assert len(found) == 2 * 3 + 3  # one training against six rivals, and the block against the plain search
    for (ours, kind, rival, which), claim in found.items():
        mine, theirs = ([naive(k, m, seed) for seed in range(3)] for k, m in ((kind, ours), (which, rival)))
        assert claim.auc == pytest.approx(np.mean(mine), abs=1e-6)
        assert claim.rival_auc == pytest.approx(np.mean(theirs), abs=1e-6)
        assert claim.seeds == (0, 1, 2)
        assert claim.ahead == sum(a > b for a, b in zip(mine, theirs, strict=True))


def test_any_density_is_their_mean(tmp_path: Path) -> None:
    store = make_store(tmp_path, {"vs": 1.0, "vs+lct": 1.2}, densities=tuple(range(16)))
    found = by_name(claims(store.frame(), store, resamples=4, halvings=2))
    one, any_of = found["vs+lct", "one", "vs", "best"], found["vs+lct", "any", "vs", "best"]
    assert one.auc != any_of.auc
    assert one.rival_auc == any_of.rival_auc
    assert any_of.ours == Side("vs+lct", "any", 16)
    assert "mean over 16 densities" in any_of.ours.title


@pytest.mark.parametrize(("lct", "verdict"), [(2.5, "better"), (0.3, "not shown")])
def test_verdicts_where_the_answer_is_known(tmp_path: Path, lct: float, verdict: str) -> None:
    store = make_store(tmp_path, {"vs": 1.2, "vs+lct": lct}, seeds=4)
    claim = by_name(claims(store.frame(), store, resamples=40, halvings=4))["vs+lct", "one", "vs", "mean"]
    assert claim.verdict == verdict
    assert claim.low < claim.difference
    assert claim.detectable > claim.difference - claim.low  # power asks for more than the bound does


def test_incomplete_searches_and_single_seeds(tmp_path: Path) -> None:
    store = make_store(tmp_path, {"vs": 1.0, "vs+lct": 1.2}, seeds=2)
    frame = store.frame()
    cut = frame[~((frame["method"] == "vs") & (frame["seed"] == 1) & (frame["setting"] == 3))]
    claim = by_name(claims(cut, store, resamples=4, halvings=2))["vs+lct", "one", "vs", "best"]
    assert claim.seeds == (0,)
    assert math.isnan(claim.low)
    assert claim.verdict == "one seed"
    with pytest.raises(ValueError, match="no seed has both a complete search of vs and a training"):
        claims(frame[frame["setting"] != 3], store, resamples=4, halvings=2)


def test_the_tables_in_words(tmp_path: Path) -> None:
    store = make_store(tmp_path, {"vs": 1.0, "vs:block": 1.1, "vs+lct": 1.2})
    tables = claim_tables(claims(store.frame(), store, resamples=4, halvings=2), "a pair")
    assert [table.title for table in tables] == [
        "AUC against VS, a pair",
        "AUC against VS, FiLM at a constant λ, a pair",
    ]
    assert "VS + LCT, one training" in written(tables[0], "markdown")
    assert all(len(row) == len(table.headings) for table in tables for row in table.rows)


def test_claimable_where_a_control_and_the_scores_are_there(tmp_path: Path) -> None:
    store = make_store(tmp_path, {"vs": 1.0, "vs:block": 1.1, "vs+lct": 1.2}, seeds=1)
    frame = store.frame()
    assert claimable(frame, store)
    assert not claimable(frame[frame["method"] != "vs:block"], store)
    assert not claimable(frame[frame["method"] != "vs"], store)
    (store.folder / "scores" / f"{frame['key'].iloc[0]}.npz").unlink()
    assert not claimable(frame, store)


def test_bad_input(tmp_path: Path) -> None:
    store = make_store(tmp_path, {"vs": 1.0, "vs+lct": 1.2}, seeds=1)
    frame = store.frame()
    with pytest.raises(ValueError, match="search must be a method at one λ"):
        claims(frame, store, "vs+lct")
    with pytest.raises(ValueError, match="there is no training yet"):
        claims(frame.iloc[:0], store)
    with pytest.raises(ValueError, match="this table is of one epochs; there are 9, 12"):
        claims(pd.concat([frame, frame.assign(epochs=12)]), store)
