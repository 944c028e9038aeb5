"""One process at a time in a folder, and who it is."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lossdial.base.files import BusyError, claimed, exclusive

HOLDER = """
import sys
from pathlib import Path
from lossdial.base.files import claimed
with claimed(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(folder: Path) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_another_process_is_named(tmp_path):
    process = hold(tmp_path)
    try:
        message = f"process {process.pid} is working in .*for this training"
        with pytest.raises(BusyError, match=message), claimed(tmp_path, "this training"):
            pass
    finally:
        process.kill()
        process.wait()
    with claimed(tmp_path):  # the lock went with the process, however it ended
        assert (tmp_path / ".owner").read_text() == str(os.getpid())
    assert not (tmp_path / ".owner").exists()


def test_a_folder_is_made(tmp_path):
    with claimed(tmp_path / "new" / "folder"):
        assert (tmp_path / "new" / "folder").is_dir()


def test_exclusive_waits_and_gives_up(tmp_path):
    message = r"held for 0\.01 s by another process"
    with exclusive(tmp_path), pytest.raises(BusyError, match=message), exclusive(tmp_path, seconds=0.01):
        pass
    with exclusive(tmp_path, seconds=0.01):
        pass
