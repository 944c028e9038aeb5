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


@pytest.mark.parametrize(
    ("imports", "absent"),
    [
        ("lossdial.data; lossdial.data.TableEncoder", {"PIL", "lossdial_studies.data_sets", "torch"}),
        ("lossdial.base.labels", {"pandas", "pyarrow", "PIL", "torch"}),
    ],
)
def test_a_room_that_is_not_asked_for_is_not_imported(imports: str, absent: set[str]) -> None:
    program = f"import sys, {imports}; sys.exit(bool({absent!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
