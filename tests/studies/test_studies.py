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
