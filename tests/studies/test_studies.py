import importlib
import pkgutil

import pytest

from lossdial_studies import ABLATIONS, METHODS, STUDIES, preset, studies, study
from lossdial_studies.data_sets import ImageDataSet, data_set
from lossdial_studies.published import COLUMNS


def test_every_column_of_the_paper_has_a_study() -> None:
    cells = {cell for entry in STUDIES.values() for cell in entry.cells}
    assert {(column.data, column.beta) for column in COLUMNS} <= cells


@pytest.mark.parametrize("name", STUDIES)
def test_its_data_set_its_presets_and_its_command(name: str) -> None:
    entry = study(name)
    for data, beta in entry.cells:
        found = data_set(data)
        assert isinstance(found, ImageDataSet)
        assert beta in found.betas
        for kind in ("paper", "cpu", "frozen"):
            preset(data, kind)
    file = importlib.import_module(f"lossdial_studies.studies.{name.replace('-', '_')}")
    assert f"lossdial reproduce --study {name} " in (file.__doc__ or "")
    assert file.STUDY is entry


def test_no_file_is_forgotten() -> None:
    files = {module.name.replace("_", "-") for module in pkgutil.iter_modules(studies.__path__)} - {"base"}
    assert files == set(STUDIES)


def test_the_full_grid_and_parts_of_it() -> None:
    assert len(study("aptos").experiments("frozen")) == 2 * 6 * 16 * 3 * 3
    assert len(study("aptos").experiments("frozen", rates=(1e-4,))) == 2 * 6 * 16 * 3
    assert len(study("aptos").experiments("cpu", ("vs", "vs+lct"), settings=4, seeds=2, epochs=3)) == 2 * 2 * 4 * 2
    assert set(study("ablations").methods) == METHODS.keys() | ABLATIONS.keys()


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"no study is called 'auto-trcuk'; did you mean 'auto-truck'.*ablations"):
        study("auto-trcuk")
    with pytest.raises(ValueError, match="seeds must be at least 1; got 0"):
        study("aptos").experiments("frozen", seeds=0)
    with pytest.raises(ValueError, match="epochs must be at least 1; got 0"):
        study("aptos").experiments("frozen", epochs=0)


def test_any_prefix_of_the_claim_can_be_read() -> None:
    runs = study("claim").experiments("fast")
    assert len(set(runs)) == len(runs)
    first = runs[: 5 * 48]
    assert {run.data for run in first} == {"cifar10-auto-truck"}
    assert [run.seed for run in first] == [seed for seed in range(5) for _ in range(48)]
    assert [run.method for run in first[:48]] == ["vs"] * 16 + ["vs:block"] * 16 + ["vs+lct"] * 16
    searched = {run.seed for run in runs if run.method == "vs:block" and run.data == "cifar10-auto-truck"}
    assert searched == set(range(16))
