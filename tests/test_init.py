"""``import lossdial`` costs nothing; each name is imported when it is first used."""

import subprocess
import sys
from types import ModuleType

import pytest

import lossdial
import lossdial.data
import lossdial.sklearn


def loaded(program: str, *names: str) -> set[str]:
    """Which of the packages a fresh Python has loaded after a program."""
    program += f"\nimport sys; print(*sorted(set({names!r}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


HEAVY = ("torch", "pandas", "sklearn", "scipy", "numpy", "matplotlib", "lightning_fabric", "rich")


@pytest.mark.parametrize(
    ("program", "allowed"),
    [
        ("import lossdial; dir(lossdial); lossdial.__all__", set()),
        ("from lossdial import Dial, Objective", {"numpy", "scipy"}),
        ("import lossdial; lossdial.dial.Dial", {"numpy", "scipy"}),
        ("from lossdial import DialedClassifier", {*HEAVY} - {"torch"}),
    ],
)
def test_what_a_name_loads(program: str, allowed: set[str]) -> None:
    assert loaded(program, *HEAVY) <= allowed


# Lightning's Fabric costs as much as torch itself, and is for training.
TRAINING = ("lightning_fabric", "torch._dynamo", "matplotlib", "timm")


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("from lossdial import Bundle, LCTClassifier", TRAINING),
        ("from lossdial import Bundle, Dial", (*TRAINING, "sklearn", "scipy.stats")),
        ("import lossdial.data; lossdial.data.TableEncoder", ("PIL", "lossdial_studies.data_sets", "torch")),
        ("import lossdial.base.labels", ("pandas", "pyarrow", "PIL", "torch")),
    ],
)
def test_what_a_name_does_not_load(program: str, absent: tuple[str, ...]) -> None:
    assert not loaded(program, *absent)


@pytest.mark.parametrize("package", [lossdial, lossdial.data, lossdial.sklearn], ids=lambda p: p.__name__)
def test_every_public_name_is_there(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
        assert name in dir(package)
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018
