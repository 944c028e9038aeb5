"""The room's names: all there, and loaded only when they are used."""

import subprocess
import sys

import pytest

import lossdial.data as room


def test_every_name_is_there() -> None:
    for name in room.__all__:
        assert getattr(room, name) is not None
    assert set(room.__all__) <= set(dir(room))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        room.nothing  # noqa: B018 (the access is the test)


def test_labels_load_no_reader_of_tables() -> None:
    program = (
        "import sys, lossdial.base.labels; print(sorted({'pandas', 'pyarrow', 'PIL', 'torch'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
