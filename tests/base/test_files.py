from pathlib import Path

import pytest

from lossdial.base.files import file_sha256, read_json, replacing, require_writable, write, write_json


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, full_disk) -> None:
    write(tmp_path / "a", b"one")
    write(tmp_path / "a", b"two")
    with full_disk(100), pytest.raises(OSError, match="too large"):
        write(tmp_path / "a", bytes(1000))
    assert (tmp_path / "a").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_fails_inside_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with replacing(tmp_path / "deep" / "a") as temporary:
            temporary.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list((tmp_path / "deep").iterdir())


def test_json_knows_whether_it_was_altered(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"b": [1, 2.5, None], "a": "β"})
    assert read_json(path) == {"b": [1, 2.5, None], "a": "β"}
    path.write_text(path.read_text().replace("2.5", "2.6"))
    with pytest.raises(ValueError, match=r"altered after it was written: its checksum differs\. Ask again\."):
        read_json(path, "Ask again.")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 1}', "[" * 100_000])
def test_what_is_not_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match="is truncated or not lossdial's"):
        read_json(tmp_path / "a.json")


def test_the_checksum_of_a_file(tmp_path: Path) -> None:
    write(tmp_path / "a", "abc")
    assert file_sha256(tmp_path / "a").startswith("ba7816bf")


def test_what_cannot_be_written_is_known_beforehand(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("mine")
    for path, named in (
        (tmp_path / "a file" / "deeper" / "model.html", tmp_path / "a file"),
        (tmp_path, tmp_path),
        (Path("/proc/nothing/of/ours"), Path("/proc")),
    ):
        with pytest.raises(OSError, match=r"nothing can be written there|is a folder") as caught:
            require_writable(path)
        assert caught.value.filename == str(named)
    require_writable(tmp_path / "new" / "folder" / "model.html")
    require_writable(tmp_path / "a file")
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]
