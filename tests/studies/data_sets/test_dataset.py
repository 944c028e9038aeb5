"""From a listing to a split: the test set is fixed, the seed moves the minority, corrupt files drop out."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lossdial_studies.data_sets.dataset import ImageDataSet, Listing, PaperCounts


@dataclass(frozen=True, kw_only=True)
class Toy(ImageDataSet):
    """300 images of one pixel, a third of them positive."""

    def present(self, root: str | Path) -> bool:
        return Path(root).is_dir()

    def listing(self, root: Path, size: int | None, workers: int | None) -> Listing:  # noqa: ARG002 (generated)
        images = np.random.default_rng(0).integers(0, 256, (300, 3, 4, 4), dtype=np.uint8)
        return Listing(y=(np.arange(300) % 3 == 0).astype(np.int64), images=images)


TOY = Toy(
    name="toy",
    majority="a",
    minority="b",
    n_images=300,
    image_size=4,
    source="",
    address="",
    licence="",
    to_get="Make it in {root}",
)


def positives(data: ImageDataSet, root: Path, beta: float, seed: int) -> set[bytes]:
    split = data.load(root, beta, seed)
    return {image.tobytes() for image in split.x_train[split.y_train == 1]}


def test_seed_moves_the_minority_and_nothing_else(tmp_path: Path) -> None:
    one, two = TOY.load(tmp_path, 10, seed=1), TOY.load(tmp_path, 20, seed=2)
    np.testing.assert_array_equal(one.x_test, two.x_test)
    np.testing.assert_array_equal(one.x_train[one.y_train == 0], two.x_train[two.y_train == 0])
    assert positives(TOY, tmp_path, 10, 1) != positives(TOY, tmp_path, 10, 2)
    assert positives(TOY, tmp_path, 20, 1) < positives(TOY, tmp_path, 10, 1)
    assert (one.beta, one.ratio) == (10, 160 / 16)


def test_no_ratio_keeps_everything(tmp_path: Path) -> None:
    split = TOY.load(tmp_path, None)
    assert split.beta == split.ratio == 2
    assert len(split.y_train) == 240


def test_the_papers_table_rules_on_its_own_data(tmp_path: Path) -> None:
    odd = Toy(**{**vars(TOY), "paper": PaperCounts(160, ((10, 30), (20, 500)), 40, 20)})
    assert TOY.load(tmp_path, 10).y_train.sum() == 16
    assert odd.load(tmp_path, 10).y_train.sum() == 30
    assert odd.load(tmp_path, 20).y_train.sum() == 80  # no more than there are
    assert odd.load(tmp_path, 8).y_train.sum() == 20  # a ratio that the table lacks
    other = Toy(**{**vars(TOY), "paper": PaperCounts(999, ((10, 30),), 40, 20)})
    assert other.load(tmp_path, 10).y_train.sum() == 16  # other data than the paper's


def test_absent_data(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"toy is not in .*nowhere\. Make it in .*nowhere"):
        TOY.load(tmp_path / "nowhere", 10)


@dataclass(frozen=True, kw_only=True)
class Files(Toy):
    """The same as files, of which one is broken."""

    def listing(self, root: Path, size: int | None, workers: int | None) -> Listing:
        whole = super().listing(root, size, workers)
        paths = tuple(root / f"{i}.png" for i in range(300))
        for path, image in zip(paths, whole.images, strict=True):
            Image.fromarray(image.transpose(1, 2, 0)).save(path)
        paths[0].write_bytes(b"broken")
        return Listing(y=whole.y, images=paths, groups=np.arange(300))


def test_corrupt_file_drops_out_with_its_label_and_group(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"1 of 300 image files cannot be read: .*0\.png"):
        split = Files(**vars(TOY)).load(tmp_path, None, workers=1)
    whole = TOY.load(tmp_path, None)
    assert len(split.y_train) + len(split.y_test) == 299
    assert split.groups_train is not None
    assert split.groups_test is not None
    images = TOY.listing(tmp_path, None, None).images
    assert isinstance(images, np.ndarray)
    for x, y, groups in (
        (split.x_train, split.y_train, split.groups_train),
        (split.x_test, split.y_test, split.groups_test),
    ):
        np.testing.assert_array_equal(x, images[groups])
        np.testing.assert_array_equal(y, groups % 3 == 0)
    assert whole.y_train.sum() + whole.y_test.sum() - split.y_train.sum() - split.y_test.sum() == 1


def test_a_set_without_files_is_known_by_its_arrays(tmp_path: Path) -> None:
    assert TOY.files(tmp_path) is None
    assert TOY.fingerprint(tmp_path) == TOY.fingerprint(tmp_path)
    assert TOY.fingerprint(tmp_path) != Toy(**{**vars(TOY), "name": "other"}).fingerprint(tmp_path)
    with pytest.raises(FileNotFoundError, match="toy is not in"):
        TOY.fingerprint(tmp_path / "nowhere")
