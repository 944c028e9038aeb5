import pytest

from lossdial_studies.data_sets import ImageDataSet, data_set
from lossdial_studies.methods import ABLATIONS, METHODS
from lossdial_studies.presets import preset
from lossdial_studies.published import COLUMNS
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


@pytest.mark.parametrize("argument", ["seeds", "epochs"])
def test_bad_input(argument: str) -> None:
    with pytest.raises(ValueError, match=r"no study is called 'auto-trcuk'; did you mean 'auto-truck'.*ablations"):
        study("auto-trcuk")
    with pytest.raises(ValueError, match=f"{argument} must be at least 1; got 0"):
        study("aptos").experiments("frozen", **{argument: 0})


def test_any_prefix_of_the_claim_can_be_read() -> None:
    runs = study("claim").experiments("fast")
    assert len(set(runs)) == len(runs)
    first = runs[: 5 * 48]
    assert {run.data for run in first} == {"cifar10-auto-truck"}
    assert [run.seed for run in first] == [seed for seed in range(5) for _ in range(48)]
    assert [run.method for run in first[:48]] == ["vs"] * 16 + ["vs:block"] * 16 + ["vs+lct"] * 16
    searched = {run.seed for run in runs if run.method == "vs:block" and run.data == "cifar10-auto-truck"}
    assert searched == set(range(16))
