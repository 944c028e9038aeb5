"""Files that are whole or not there, and one process at a time in a folder."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lossdial.base.files import (
    BusyError,
    claimed,
    exclusive,
    file_sha256,
    read_json,
    replacing,
    require_writable,
    write,
    write_json,
)


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, full_disk) -> None:
    write(tmp_path / "a", b"one")
    write(tmp_path / "a", "abc")
    with full_disk(100), pytest.raises(OSError, match="too large"):
        write(tmp_path / "a", bytes(1000))
    assert file_sha256(tmp_path / "a").startswith("ba7816bf")  # of abc
    with contextlib.suppress(RuntimeError), replacing(tmp_path / "deep" / "a") as temporary:
        temporary.write_bytes(b"half")
        raise RuntimeError
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "deep"]


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


HOLDER = """
import sys
from pathlib import Path
from lossdial.base.files import claimed
with claimed(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_is_named(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], text=True, **pipes)
    try:
        assert process.stdout.readline() == "held\n"
        message = f"process {process.pid} is working in .*for this training"
        with pytest.raises(BusyError, match=message), claimed(tmp_path, "this training"):
            pass
    finally:
        process.kill()
        process.wait()
    with claimed(tmp_path):  # the lock went with the process, however it ended
        assert (tmp_path / ".owner").read_text() == str(os.getpid())
    assert not (tmp_path / ".owner").exists()


def test_a_folder_is_made_and_left_only_with_something_in_it(tmp_path):
    folder = tmp_path / "new" / "folder"
    with claimed(folder):
        assert folder.is_dir()
    assert not folder.exists()
    with claimed(folder):
        (folder / "log").touch()
    assert (folder / "log").exists()
    message = r"held for 0\.01 s by another process"
    with exclusive(folder), pytest.raises(BusyError, match=message), exclusive(folder, seconds=0.01):
        pass
    with exclusive(folder, seconds=0.01):
        pass
