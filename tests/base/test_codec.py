"""Values as JSON and back, and what is said of JSON that is not as it must be."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from lossdial.base.codec import Config, Reader, as_number, decode, encode_float, from_json, to_json
from lossdial.base.errors import InputError


@dataclass(frozen=True)
class Inner:
    lr: float
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.lr < 0:
            raise ValueError("lr must not be negative")


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=lambda: Inner(0.1))
    deep: tuple[tuple[int, ...], ...] = ((1, 2), (3,))
    pair: tuple[float, str] | None = None
    mode: Literal["a", "b"] = "a"
    note: str | None = None
    table: Mapping[str, float] = field(default_factory=dict)


OUTER = Outer(Inner(1e-3, ("a", "b")), pair=(0.5, "x"), mode="b", note="x", table={"recall": 0.9})


@pytest.mark.parametrize("tagged", [True, False])
def test_there_and_back_through_text(tagged: bool) -> None:
    data = json.loads(json.dumps(to_json(OUTER, tagged)))
    assert (from_json(data, [Inner, Outer]) if tagged else decode(Outer, data, "outer")) == OUTER


def test_values_around_dataclasses() -> None:
    assert to_json((np.float32(0.5), np.int64(3), np.bool_(True))) == [0.5, 3, True]
    assert from_json({"a": [1, None, {"kind": "Inner", "lr": 1}]}, [Inner]) == {"a": (1, None, Inner(1.0))}
    with pytest.raises(TypeError, match="cannot be kept as JSON"):
        to_json({"f": print})
    assert decode(str | Inner | None, {"lr": 1}, "x") == Inner(1.0)  # a union takes the first type that fits
    assert decode(int | float, 2.5, "x") == 2.5
    assert decode(str | Inner | None, None, "x") is None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"kind": "Elsewhere"}, "JSON: 'kind' must be one of Inner, Outer"),
        ({"kind": 3}, "JSON: 'kind' must be one of Inner, Outer"),
        ({"kind": "Outer", "inner": {"kind": "Outer"}}, "JSON: 'inner': 'kind' must be one of Inner, Outer"),
        ({"kind": "Inner"}, "JSON lacks 'lr'; it has nothing"),
        ({"kind": "Inner", "lr": 1, "evil": 2}, "JSON has no field 'evil'"),
        ([{"kind": "Inner", "lr": "fast"}], "JSON: 'lr' must be a number"),
        (None, "outer must be an object of names and values"),
        ({"inner": {"lr": float("inf")}}, "outer: 'inner': 'lr' must be finite"),
        ({"inner": {"lr": float("nan")}}, "outer: 'inner': 'lr' must be a number"),
        ({"inner": {"lr": True}}, "outer: 'inner': 'lr' must be a number"),
        ({"inner": {"lr": 10**400}}, "outer: 'inner': 'lr' must be a number that fits in 64 bits"),
        ({"inner": {"lr": -1}}, "outer: 'inner': lr must not be negative"),
        ({"inner": {"lr": 1, "names": [1]}}, "outer: 'inner': 'names' must be a text"),
        ({"inner": None}, "outer: 'inner' must be an object of names and values"),
        ({"deep": [[1], [1.5]]}, "outer: 'deep' must be a whole number"),
        ({"deep": [[True]]}, "outer: 'deep' must be a whole number"),
        ({"pair": [1]}, "outer: 'pair' must be a list of 2"),
        ({"mode": "c"}, "outer: 'mode' must be one of 'a', 'b'"),
        ({"note": 3}, "outer: 'note' must be a text"),
        ({"table": {"recall": None}}, "outer: 'table': 'recall' must be a number"),
        ({"Note": "x"}, "outer has no field 'Note'"),
    ],
)
def test_fields_are_checked_by_their_annotations(data: Any, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        decode(Outer, data, "outer") if problem.startswith("outer") else from_json(data, [Inner, Outer])
    assert (raised.value.argument, raised.value.problem) == ("", problem)


READER = Reader(
    {"name": "clinic", "n": 3, "rate": 0.5, "cut": "-inf", "gone": None, "on": True, "lam": {"tau": 1}, "rows": [{}]},
    "point",
)


def test_a_reader_reads_fields() -> None:
    assert (READER.text("name"), READER.count("n"), READER.finite("rate")) == ("clinic", 3, 0.5)
    assert (READER.number("cut"), READER.optional("gone"), READER.flag("on")) == (-np.inf, None, True)
    assert (READER.finite_by_name("lam"), READER.items("rows")) == ({"tau": 1.0}, [{}])
    assert READER.nested("lam").finite("tau") == 1.0
    assert READER.nested_list("rows")[0].where == "point: 'rows', entry 0"
    assert READER.read("n", int) == 3


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (lambda: READER.get("absent"), "point: 'absent' is missing; there are 'name', 'n', 'rate', 'cut', 'gone'"),
        (lambda: READER.text("n"), "point: 'n' must be a text"),
        (lambda: READER.count("rate"), "point: 'rate' must be a whole number, 0 or more"),
        (lambda: READER.finite("cut"), "point: 'cut' must be finite"),
        (lambda: READER.nested_list("rows")[0].text("x"), "point: 'rows', entry 0: 'x' is missing; there are none"),
        (lambda: Reader([1], "point"), "point must be an object of names and values"),
    ],
)
def test_a_reader_names_the_place(read: Any, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        read()
    assert raised.value.problem.startswith(problem)


def test_numbers_that_json_lacks() -> None:
    for value in (0.1, -np.inf, np.inf, np.float64(3)):
        assert as_number(json.loads(json.dumps(encode_float(value))), "x") == value
    assert np.isnan(as_number(encode_float(np.nan), "x", nan=True))
    for value in ("nan", float("nan"), "0.1", None, True):
        with pytest.raises(InputError, match="x must be a number"):
            as_number(value, "x")


@dataclass(frozen=True)
class Head(Config):
    name = "head"
    widths: tuple[int, ...] = (3,)


def test_a_config_has_its_name_beside_its_fields() -> None:
    assert Head((4, 5)).to_json() == {"name": "head", "widths": [4, 5]}
    assert Head.from_json({"name": "head", "widths": [4, 5]}) == Head((4, 5))
    with pytest.raises(InputError, match=r"Head has no field 'width'. Did you mean 'widths'\?"):
        Head.from_json({"width": 1})
