"""Decoding image files: every mode, odd sizes, rotation, 16 bits, damage, and threads."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lossdial.base.errors import InputError
from lossdial.data.readers import decoding
from lossdial.data.readers.decoding import WHITE, decode_bytes, decode_images, read_pixels

SaveImage = Callable[..., None]


def decode_file(path: Path, size: int, white: int = WHITE) -> np.ndarray:
    return read_pixels(path, size, white)[0]


def ramp(height: int, width: int) -> np.ndarray:
    """Smooth RGB: red grows to the right, green downwards."""
    y, x = np.mgrid[0:height, 0:width]
    channels = 255 * x / max(width - 1, 1), 255 * y / max(height - 1, 1), np.full_like(x, 90.0)
    return np.stack(channels, -1).astype(np.uint8)


def png(pixels: np.ndarray, tmp_path: Path, **options: Any) -> np.ndarray:
    """What is decoded of a PNG of these pixels."""
    Image.fromarray(pixels).save(tmp_path / "x.png", **options)
    return decode_file(tmp_path / "x.png", len(pixels))


def test_centre_square_scaled(tmp_path: Path) -> None:
    pixels = ramp(40, 100)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(decode_file(tmp_path / "a.png", 40), pixels[:, 30:70].transpose(2, 0, 1))
    halved = pixels[:, 30:70].reshape(20, 2, 20, 2, 3).mean(axis=(1, 3)).transpose(2, 0, 1)
    assert np.abs(decode_file(tmp_path / "a.png", 20)[:, 1:-1, 1:-1] - halved[:, 1:-1, 1:-1]).max() <= 1.5


def test_large_jpeg_is_decoded_small_but_alike(tmp_path: Path) -> None:
    Image.fromarray(ramp(1200, 1200)).save(tmp_path / "a.jpg", quality=95)
    Image.fromarray(ramp(1200, 1200)).save(tmp_path / "a.png")
    difference = decode_file(tmp_path / "a.jpg", 32).astype(int) - decode_file(tmp_path / "a.png", 32)
    assert np.abs(difference).max() <= 4


def test_every_mode(tmp_path: Path) -> None:
    grey = ramp(16, 16)[..., 0]
    np.testing.assert_array_equal(png(grey, tmp_path), np.repeat(grey[None], 3, axis=0))
    assert set(np.unique(png(grey > 127, tmp_path))) == {0, 255}
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90° clockwise
    turned = np.rot90(ramp(16, 16), -1).transpose(2, 0, 1)
    np.testing.assert_array_equal(png(ramp(16, 16), tmp_path, exif=exif), turned)
    Image.fromarray(ramp(16, 16)).convert("CMYK").save(tmp_path / "a.jpg", quality=95)
    assert np.abs(decode_file(tmp_path / "a.jpg", 16).transpose(1, 2, 0).astype(int) - ramp(16, 16)).mean() < 6
    pixels = np.zeros((16, 16, 4), np.uint8)
    pixels[..., 0], pixels[:8, :, 3], pixels[8:12, :, 3] = 200, 255, 51
    decoded = png(pixels, tmp_path)  # transparency is laid on white
    np.testing.assert_allclose(decoded[:, [0, 10, 15], 0].T, [[200, 0, 0], [244, 204, 204], [255] * 3], atol=1)
    palette = Image.fromarray(np.tile(np.array([0, 1], np.uint8), (16, 8)), "P")
    palette.putpalette([255, 0, 0, 0, 0, 255])
    for options, colours in (({}, [[255, 0, 0], [0, 0, 255]]), ({"transparency": 0}, [[255] * 3, [0, 0, 255]])):
        palette.save(tmp_path / "p.png", **options)
        assert decode_file(tmp_path / "p.png", 16)[:, 0, :2].T.tolist() == colours


@pytest.fixture
def folder(tmp_path: Path, save_image: SaveImage) -> list[Path]:
    paths = [tmp_path / f"{i:03d}.png" for i in range(150)]
    for i, path in enumerate(paths):
        save_image(path, i)
    return paths


@pytest.mark.parametrize("workers", [1, 2, None])
def test_threads_give_what_one_file_at_a_time_gives(folder: list[Path], workers: int | None) -> None:
    decoded = decode_images(folder, 24, workers=workers)
    np.testing.assert_array_equal(decoded.x, np.stack([decode_file(path, 24) for path in folder]))
    assert decoded.kept.tolist() == list(range(150))
    assert decoded.corrupt == ()
    decoded.x[0] = 0  # the caller owns the array


def test_corrupt_files_are_named_and_left_out(folder: list[Path]) -> None:
    folder[3].write_bytes(folder[3].read_bytes()[:200])
    folder[149].write_text("not an image")
    with pytest.warns(
        UserWarning, match=r"2 of 150 image files cannot be read: .*003\.png \(.*149\.png \(not an image"
    ):
        decoded = decode_images(folder, 24, max_corrupt=0.02)
    kept = [i for i in range(150) if i not in (3, 149)]
    assert decoded.kept.tolist() == kept
    np.testing.assert_array_equal(decoded.x, np.stack([decode_file(folder[i], 24) for i in kept]))
    assert [path for path, _ in decoded.corrupt] == [folder[3], folder[149]]
    assert not any("Error" in reason for _, reason in decoded.corrupt)  # words, not the names of Python's classes
    assert (decoded.formats == "PNG").all()
    assert decoded.sizes.tolist() == [[48, 40]] * 148
    for path in folder[:7]:
        path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"8 of 150 .*; and 3 more\. At most 1\.0% may fail"):
        decode_images(folder, 24)
    with pytest.warns(UserWarning, match="1 of 1 image files"):
        decoded = decode_images(folder[:1], 24, max_corrupt=1)  # whoever allows that hears of each
    assert (decoded.x.shape, len(decoded.corrupt)) == ((0, 3, 24, 24), 1)


WRONG = [{"size": 0}, {"workers": 0}, {"max_corrupt": 2}, {"white": 0}, {"white": 65536}, {"paths": []}]


@pytest.mark.parametrize("arguments", [*WRONG, {"size": 400_000, "paths": ["a.png"] * 1000}])
def test_wrong_arguments(arguments: dict[str, object]) -> None:
    with pytest.raises(InputError) as raised:
        decode_images(**{"paths": ["a.png"], "size": 8, **arguments})
    assert raised.value.argument == next(iter(arguments))


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_sixteen_bit_files_are_scaled_by_the_bits_they_use(folder: list[Path], tmp_path: Path, bits: int) -> None:
    white = 2**bits - 1
    generator = np.random.default_rng(0)
    values = [generator.integers(0, white // 2 + 1, (16, 16)).astype(np.uint16) for _ in range(40)]
    values[7][0, 0] = white - 1
    paths = [tmp_path / f"{i}.tif" for i in range(40)]
    for path, value in zip(paths, values, strict=True):
        Image.fromarray(value).save(path)
    decoded = decode_images([*folder[:30], *paths], 16)
    assert decoded.white == white
    expected = np.stack([np.rint(value * (255 / white)) for value in values])
    np.testing.assert_array_equal(decoded.x[30:, 0], expected)
    np.testing.assert_array_equal(decoded.x[:30], np.stack([decode_file(path, 16) for path in folder[:30]]))
    assert len(decoded.notes) == (bits < 16)
    alone = decode_images(paths[:1], 16, white=decoded.white)  # later, as the training set was
    np.testing.assert_array_equal(alone.x[0], decoded.x[30])


def test_a_later_image_that_does_not_fit_is_warned_of(tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 8), 30000, np.uint16)).save(tmp_path / "bright.png")
    with pytest.warns(UserWarning, match=r"1 of 1 image files of 16 bits have values up to 30,000, above the 4,095"):
        assert decode_images([tmp_path / "bright.png"], 8, white=4095).x.min() == 255
    Image.fromarray(np.full((8, 8), 3000, np.uint16)).save(tmp_path / "dark.png")
    with pytest.warns(UserWarning, match=r"1 image files of 16 bits have no value above 3,000, where 65,535 is white"):
        assert decode_images([tmp_path / "dark.png"], 8, white=65535).x.max() == 12


def test_contents_that_are_no_image_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(ramp(40, 100)).save(tmp_path / "a.png")
    good = (tmp_path / "a.png").read_bytes()
    with pytest.raises(ValueError, match="image 2 cannot be read"):
        decode_bytes([good, b"<html>"], 16)
    with pytest.raises(ValueError, match="image 1 cannot be read"):
        decode_bytes([good[:80]], 16)
    monkeypatch.setattr(decoding, "_MOST_PIXELS", 3999)
    with pytest.raises(ValueError, match="image 1 has 4,000 pixels; at most 3,999"):
        decode_bytes([good], 16)
    monkeypatch.setattr(decoding, "_MOST_PIXELS", 4000)
    assert len(decode_bytes([good] * 2, 16)) == 2
    monkeypatch.setattr(decoding, "read_pixels", None)  # nothing may come that far
    with pytest.raises(ValueError, match="the first 3 images have 12,000 pixels; at most 8,000 are taken at once"):
        decode_bytes([good] * 100, 16)


def test_a_tile_larger_than_its_image_is_counted() -> None:
    """A TIFF of 16 pixels a side with one tile of 2^14: libtiff would make room for all of it."""
    side, data = 2**14, zlib.compress(bytes(1000))
    tags = [(256, 16), (257, 16), (258, 8), (259, 8), (262, 1), (277, 1), (322, side), (323, side), (324, 134)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in [*tags, (325, len(data))])
    tiff = b"II*\0" + struct.pack("<IH", 8, len(tags) + 1) + entries + bytes(4) + data
    with Image.open(io.BytesIO(tiff)) as opened:
        assert opened.size == (16, 16)
    with pytest.raises(ValueError, match="image 1 has 268,435,456 pixels"):
        decode_bytes([tiff], 16)


def test_no_file_is_handed_to_another_program(folder: list[Path], tmp_path: Path) -> None:
    """Pillow runs Ghostscript on EPS, whatever the file's name."""
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "x.png").write_bytes(eps)
    with Image.open(tmp_path / "x.png") as opened:
        assert opened.format == "EPS"
    with pytest.raises(ValueError, match="image 1 cannot be read; PNG, JPEG"):
        decode_bytes([eps], 16)
    with pytest.warns(UserWarning, match="not an image, or of a kind that is not known"):
        decode_images([*folder[:3], tmp_path / "x.png"], 16, max_corrupt=0.5)


def test_colour_of_sixteen_bits_with_twelve_used(tmp_path: Path) -> None:
    """Pillow writes no such file, so this is one by hand: 2 x 2 pixels, RGB of 16 bits, all 4095."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + struct.pack(">6H", *[4095] * 6) for _ in range(2))
    header = struct.pack(">IIBBBBB", 2, 2, 16, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    assert read_pixels(tmp_path / "a.png", 2)[1].colour_peak == 15
    with pytest.warns(UserWarning, match=r"1 colour images have 16 bits per channel .* nearly black"):
        decode_images([tmp_path / "a.png"], 2)
