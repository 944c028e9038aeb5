"""The registry: every name, its description, the list, and fetching."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from lossdial_studies.data_sets.cifar import CIFAR10, CIFAR100
from lossdial_studies.data_sets.cifar_tasks import CIFAR10_CLASSES
from lossdial_studies.data_sets.dataset import ImageDataSet
from lossdial_studies.data_sets.named import DATA_SETS, data_set, fetch

PAPER = ["cifar10-auto-truck", "cifar10-auto-deer", "cifar10-animal-vehicle", "cifar100-household"]
PAPER += ["dogs-vs-cats", "melanoma", "aptos", "ham10000-melanoma"]


def test_names() -> None:
    names = [entry.name for entry in DATA_SETS]
    assert names[:8] == PAPER
    assert {"mammography", "campaign", "cover", "credit_default", "machine_failure"} <= set(names)
    assert len(names) == len(set(names))
    assert all(data_set(name) is entry for name, entry in zip(names, DATA_SETS, strict=True))


def test_any_pair_of_classes() -> None:
    pairs = [(a, b) for a in CIFAR10_CLASSES for b in CIFAR10_CLASSES if a != b]
    assert all(
        (data_set(f"cifar10-{a}-{b}").majority, data_set(f"cifar10-{a}-{b}").minority) == (a, b) for a, b in pairs
    )
    assert data_set("cifar10-automobile-truck") == data_set("cifar10-auto-truck")


def test_roles_of_the_paper() -> None:
    roles = {name: (data_set(name).majority, data_set(name).minority) for name in PAPER}
    assert roles["cifar10-auto-truck"] == ("automobile", "truck")
    assert roles["cifar10-animal-vehicle"] == ("animal", "vehicle")
    assert roles["cifar100-household"] == ("furniture", "electronics")
    assert roles["dogs-vs-cats"] == ("dog", "cat")
    assert roles["aptos"] == ("no retinopathy", "retinopathy")


def test_descriptions_are_immutable_and_complete() -> None:
    for entry in DATA_SETS:
        with pytest.raises(FrozenInstanceError):
            entry.name = "x"  # type: ignore[misc]  # that is the point
        assert entry.source
        assert entry.licence
        assert entry.address.startswith("https://")
        if isinstance(entry, ImageDataSet):
            assert entry.default_beta in entry.betas


def test_official_checksums() -> None:
    checksums = {v.archive.file: v.archive.md5 for source in (CIFAR10, CIFAR100) for v in source.versions}
    assert checksums == {
        "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
        "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
        "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
        "cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8",
    }


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="no data set is called 'melanom'; did you mean 'melanoma'"):
        data_set("melanom")
    with pytest.raises(ValueError, match="no class 'lorry'"):
        data_set("cifar10-auto-lorry")


@pytest.mark.parametrize("name", ["melanoma", "aptos", "dogs-vs-cats", "ham10000-melanoma", "credit_default"])
def test_fetch_of_what_must_be_downloaded_by_hand(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} cannot be downloaded without an account\. .*https://.*{tmp_path}"):
        fetch(name, tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar10-cat-dog", "cifar100", "cifar100-household"])
def test_fetch_checks_what_is_already_there(tmp_path: Path, name: str) -> None:
    for source in (CIFAR10, CIFAR100):
        (tmp_path / source.versions[0].archive.file).write_bytes(b"not it")
    with pytest.raises(ValueError, match=rf"cifar-{name.removeprefix('cifar').split('-')[0]}-python\.tar\.gz has md5"):
        fetch(name, tmp_path)


def test_real_data_are_found(data_dir: Path) -> None:
    present = {entry.name for entry in DATA_SETS if entry.present(data_dir)}
    assert {"cifar10-auto-truck", "cifar10-auto-deer", "aptos", "ham10000-melanoma", "cover"} <= present
    assert len(present) == 20
