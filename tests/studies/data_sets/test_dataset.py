"""From a listing to a split: the test set is fixed, the seed moves the minority, corrupt files drop out; checksums."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lossdial_studies.data_sets import fingerprints
from lossdial_studies.data_sets.dataset import ImageDataSet, Listing, PaperCounts
from lossdial_studies.data_sets.fingerprints import file_fingerprint
from lossdial_studies.data_sets.mosaics import read_mosaic, read_mosaic_set


@dataclass(frozen=True, kw_only=True)
class Toy(ImageDataSet):
    """300 images of one pixel, a third of them positive."""

    def present(self, root: str | Path) -> bool:
        return Path(root).is_dir()

    def files(self, root: Path) -> tuple[Path, ...]:
        return tuple(root.iterdir())

    def listing(self, root: Path, size: int | None, workers: int | None) -> Listing:  # noqa: ARG002 (generated)
        images = np.random.default_rng(0).integers(0, 256, (300, 3, 4, 4), dtype=np.uint8)
        return Listing(y=(np.arange(300) % 3 == 0).astype(np.int64), images=images)


ABOUT = {"name": "toy", "majority": "a", "minority": "b", "n_images": 300, "image_size": 4}
TOY = Toy(**ABOUT, source="", address="", licence="", to_get="Make it in {root}")


def positives(root: Path, beta: float, seed: int) -> set[bytes]:
    split = TOY.load(root, beta, seed)
    return {image.tobytes() for image in split.x_train[split.y_train == 1]}


def test_seed_moves_the_minority_and_nothing_else(tmp_path: Path) -> None:
    one, two = TOY.load(tmp_path, 10, seed=1), TOY.load(tmp_path, 20, seed=2)
    np.testing.assert_array_equal(one.x_test, two.x_test)
    np.testing.assert_array_equal(one.x_train[one.y_train == 0], two.x_train[two.y_train == 0])
    assert positives(tmp_path, 10, 1) != positives(tmp_path, 10, 2)
    assert positives(tmp_path, 20, 1) < positives(tmp_path, 10, 1)
    assert (one.beta, one.ratio) == (10, 160 / 16)
    whole = TOY.load(tmp_path, None)
    assert whole.beta == whole.ratio == 2
    assert len(whole.y_train) == 240
    for ask in (TOY.fingerprint, lambda root: TOY.load(root, 10)):
        with pytest.raises(FileNotFoundError, match=r"toy is not in .*nowhere\. Make it in .*nowhere"):
            ask(tmp_path / "nowhere")


def test_the_papers_table_rules_on_its_own_data(tmp_path: Path) -> None:
    odd = Toy(**{**vars(TOY), "paper": PaperCounts(160, ((10, 30), (20, 500)), 40, 20)})
    assert TOY.load(tmp_path, 10).y_train.sum() == 16
    assert odd.load(tmp_path, 10).y_train.sum() == 30
    assert odd.load(tmp_path, 20).y_train.sum() == 80  # no more than there are
    assert odd.load(tmp_path, 8).y_train.sum() == 20  # a ratio that the table lacks
    other = Toy(**{**vars(TOY), "paper": PaperCounts(999, ((10, 30),), 40, 20)})
    assert other.load(tmp_path, 10).y_train.sum() == 16  # other data than the paper's


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
    images = TOY.listing(tmp_path, None, None).images
    assert isinstance(images, np.ndarray)
    kept = 0
    for x, y, groups in (
        (split.x_train, split.y_train, split.groups_train),
        (split.x_test, split.y_test, split.groups_test),
    ):
        assert groups is not None
        np.testing.assert_array_equal(x, images[groups])
        np.testing.assert_array_equal(y, groups % 3 == 0)
        kept += len(y)
    assert kept == 299


def test_files_are_known_by_name_size_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("a", b"1"), ("b", b"2")):
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / "a", tmp_path / "b"]
    first = file_fingerprint(paths, tmp_path)
    with monkeypatch.context() as patched:  # a file is read once
        patched.setattr(fingerprints, "file_sha256", lambda _: pytest.fail("read again"))
        assert file_fingerprint(paths[::-1], tmp_path) == first
    assert file_fingerprint(paths[:1], tmp_path) != first
    moved = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-moved")
    assert file_fingerprint([moved / "a", moved / "b"], moved) == first
    (moved / "a").rename(moved / "aa")  # the order stays
    assert file_fingerprint([moved / "aa", moved / "b"], moved) != first
    (tmp_path / "a").write_bytes(b"3")
    os.utime(tmp_path / "a", ns=(1, 1))
    assert file_fingerprint(paths, tmp_path) != first


# sheets of tiles


def write_mosaic(path: Path, images: np.ndarray, columns: int) -> None:
    """Images (n, 3, s, s) as a lossless sheet, padded with black tiles."""
    n, _, side, _ = images.shape
    sheet = np.zeros((-(-n // columns) * side, columns * side, 3), np.uint8)
    for i, image in enumerate(images):
        top, left = i // columns * side, i % columns * side
        sheet[top : top + side, left : left + side] = image.transpose(1, 2, 0)
    Image.fromarray(sheet).save(path, lossless=True)


def test_sheets_there_and_back(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (11, 3, 8, 8), dtype=np.uint8)
    write_mosaic(tmp_path / "a_0.webp", images[:7], columns=3)
    write_mosaic(tmp_path / "a_1.webp", images[7:], columns=2)
    assert read_mosaic(tmp_path / "a_0.webp", 8).shape == (9, 3, 8, 8)
    np.savez(tmp_path / "a_meta.npz", part_sizes=[7, 4], y=np.arange(11))
    read, meta = read_mosaic_set(tmp_path, "a", 8)
    np.testing.assert_array_equal(read, images)
    assert list(meta) == ["y"]


def test_damaged_sheets(tmp_path: Path) -> None:
    path, meta = tmp_path / "a_0.webp", tmp_path / "a_meta.npz"
    write_mosaic(path, np.zeros((4, 3, 8, 8), np.uint8), columns=2)
    for side, count, message in ((8, 5, "8 px, at least 5, are needed"), (5, None, "tiles of 5 px")):
        with pytest.raises(ValueError, match=message):
            read_mosaic(path, side, count)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ValueError, match="truncated or not an image"):
        read_mosaic(path, 8)
    np.savez(meta, part_sizes=[4], y=np.arange(1000))
    meta.write_bytes(meta.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"a_meta\.npz is truncated or damaged"):
        read_mosaic_set(tmp_path, "a", 8)
