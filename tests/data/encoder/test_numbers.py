"""Text to numbers: formats, units, words for 'missing', and round trips."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.data.encoder.numbers import NumberFormat, choose_format, is_placeholder, number_like, split_cell

FORMATS = [(decimal, thousands) for decimal in ".," for thousands in ("", ",", ".", " ", "'") if decimal != thousands]


def chosen(texts: list[str], comma: bool = False) -> tuple[NumberFormat, bool] | None:
    cells = [split_cell(text) for text in texts]
    return choose_format([cell for cell in cells if cell is not None], comma) if all(cells) else None


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1,5", "2"], [1.5, 2]),
        (["0,123", "1,234"], [0.123, 1.234]),  # no thousands begin with 0
        (["1.234,5", "7"], [1234.5, 7]),
        (["1,234.5", "1,234"], [1234.5, 1234]),
        (["12,345,678"], [12345678]),
        (["12,34,567"], [1234567]),
        (["1 234,5"], [1234.5]),
        (["1\u202f234,5 €"], [1234.5]),
        (["CHF 1'234.50", "CHF 1’000.00"], [1234.5, 1000]),
        (["$12.50", "-$5", "$ 1,000"], [12.5, -5, 1000]),
        (["12 %", "3.5%"], [12, 3.5]),
        (["(12.50)", "3"], [-12.5, 3]),
        (["−3", "+4", ".5", "6.", "1e-3"], [-3, 4, 0.5, 6, 0.001]),
        (["36.6 °C", "40 °C"], [36.6, 40]),
        (["5 km/h"], [5]),
        (["180cm"], [180]),
    ],
)
def test_what_is_clearly_a_number(texts: list[str], expected: list[float]) -> None:
    found = chosen(texts)
    assert found is not None
    assert not found[1]
    assert [found[0].read(text) for text in texts] == expected


@pytest.mark.parametrize(
    "texts",
    [
        ["5 kg", "300 g"],
        ["$5", "€5"],
        ["$5", "5"],
        ["12 %", "0.12"],
        ["1,5", "1.5"],
        ["1,23", "1,234.5"],
        ["1.2.3"],
        ["12 34"],
        ["<0.5"],
        ["20-30"],
        ["--5"],
        ["(5"],
        ["1,2,3"],
        ["2020-01-01"],
        ["M14"],
        ["3+"],
    ],
)
def test_what_is_not_clear_has_no_format(texts: list[str]) -> None:
    assert chosen(texts) is None


def test_open_questions_are_said_and_the_rest_of_the_table_answers_them() -> None:
    assert chosen(["1,234", "999"]) == (NumberFormat(".", ","), True)
    assert chosen(["1,234", "999"], comma=True) == (NumberFormat(",", ""), True)
    assert chosen(["1.234", "999"]) == (NumberFormat(".", ""), True)
    assert chosen(["1.234", "999", "1.234.567"], comma=True) == (NumberFormat(",", "."), False)
    assert chosen(["12", "999"]) == (NumberFormat(), False)
    assert chosen(["12 %"], comma=True) == (NumberFormat(",.", suffix="%"), False)


@given(
    st.lists(st.floats(-1e9, 1e9).map(lambda v: round(v, 3)), min_size=1, max_size=30),
    st.sampled_from(FORMATS),
    st.sampled_from([("", ""), ("$", ""), ("", " %"), ("€ ", ""), ("", "kg")]),
)
@settings(max_examples=150, deadline=None)
def test_every_format_is_read_back(values: list[float], marks: tuple[str, str], units: tuple[str, str]) -> None:
    decimal, thousands = marks
    sequence = [v if v != round(v, 2) else v + 0.004 for v in values]  # three digits behind every decimal mark
    swap = str.maketrans({",": thousands, ".": decimal})
    texts = [
        f"{units[0]}{v:,.4f}{units[1]}".translate(swap) if thousands else f"{units[0]}{v:.4f}{units[1]}".translate(swap)
        for v in sequence
    ]
    found = chosen(texts)
    assert found is not None
    assert not found[1]
    for text, value in zip(texts, sequence, strict=True):
        assert found[0].read(text) == pytest.approx(value, abs=1e-4)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_python_s_own_writing_is_read_exactly(value: float) -> None:
    assert NumberFormat().read(repr(value)) == value


@given(st.text(max_size=12))
@settings(max_examples=300)
def test_any_text_is_a_finite_answer_or_none(text: str) -> None:
    for decimal, thousands in FORMATS:
        value = NumberFormat(decimal, thousands).read(text)
        assert value is None or isinstance(value, float)


def test_another_format_than_the_columns_is_not_understood() -> None:
    dollars = NumberFormat(prefix="$")
    assert [dollars.read(text) for text in ("$3", "3", "€3", "$3 %", "$1,5")] == [3, None, None, None, None]
    assert NumberFormat(".", ",").read("1,5") is None
    assert NumberFormat(",", ".").read("1.5") is None


def test_placeholders() -> None:
    for word in ("unknown", "Unknown", "n/a", "N/A", "-", "?", "", "  ", "NULL", "#DIV/0!", "not available"):
        assert is_placeholder(word), word
    for word in ("0", "no", "never", "-1", "x", "1-", "n"):
        assert not is_placeholder(word), word


def test_how_much_of_a_column_reads_as_numbers() -> None:
    assert number_like([("1,5", 3), ("2.5", 4), ("abc", 1)]) == (7, ["abc"])
    assert number_like([("5 kg", 5), ("300 g", 5)]) == (10, [])
    addresses = [(f"{i} {'abcdefghijklmnopqrstuvwxyz'[i]}street", 1) for i in range(26)]
    assert number_like(addresses)[0] == 0
