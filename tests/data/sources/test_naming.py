"""Which kind of thing `data` names."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lossdial.data.sources import fingerprint_of, kind_of, named_set


def test_kinds(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert kind_of(str(tmp_path / "t.csv")) == "table"
    assert kind_of(str(tmp_path / "absent.csv")) == "table"  # whose reader says that it is absent
    assert kind_of(str(tmp_path / "t.csv"), "path") == "images"
    assert kind_of(str(tmp_path)) == "images"
    assert kind_of("wilt") == "table"
    assert kind_of("cifar10-cat-dog") == "images"
    assert named_set(str(tmp_path)) is None
    with pytest.raises(
        ValueError, match="no file or folder 'wil', and no data set is called 'wil'; did you mean 'wilt'"
    ):
        kind_of("wil")


def test_fingerprints(tmp_path: Path, save_image: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    assert fingerprint_of(None) is fingerprint_of(str(tmp_path / "absent.csv")) is None
    table = tmp_path / "t.csv"
    table.write_text("path,label\na.png,x\ngone.png,y\n")
    save_image(tmp_path / "a.png", 0)
    as_table, as_list, folder = (
        fingerprint_of(str(table)),
        fingerprint_of(str(table), "path"),
        fingerprint_of(str(tmp_path)),
    )
    assert len({as_table, as_list, folder}) == 3
    save_image(tmp_path / "a.png", 1)
    assert fingerprint_of(str(table)) == as_table
    assert fingerprint_of(str(table), "path") != as_list
    assert fingerprint_of(str(tmp_path)) != folder
    monkeypatch.setenv("LOSSDIAL_DATA", str(tmp_path))
    assert fingerprint_of("wilt") is None
