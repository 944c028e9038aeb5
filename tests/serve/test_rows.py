"""Images: as a form, or one as the body."""

import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from lossdial import LCTClassifier, Recipe
from lossdial.models import CifarResNet
from lossdial.serve import Limits
from tests.serve.conftest import running


def png(seed: int, bright: bool) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 120, (20, 26, 3)) + 60 * bright
    out = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, LCTClassifier, list[Path]]]:
    """Where images are scored, by which model, and some of them."""
    folder = tmp_path_factory.mktemp("images")
    paths = [folder / f"{i:03d}.png" for i in range(90)]
    for i, path in enumerate(paths):
        path.write_bytes(png(i, i % 5 == 0))
    network = CifarResNet(8, 4)
    network.image_size = 16
    labels = np.array(["ill" if i % 5 == 0 else "well" for i in range(90)])
    clf = LCTClassifier(network=network, recipe=Recipe(1, batch_size=32), random_state=0).fit(paths, labels)
    clf.save(folder / "run")
    with running(folder / "run", limits=Limits(rows=20)) as client:
        yield f"{client.server.address}/predict", clf, paths[:6]


def test_two_ways_to_send_the_same_images(client: tuple[str, LCTClassifier, list[Path]]) -> None:
    url, clf, paths = client
    files = [path.read_bytes() for path in paths]
    form = httpx.post(url, files=[("file", f) for f in files], timeout=60).json()
    assert form["prediction"] == clf.predict(paths).tolist()
    assert_array_equal(form["probability"], clf.predict_proba(paths)[:, 0])
    one = httpx.post(url, content=files[0], headers={"Content-Type": "image/png"}, timeout=60)
    assert one.json()["probability"] == clf.predict_proba(paths[:1])[:, 0].tolist()


def test_what_is_no_image_is_told(client: tuple[str, LCTClassifier, list[Path]]) -> None:
    good = png(0, True)
    wide = io.BytesIO()
    Image.new("1", (9000, 9000)).save(wide, "PNG")  # ten kilobytes that would be a quarter of a gigabyte
    asked = [
        ({"files": [("file", good), ("file", b"<html>")]}, 400, "image 2 cannot be read"),
        ({"content": good[:70], "headers": {"Content-Type": "image/png"}}, 400, "image 1 cannot be read"),
        ({"content": wide.getvalue(), "headers": {"Content-Type": "image/png"}}, 400, "image 1 has 81,000,000 pixels"),
        ({"content": b"", "headers": {"Content-Type": "image/png"}}, 400, "image 1 cannot be read"),
        ({"json": {"rows": [{}]}}, 415, "the Content-Type must be multipart/form-data or image/"),
        ({"content": "x", "headers": {"Content-Type": "multipart/form-data"}}, 400, "Missing boundary"),
        ({"content": "x", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}, 400, "the form"),
        ({"files": [("file", good)] * 21}, 413, "At most 20 files"),
    ]
    for body, status, message in asked:
        answer = httpx.post(client[0], timeout=60, **body)
        assert (answer.status_code, message in answer.json()["error"]) == (status, True), answer.text
