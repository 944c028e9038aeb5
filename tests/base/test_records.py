"""Dataclasses as JSON and back."""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest

from lossdial.base.records import from_json, to_json


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
