"""Sheets of tiles: round trip, damage, and the real ones."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lossdial_studies.data_sets.mosaics import read_mosaic, read_mosaic_set


def write_mosaic(path: Path, images: np.ndarray, columns: int) -> None:
    """Images (n, 3, s, s) as a lossless sheet, padded with black tiles."""
    n, _, side, _ = images.shape
    rows = -(-n // columns)
    sheet = np.zeros((rows * side, columns * side, 3), np.uint8)
    for i, image in enumerate(images):
        top, left = i // columns * side, i % columns * side
        sheet[top : top + side, left : left + side] = image.transpose(1, 2, 0)
    Image.fromarray(sheet).save(path, lossless=True)


def test_round_trip(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (11, 3, 8, 8), dtype=np.uint8)
    write_mosaic(tmp_path / "a_0.webp", images[:7], columns=3)
    write_mosaic(tmp_path / "a_1.webp", images[7:], columns=2)
    np.testing.assert_array_equal(read_mosaic(tmp_path / "a_0.webp", 8, 7), images[:7])
    assert read_mosaic(tmp_path / "a_0.webp", 8).shape == (9, 3, 8, 8)
    np.savez(tmp_path / "a_meta.npz", part_sizes=[7, 4], y=np.arange(11))
    read, meta = read_mosaic_set(tmp_path, "a", 8)
    np.testing.assert_array_equal(read, images)
    assert list(meta) == ["y"]


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "a_0.webp"
    write_mosaic(path, np.zeros((4, 3, 8, 8), np.uint8), columns=2)
    with pytest.raises(ValueError, match=r"whole tiles of 8 px, at least 5, are needed"):
        read_mosaic(path, 8, 5)
    with pytest.raises(ValueError, match=r"shape \(16, 16, 3\); whole tiles of 5 px"):
        read_mosaic(path, 5)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ValueError, match="truncated or not an image"):
        read_mosaic(path, 8)
    np.savez(tmp_path / "a_meta.npz", part_sizes=[4], y=np.arange(1000))
    meta = tmp_path / "a_meta.npz"
    meta.write_bytes(meta.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"a_meta\.npz is truncated or damaged"):
        read_mosaic_set(tmp_path, "a", 8)


def test_real_sheets(data_dir: Path) -> None:
    images, meta = read_mosaic_set(data_dir, "aptos2019_64", 64)
    assert images.shape == (3662, 3, 64, 64)
    assert np.bincount(meta["y"]).tolist() == [1805, 370, 999, 193, 295]
    # Images with the same checksum in the table have the same pixels here.
    order = np.argsort(meta["pixel_md5"])
    same = meta["pixel_md5"][order][1:] == meta["pixel_md5"][order][:-1]
    assert same.sum() == 128
    assert (images[order][1:][same] == images[order][:-1][same]).all()
