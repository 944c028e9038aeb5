"""Dataclasses as JSON and back."""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest

from lossdial.base.codec import append_line, from_json, from_line, to_json, to_line


@dataclass(frozen=True)
class Inner:
    lr: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=lambda: Inner(0.1))
    deep: tuple[tuple[int, ...], ...] = ((1, 2), (3,))
    note: str | None = None
    table: dict[str, float] = field(default_factory=dict)


def test_there_and_back_through_text():
    value = Outer(Inner(1e-3, ("a", "b")), note="x", table={"recall": 0.9})
    assert from_json(json.loads(json.dumps(to_json(value))), [Inner, Outer]) == value


def test_numbers_of_numpy_become_numbers():
    assert to_json((np.float32(0.5), np.int64(3), np.bool_(True))) == [0.5, 3, True]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "Elsewhere"}, "kind 'Elsewhere' is not one of Inner, Outer"),
        ({"kind": 3}, "kind 3 is not one of"),
        ({"kind": "Inner"}, "Inner has, or lacks, lr; it consists of lr, names"),
        ({"kind": "Inner", "lr": 1, "evil": 2}, "Inner has, or lacks, evil"),
    ],
)
def test_what_is_not_known_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        from_json(data, [Inner, Outer])


def test_what_json_cannot_hold():
    with pytest.raises(TypeError, match="cannot be kept as JSON"):
        to_json({"f": print})


def test_a_line_knows_whether_it_was_altered():
    line = to_line({"name": "λ", "auc": 0.93})
    assert from_line(line) == {"name": "λ", "auc": 0.93}
    for altered in (line.replace("0.93", "0.98"), line.replace(", ", ",", 1), line.replace('"crc": ', '"crc": 1')):
        with pytest.raises(ValueError, match="its checksum differs"):
            from_line(altered)
    for other in ("", "3\n", "[1]\n", '{"auc": 1}\n', line[:-3], "[" * 100_000):
        with pytest.raises(ValueError, match=r"not a row|differs"):
            from_line(other)


def test_a_line_is_not_added_behind_half_of_one(tmp_path):
    path = tmp_path / "rows.jsonl"
    append_line(path, {"n": 1})
    path.write_bytes(path.read_bytes()[:-4])
    for n in (2, 3):
        append_line(path, {"n": n})
    lines = path.read_text().splitlines()
    assert [from_line(line) for line in lines[1:]] == [{"n": 2}, {"n": 3}]
    assert len(lines) == 3
