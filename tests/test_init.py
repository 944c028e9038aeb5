"""``import lossdial`` costs nothing; each name is imported when it is first used."""

import subprocess
import sys

import pytest

import lossdial


def loaded(program: str, *names: str) -> set[str]:
    """Which of the packages a fresh Python has loaded after a program."""
    program += f"\nimport sys; print(*sorted(set({names!r}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


HEAVY = ("torch", "pandas", "sklearn", "scipy", "numpy", "matplotlib", "lightning_fabric", "rich")


def test_the_package_alone_loads_nothing() -> None:
    assert loaded("import lossdial; dir(lossdial); lossdial.__all__", *HEAVY) == set()


def test_the_dial_needs_neither_torch_nor_pandas() -> None:
    assert loaded("from lossdial import Dial, Objective", *HEAVY) <= {"numpy", "scipy"}
    assert loaded("import lossdial; lossdial.dial.Dial", *HEAVY) <= {"numpy", "scipy"}


def test_a_dialed_classifier_needs_no_torch() -> None:
    assert "torch" not in loaded("from lossdial import DialedClassifier", *HEAVY)


def test_a_trained_model_is_read_without_what_trains() -> None:
    """Lightning's Fabric costs as much as torch itself, and is for training."""
    training = ("lightning_fabric", "torch._dynamo", "matplotlib", "timm")
    assert not loaded("from lossdial import Bundle, LCTClassifier", *training)
    assert not loaded("from lossdial import Bundle, Dial", *training, "sklearn", "scipy.stats")


@pytest.mark.parametrize("name", lossdial.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(lossdial, name).__name__ == name
    assert name in dir(lossdial)
