"""Tasks made of CIFAR classes: roles, counts, absent classes, and the real images."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lossdial_studies.data_sets.cifar import CIFAR10, CIFAR100, CifarSource
from lossdial_studies.data_sets.cifar_tasks import ANIMAL_VEHICLE, CIFAR10_CLASSES, HOUSEHOLD, CifarTask, cifar10_pair

Writer = Callable[..., CifarSource]
pytestmark = pytest.mark.filterwarnings("ignore:.*exact copies")  # generated images repeat between batches


def test_first_named_class_is_the_majority(tmp_path: Path, write_cifar: Writer) -> None:
    source = write_cifar(tmp_path, CIFAR10, 1, dict.fromkeys(range(10), 4), unpacked=False)
    split = replace(cifar10_pair("cat", "dog"), cifar=source).load(tmp_path, beta=10)
    assert split.class_names == ("cat", "dog")
    assert np.bincount(split.y_train).tolist() == [20, 2]
    assert np.bincount(split.y_test).tolist() == [4, 4]
    # Image i is filled with i: cats are 12 … 15, dogs 20 … 23.
    assert set(split.x_train[split.y_train == 0, 0, 0, 0]) == {12, 13, 14, 15}
    assert set(split.x_train[split.y_train == 1, 0, 0, 0]) <= {20, 21, 22, 23}


def test_animals_are_the_majority(tmp_path: Path, write_cifar: Writer) -> None:
    source = write_cifar(tmp_path, CIFAR10, 0, dict.fromkeys(range(10), 4), unpacked=True)
    split = replace(ANIMAL_VEHICLE, cifar=source).load(tmp_path, beta=12)
    assert np.bincount(split.y_train).tolist() == [120, 10]
    assert np.bincount(split.y_test).tolist() == [24, 16]
    assert set(split.x_test[split.y_test == 1, 0, 0, 0] // 4) == {0, 1, 8, 9}  # airplane automobile ship truck


def test_household_counts_are_the_papers(tmp_path: Path, write_cifar: Writer) -> None:
    """500 training images per class, as in the real archive; the test file gets as many."""
    classes = [number for _, number, _ in HOUSEHOLD.classes]
    source = write_cifar(tmp_path, CIFAR100, 1, {**dict.fromkeys(classes, 500), 0: 3}, unpacked=False)
    task = replace(HOUSEHOLD, cifar=source)
    assert task.paper is not None
    for beta, minority in task.paper.minority:
        split = task.load(tmp_path, beta)
        assert np.bincount(split.y_train).tolist() == [task.paper.train_majority, minority]
    assert [c for c, _, side in HOUSEHOLD.classes if side == 0] == ["bed", "chair", "couch", "table", "wardrobe"]


def test_missing_class(tmp_path: Path, write_cifar: Writer) -> None:
    source = write_cifar(tmp_path, CIFAR10, 1, {1: 3}, unpacked=False)
    task = replace(cifar10_pair("auto", "truck"), cifar=source)
    with pytest.raises(ValueError, match="class 'truck' has no training image"):
        task.load(tmp_path, beta=None)


def test_missing_archive_says_where_to_put_it(tmp_path: Path) -> None:
    task = cifar10_pair("auto", "truck")
    assert not task.present(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"lossdial data fetch cifar10.*cifar-10-python\.tar\.gz.*into .*" + tmp_path.name
    ):
        task.load(tmp_path, beta=100)


def test_ratio_larger_than_the_data_allow(tmp_path: Path, write_cifar: Writer) -> None:
    source = write_cifar(tmp_path, CIFAR10, 1, {1: 3, 9: 3}, unpacked=False)
    with pytest.raises(ValueError, match="The largest possible is 15"):
        replace(cifar10_pair("auto", "truck"), cifar=source).load(tmp_path, beta=100)


def test_names_and_wrong_names() -> None:
    assert cifar10_pair("automobile", "airplane").name == "cifar10-auto-plane"
    with pytest.raises(ValueError, match="no class 'catt'; did you mean 'cat'"):
        cifar10_pair("catt", "dog")
    with pytest.raises(ValueError, match="got 'cat' twice"):
        cifar10_pair("cat", "cat")
    assert len(CIFAR10_CLASSES) == 10


def test_other_size_is_refused(tmp_path: Path, write_cifar: Writer) -> None:
    source = write_cifar(tmp_path, CIFAR10, 1, {1: 3, 9: 3}, unpacked=False)
    with pytest.raises(ValueError, match="images of 32 px; got size=64"):
        replace(cifar10_pair("auto", "truck"), cifar=source).load(tmp_path, beta=1, size=64)


@pytest.mark.parametrize("minority", ["truck", "deer"])
def test_real_pair_has_the_papers_counts_nested(data_dir: Path, minority: str) -> None:
    task: CifarTask = cifar10_pair("auto", minority)
    assert task.paper is not None
    kept: list[set[bytes]] = []
    for beta, count in sorted(task.paper.minority):
        split = task.load(data_dir, beta, seed=3)
        assert np.bincount(split.y_train).tolist() == [5000, count]
        assert np.bincount(split.y_test).tolist() == [1000, 1000]
        assert split.x_train.shape[1:] == (3, 32, 32)
        kept.append({image.tobytes() for image in split.x_train[split.y_train == 1]})
    assert kept[0] > kept[1] > kept[2]
    assert not cifar10_pair("cat", "dog").present(data_dir)
