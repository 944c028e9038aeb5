from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossdial.cli.values import UsageError, Words, as_plain, convert


@dataclass(frozen=True)
class Shape(ABC):
    size: float = 1.0

    @abstractmethod
    def area(self) -> float: ...


@dataclass(frozen=True)
class Square(Shape):
    def area(self) -> float:
        return self.size**2


@dataclass(frozen=True)
class Ring(Shape):
    holes: tuple[int, ...] = ()

    def area(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    note: str | None = None

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError(f"rate must be greater than 0; got {self.rate}.")


@dataclass(frozen=True)
class Outer:
    count: int = 3
    inner_part: Inner = field(default_factory=lambda: Inner(rate=0.5))
    shape: Shape = field(default_factory=lambda: Square(2.0))


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        (Words(["7"]), int, 7),
        (Words(["1", "2"]), int, 2),  # the last one counts
        (Words(["-0.5"]), float, -0.5),
        ("1e-3", float, 0.001),
        (Words(["vs+lct"]), Literal["vs", "vs+lct"], "vs+lct"),
        (Words(["4"]), Literal[2, 4], 4),
        (Words(["A,B"]), list[str], ["A", "B"]),
        (Words(["A", "B, C"]), list[str] | None, ["A", "B", "C"]),
        (Words(['"A,B",C']), list[str], ["A,B", "C"]),
        (Words(['"say ""so"""']), list[str], ['say "so"']),
        (Words([""]), list[int], []),
        (["A,B"], list[str], ["A,B"]),  # an item of a list in a file is one item
        ("A,B", list[str], ["A", "B"]),
        (Words(["64,32"]), tuple[int, ...], (64, 32)),
        (Words(["0.65,1"]), tuple[float, float], (0.65, 1.0)),
        (Words(["recall=0.9,fpr=0.2"]), dict[str, float], {"recall": 0.9, "fpr": 0.2}),
        (Words(["recall=0.9", "fpr=0.2"]), dict[str, float] | None, {"recall": 0.9, "fpr": 0.2}),
        (Words(["tau=0,3,0.333", "gamma=0"]), dict[str, list[float]], {"tau": [0, 3, 0.333], "gamma": [0]}),
        (Words(["tau=0,3,0.333,gamma=0"]), dict[str, list[float]], {"tau": [0, 3, 0.333], "gamma": [0]}),
        ({"tau": ["0", "3"]}, dict[str, list[float]], {"tau": [0, 3]}),
        (Words(["none"]), float | None, None),
        (Words(["none"]), str | None, "none"),
        (Words(["none"]), Literal["auto"] | None, None),
        (None, int | None, None),
        (Words(["yes"]), bool, True),
        ({"count": "4"}, Outer, Outer(4)),
        ({"inner-part": {"rate": Words(["0.2"])}}, Outer | None, Outer(inner_part=Inner(0.2))),
        ({"inner_part": {"note": "x"}}, Outer, Outer(inner_part=Inner(0.5, "x"))),  # the rest stays as it was
        ({"shape": {"size": "5"}}, Outer, Outer(shape=Square(5.0))),
        ({"shape": Words(["ring"])}, Outer, Outer(shape=Ring())),
        ({"shape": {"kind": "Ring", "holes": Words(["1,2"])}}, Outer, Outer(shape=Ring(holes=(1, 2)))),
        (Words(["ring"]), str | Shape, "ring"),
        ({"kind": "ring"}, str | Shape, Ring()),
    ],
)
def test_text_becomes_what_the_signature_says(raw: Any, kind: Any, value: Any) -> None:
    assert convert(raw, kind, "--x") == value


@pytest.mark.parametrize(
    ("raw", "kind", "message"),
    [
        (Words(["x"]), int, "--x must be a whole number; got 'x'."),
        (Words(["1.5"]), int | None, "--x must be a whole number; got '1.5'."),
        (Words(["x"]), list[float], "--x must be a number; got 'x'."),
        (Words(["[1, 2]"]), list[int], "--x is written without brackets: --x 1,2."),
        (Words(["v"]), Literal["vs", "focal"], "--x must be one of vs, focal; got 'v'."),
        (Words(["recall"]), dict[str, float], "--x takes names with values, as in --x recall=0.9; got 'recall'."),
        (Words(["=3"]), dict[str, list[float]], "--x takes names with values, as in --x tau=0,3,0.333; got '=3'."),
        (Words(["recall=a"]), dict[str, float], "--x recall must be a number; got 'a'."),
        (Words(['"A']), list[str], "Quote an item with a comma in it"),
        (Words(["1,2,3"]), tuple[float, float], "--x takes 2 values; got 3."),
        ({"a": "b"}, int, "--x takes one value; got {'a': 'b'}."),
        ({"a": "b"}, list[str], "--x is a list; got {'a': 'b'}."),
        (["a"], dict[str, float], "--x takes names with values, as in name=0.5; got ['a']."),
        (None, int, "--x must not be empty."),
        ("maybe", bool, "--x is true or false; got 'maybe'."),
        (Words(["a"]), Outer, "--x is given setting by setting, as in --x.count."),
        ({"coun": "4"}, Outer, "no option is called --x.coun; did you mean --x.count?"),
        ({"shape": Words(["oval"])}, Outer, "--x.shape must be one of square, ring; got 'oval'."),
        ({"shape": {"holes": "1"}}, Outer, "no option is called --x.shape.holes; --x.shape has size."),
        ({"inner-part": {"rate": "0"}}, Outer, "--x.inner-part.rate must be greater than 0; got 0.0."),
    ],
)
def test_mistakes_name_the_option(raw: Any, kind: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        convert(raw, kind, "--x")
    assert message in str(caught.value)


def test_a_giant_value_is_told_in_short() -> None:
    with pytest.raises(UsageError) as caught:
        convert(["9" * 10_000] * 10_000, int, "--x")
    assert len(str(caught.value)) < 300


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)))
def test_quoted_lists_come_back(items: list[str]) -> None:
    """What any program writes as a line of CSV is read as that list."""
    typed = ",".join('"' + item.replace('"', '""') + '"' for item in items)
    assert convert(Words([typed]), list[str], "--x") == items


def test_what_is_printed_is_what_is_read() -> None:
    value = Outer(2, Inner(0.25, "a, b"), Ring(3.0, (1, 2)))
    plain = as_plain(value)
    assert plain["inner-part"] == {"rate": 0.25, "note": "a, b"}
    assert plain["shape"]["kind"] == "ring"

    def as_text(part: Any) -> Any:
        if isinstance(part, dict):
            return {k: as_text(v) for k, v in part.items()}
        return [as_text(v) for v in part] if isinstance(part, list) else str(part)

    assert convert(as_text(plain), Outer, "--x") == value
