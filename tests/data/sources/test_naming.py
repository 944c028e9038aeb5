"""Which kind of thing `data` names."""

from pathlib import Path

import pytest

from lossdial.data.sources import data_root, kind_of, named_set


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


def test_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOSSDIAL_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.delenv("LOSSDIAL_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_root() == tmp_path / "lossdial" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == Path.home() / ".cache" / "lossdial" / "data"
