from pathlib import Path

import pytest

from lossdial.base.files import write


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, full_disk) -> None:
    write(tmp_path / "a", b"one")
    write(tmp_path / "a", b"two")
    with full_disk(100), pytest.raises(OSError, match="too large"):
        write(tmp_path / "a", bytes(1000))
    assert (tmp_path / "a").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
