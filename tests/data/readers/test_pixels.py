"""One file to pixels; what depends on the mode of an image is tested with the decoder."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lossdial.data.readers.decoding import WHITE, FileFacts, decode_images, read_pixels, white_of


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_keep_their_range(tmp_path: Path, suffix: str) -> None:
    values = np.linspace(0, 65535, 256).reshape(16, 16).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / f"a.{suffix}")
    pixels, facts = read_pixels(tmp_path / f"a.{suffix}", 16)
    np.testing.assert_array_equal(pixels[0], np.rint(values / 257))
    assert facts == FileFacts("PNG" if suffix == "png" else "TIFF", (16, 16), 65535)
    pixels, _ = read_pixels(tmp_path / f"a.{suffix}", 16, white=4095)
    np.testing.assert_array_equal(pixels[0], np.rint(np.minimum(values, 4095) / 4095 * 255))


def test_eight_bits_have_no_peak(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((4, 6, 3), np.uint8)).save(tmp_path / "a.png")
    assert read_pixels(tmp_path / "a.png", 4)[1] == FileFacts("PNG", (6, 4))


@pytest.mark.parametrize(
    ("peak", "white"), [(0, 255), (255, 255), (256, 1023), (4095, 4095), (4096, 16383), (16384, WHITE)]
)
def test_white_is_the_depth_that_holds_all(peak: int, white: int) -> None:
    assert white_of([3, peak], None)[0] == white


def test_white_without_sixteen_bit_files() -> None:
    assert white_of([], None) == (WHITE, "")
    assert white_of([], 4095) == (4095, "")


def test_colour_of_sixteen_bits_with_twelve_used(tmp_path: Path) -> None:
    """Pillow writes no such file, so this is one by hand: 2 x 2 pixels, RGB of 16 bits, all 4095."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + struct.pack(">6H", *[4095] * 6) for _ in range(2))
    header = struct.pack(">IIBBBBB", 2, 2, 16, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    assert read_pixels(tmp_path / "a.png", 2)[1].colour_peak == 15
    with pytest.warns(
        UserWarning, match=r"1 colour images have 16 bits per channel .* nearly black \(largest value 15"
    ):
        decode_images([tmp_path / "a.png"], 2)
