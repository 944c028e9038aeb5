"""Names of a package, imported when they are first used."""

import subprocess
import sys

import pytest

import lossdial.data
import lossdial.sklearn


@pytest.mark.parametrize("package", [lossdial, lossdial.data, lossdial.sklearn], ids=lambda p: p.__name__)
def test_every_public_name_is_there(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is getattr(package, name)
        assert name in dir(package)
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):  # type: ignore[attr-defined]
        package.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_room_that_is_not_asked_for_is_not_imported() -> None:
    program = (
        "import sys, lossdial.data; lossdial.data.TableEncoder; "
        "sys.exit(bool({'PIL', 'lossdial_studies.data_sets', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_labels_load_no_reader_of_tables() -> None:
    program = (
        "import sys, lossdial.base.labels; sys.exit(bool({'pandas', 'pyarrow', 'PIL', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
