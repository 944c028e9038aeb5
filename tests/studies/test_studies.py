from collections.abc import Callable

import pytest

from lossdial_studies.data_sets import ImageDataSet, data_set
from lossdial_studies.experiment import grid
from lossdial_studies.methods import ABLATIONS, METHODS, method
from lossdial_studies.presets import preset
from lossdial_studies.published import COLUMNS
from lossdial_studies.scoreboard.rivals import rival
from lossdial_studies.scoreboard.sets import board_set
from lossdial_studies.studies import STUDIES, study


def test_every_column_of_the_paper_has_a_study() -> None:
    cells = {cell for entry in STUDIES.values() for cell in entry.cells}
    assert {(column.data, column.beta) for column in COLUMNS} <= cells


@pytest.mark.parametrize("name", STUDIES)
def test_its_data_set_and_its_presets(name: str) -> None:
    for data, beta in study(name).cells:
        entry = data_set(data)
        assert isinstance(entry, ImageDataSet)
        assert beta in entry.betas
        for kind in ("paper", "cpu", "frozen"):
            assert preset(data, kind).run_time


def test_the_full_grid_and_parts_of_it() -> None:
    assert len(study("aptos").experiments("frozen")) == 2 * 6 * 16 * 3 * 3
    assert len(study("aptos").experiments("frozen", rates=(1e-4,))) == 2 * 6 * 16 * 3
    assert len(study("aptos").experiments("cpu", ("vs", "vs+lct"), settings=4, seeds=2, epochs=3)) == 2 * 2 * 4 * 2
    ablated = {run.method for run in study("ablations").experiments("cpu")}
    assert ablated == METHODS.keys() | ABLATIONS.keys()


def test_any_prefix_of_the_claim_can_be_read() -> None:
    runs = study("claim").experiments("fast")
    assert len(set(runs)) == len(runs)
    first = runs[: 5 * 48]
    assert {run.data for run in first} == {"cifar10-auto-truck"}
    assert [run.seed for run in first] == [seed for seed in range(5) for _ in range(48)]
    assert [run.method for run in first[:48]] == ["vs"] * 16 + ["vs:block"] * 16 + ["vs+lct"] * 16
    searched = {run.seed for run in runs if run.method == "vs:block" and run.data == "cifar10-auto-truck"}
    assert searched == set(range(16))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: study("auto-trcuk"), "no study is called 'auto-trcuk'; did you mean 'auto-truck'.*ablations"),
        (lambda: study("aptos").experiments("frozen", seeds=0), "seeds must be at least 1; got 0"),
        (lambda: study("aptos").experiments("frozen", epochs=0), "epochs must be at least 1; got 0"),
        (lambda: preset("aptos", "gpu"), "one of paper, cpu, frozen for aptos; got 'gpu'"),
        (lambda: preset("mammography", "cpu"), "no presets for 'mammography'"),
        (lambda: method("vs+ltc"), r"'vs\+ltc'; did you mean 'vs\+lct'"),
        (lambda: grid([("aptos", 100)], "frozen", ["svm"]), "no method is called 'svm'"),
        (lambda: grid([("aptos", 100)], "gpu", ["vs"]), "preset must be one of"),
        (lambda: rival("lightgmb"), "did you mean 'lightgbm'"),
        (lambda: board_set("willt"), "did you mean 'wilt'"),
    ],
)
def test_unknown_names_and_numbers_are_told_before_anything_runs(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask()
