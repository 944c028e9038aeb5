import gzip
import json
import pickle
from dataclasses import fields, replace
from pathlib import Path

import pytest

from lossdial_studies import methods
from lossdial_studies.experiment import Experiment, grid, image_set, spread_settings, trials
from lossdial_studies.methods import METHODS

ONE = Experiment("aptos", 100.0, "frozen", "vs+lct", 3, 0, 30)


def test_a_key_is_of_the_content() -> None:
    assert ONE.key == Experiment("aptos", 100.0, "frozen", "vs+lct", 3, 0, 30).key
    others = [
        replace(ONE, data="ham10000-melanoma"),
        replace(ONE, beta=200.0),
        replace(ONE, preset="cpu"),
        replace(ONE, method="vs+lct:sigma"),
        replace(ONE, setting=4),
        replace(ONE, seed=1),
        replace(ONE, epochs=31),
        replace(ONE, content="other files"),
    ]
    assert len({ONE.key, *(other.key for other in others)}) == 9


def test_another_image_size_or_evaluation_grid_is_another_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ONE.key
    object.__setattr__(entry := image_set("aptos"), "image_size", entry.image_size + 1)
    try:
        assert replace(ONE).key != before
    finally:
        object.__setattr__(entry, "image_size", entry.image_size - 1)
    assert replace(ONE).key == before
    monkeypatch.setitem(methods._EVALUATION["vs"], "tau", (0.0, 1.0))
    assert replace(ONE).key != before


def test_the_recipe_is_the_preset_s_with_the_method_s_choices() -> None:
    assert ONE.recipe.optimizer.sam_rho is None
    sharp = replace(ONE, method="vs+sam+lct", epochs=7).recipe
    assert (sharp.optimizer.sam_rho, sharp.epochs, sharp.lam_per) == (0.1, 7, "batch")
    assert replace(ONE, method="vs+lct:per-sample").recipe.lam_per == "sample"
    assert replace(sharp, epochs=30, optimizer=ONE.recipe.optimizer) == ONE.recipe


def test_the_full_grid_of_a_data_set() -> None:
    runs = grid([("aptos", 100)], "frozen", tuple(METHODS))
    assert len(runs) == len({run.key for run in runs}) == 6 * 16 * 3 * 3  # at three learning rates
    assert {run.epochs for run in runs} == {30}
    groups = trials(runs)
    assert len(groups) == 6 * 3 * 3
    for trial in groups:
        assert [run.setting % 16 for run in trial.experiments] == list(range(16))
        assert len({(run.method, run.seed, run.recipe) for run in trial.experiments}) == 1
    assert sorted(run.key for trial in groups for run in trial.experiments) == sorted(run.key for run in runs)


def test_a_trial_travels_light() -> None:
    (trial,) = trials(grid([("aptos", 100)], "frozen", ["vs+lct"], seeds=[0], rates=[1e-3]))
    assert trial.key
    assert all(run.key and run.space and run.recipe for run in trial.experiments)
    sent = pickle.dumps(trial)
    assert b"torch" not in sent
    assert len(sent) < 3000
    there = pickle.loads(sent)
    assert there == trial
    assert there.key == trial.key


def test_a_learning_rate_is_part_of_the_search() -> None:
    runs = grid([("aptos", 100)], "frozen", ["vs"], settings=(1, 5), seeds=[0])
    assert [run.setting for run in runs] == [1, 5, 17, 21, 33, 37]
    assert [run.recipe.optimizer.lr for run in runs] == [1e-3, 1e-3, 3e-4, 3e-4, 1e-4, 1e-4]
    assert runs[0].space == runs[2].space != runs[1].space
    assert len({run.key for run in runs}) == 6
    assert len(grid([("aptos", 100)], "frozen", ["vs"], seeds=[0], rates=[1e-4, 1e-3])) == 32
    assert len(grid([("aptos", 100)], "cpu", ["vs"], seeds=[0])) == 16  # one rate
    assert {run.recipe.optimizer.lr for run in grid([("aptos", 100)], "frozen", ["vs"], rates=[3e-4])} == {3e-4}
    with pytest.raises(ValueError, match=r"rates must be of the preset's 0\.001, 0\.0003, 0\.0001; got 0\.01\."):
        grid([("aptos", 100)], "frozen", ["vs"], rates=[0.01, 1e-3])
    with pytest.raises(ValueError, match=r"rates must be .*; got none\."):
        grid([("aptos", 100)], "frozen", ["vs"], rates=[])


def test_what_is_solved_has_no_learning_rate_and_its_own_settings() -> None:
    runs = grid([("aptos", 100)], "frozen", ["vs:exact", "focal:exact", "ridge"], settings=(1,), seeds=[0])
    assert [(run.method, run.setting) for run in runs] == [
        ("vs:exact", 0),
        ("focal:exact", 0),
        *(("ridge", k) for k in range(8)),
    ]
    assert len(trials(runs)) == 3
    with pytest.raises(ValueError, match=r"ridge is solved, on features that do not move; preset cpu trains"):
        grid([("aptos", 100)], "cpu", ["vs", "ridge"])


def test_four_settings_hold_each_value_once() -> None:
    assert {s // 4 for s in spread_settings(4)} == {s % 4 for s in spread_settings(4)} == {0, 1, 2, 3}
    assert spread_settings(16) == tuple(range(16))
    assert [len(set(spread_settings(n))) for n in range(1, 17)] == list(range(1, 17))
    with pytest.raises(ValueError, match="settings must be 1 to 16; got 0"):
        spread_settings(0)


def test_keys_are_those_of_the_rows_that_are_there() -> None:
    """No renaming, and no setting that came later, may make a sweep run anew what the committed rows hold."""
    names = [field.name for field in fields(Experiment)]
    known = {}
    for path in sorted((Path(__file__).parents[2] / "results").glob("*/rows/*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                if row["format"] == 2:
                    known[row["key"]] = {name: row[name] for name in names}
    assert len(known) > 3000
    wrong = [key for key, values in known.items() if Experiment(**values).key != key]
    assert wrong == []
