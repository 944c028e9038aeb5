import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lossdial.dial import Dial
from lossdial.explorer.points import FORMAT, entry, read_points


def test_an_entry_knows_what_the_point_accepts(make_dial: Callable[..., Dial]) -> None:
    dial = make_dial()
    point = dial.tune(maximize="f1")
    found = entry(point, dial.surface)
    accepted = point.predict(dial.surface.score(found["column"]))
    assert found["tp"] == np.count_nonzero(accepted & dial.surface.labels)
    assert found["fp"] == np.count_nonzero(accepted & ~dial.surface.labels)
    assert dial.lams[found["column"]] == point.lam


def test_a_point_of_another_lam_is_refused(make_dial: Callable[..., Dial]) -> None:
    point = make_dial(shape=(2, 2)).tune(maximize="f1", name="elsewhere")
    with pytest.raises(ValueError, match="point 'elsewhere' has λ"):
        entry(point, make_dial(shape=(3, 5)).surface.at(7))


def test_points_come_back(tmp_path: Path, make_dial: Callable[..., Dial]) -> None:
    dial = make_dial()
    point = dial.tune(maximize="f1")
    path = tmp_path / "points.json"
    path.write_text(json.dumps({"format": FORMAT, "points": [point.to_json()]}))
    (found,) = read_points(path)
    assert found.to_json() == point.to_json()


def test_no_point_is_certified_by_being_read(tmp_path: Path, make_dial: Callable[..., Dial]) -> None:
    point = make_dial().tune(maximize="precision", subject_to={"recall": 0.5}, confidence=0.8)
    assert point.certificate is not None
    path = tmp_path / "points.json"
    path.write_text(json.dumps({"format": FORMAT, "points": [point.to_json()]}))
    assert read_points(path)[0].certificate is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "does not hold points"),
        ("[]", "does not hold points"),
        ("{}", "'format'"),
        ('{"format": "lossdial points 7", "points": []}', "its format is 'lossdial points 7'"),
        (json.dumps({"format": FORMAT, "points": [{"name": "a"}]}), "does not hold points"),
        (json.dumps({"format": FORMAT, "points": 3}), "does not hold points"),
    ],
)
def test_another_file_is_refused_with_the_remedy(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "points.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_points(path)
    assert "Save it again" in str(caught.value)


def test_a_name_twice_is_refused(tmp_path: Path, make_dial: Callable[..., Dial]) -> None:
    point = make_dial().tune(maximize="f1").to_json()
    path = tmp_path / "points.json"
    path.write_text(json.dumps({"format": FORMAT, "points": [point, point]}))
    with pytest.raises(ValueError, match="the name 'default' twice"):
        read_points(path)
