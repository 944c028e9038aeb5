import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lossdial.base.errors import InputError
from lossdial.explorer.images import extremes, most_shown, thumbnails

LABELS = np.array([True, False, True, False, False])
SCORE = np.array([0.1, 0.9, 0.7, 0.2, 0.8])


def test_the_worst_mistakes_are_shown_and_those_of_most_lams_first() -> None:
    numbers = np.arange(10, 15)
    found = extremes(SCORE, LABELS, numbers, 2)
    assert [found[name].tolist() for name in ("alarm rows", "alarm scores")] == [[11, 14], [0.9, 0.8]]
    assert found["missed rows"].tolist() == [10, 12]
    many = [extremes(SCORE, LABELS, numbers, 1)] * 3 + [extremes(-SCORE, LABELS, numbers, 1)]
    assert (most_shown(many), most_shown(many, 2)) == ([10, 11, 12, 13], [10, 11])


def test_pictures_of_every_kind_become_small_jpegs(tmp_path: Path) -> None:
    grey = np.full((300, 200), 128, dtype=np.uint8)
    Image.fromarray(grey).save(tmp_path / "a.png")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    pictures = [grey, np.stack([grey] * 3, axis=-1), Image.fromarray(grey), str(tmp_path / "a.png")]
    pictures += [*(tmp_path / f"{name}.png" for name in ("a", "broken", "gone")), grey[..., None]]
    found = dict(thumbnails(pictures, range(len(pictures))))
    assert sorted(found) == [0, 1, 2, 3, 4, 7]
    for address in found.values():
        kind, data = address.split(",")
        assert kind == "data:image/jpeg;base64"
        picture = Image.open(io.BytesIO(base64.b64decode(data)))
        assert picture.size == (64, 96)


@pytest.mark.parametrize(("image", "got"), [(np.zeros((4, 4)), "'float64'"), (np.zeros(4, dtype=np.uint8), "(4,)")])
def test_what_is_no_picture_is_refused(image: np.ndarray, got: str) -> None:
    with pytest.raises(InputError) as raised:
        list(thumbnails([image], [0]))
    assert (raised.value.argument, raised.value.got) == ("images", got)
