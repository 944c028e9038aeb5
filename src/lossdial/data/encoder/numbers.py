"""Text that means a number: decimal commas, thousands separators, currencies, units, and words for 'missing'."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = [
    "LONGEST",
    "PLACEHOLDERS",
    "Cell",
    "NumberFormat",
    "choose_format",
    "is_placeholder",
    "number_like",
    "split_cell",
]

#: characters of a cell that may be a number or a date; longer text is not looked into
LONGEST: Final = 200
# fmt: off
#: words that stand for an empty cell among numbers and dates, compared without regard to case
PLACEHOLDERS: Final = frozenset({
    "", "-", "--", "---", "–", "—", ".", "..", "...", "?", "??", "???", "*", "unknown", "unk", "n/a", "n.a.",
    "n. a.", "na", "<na>", "nan", "-nan", "nat", "null", "none", "nil", "missing", "not available", "not known",
    "not applicable", "not measured", "not recorded", "not reported", "not specified", "unspecified", "no data",
    "nd", "n.d.", "n/d", "k.a.", "k. a.", "undefined", "undef", "tbd", "#n/a", "#n/a n/a", "#na", "#value!",
    "#div/0!", "#ref!", "#null!", "#num!", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan", "unbekannt", "inconnu",
    "desconocido",
})
# fmt: on

_CODES: Final = (
    "USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|CAD|AUD|NZD|BRL|ZAR|RUB|TRY|MXN|SGD|HKD|KRW|ILS|THB|RON"
)
_CURRENCY: Final = rf"(?:[A-Z]{{1,2}})?[$€£¥₹₽₩₺฿₪₫₴₦₱]|{_CODES}|Rs\.?|Fr\."
_UNIT: Final = r"[%‰$€£¥₹₽₩₺฿₪₫₴₦₱]|[^\W\d_°][^\s,;]{0,9}|°[^\s\d,;]{0,3}"
_CELL: Final = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-])?\s?(?P<prefix>{_CURRENCY})?\s?(?P<inner>[+-])?"
    r"(?P<body>[.,]?\d(?:[\d.,' ]*\d)?[.,]?)(?P<exponent>[eE][+-]?\d{1,3})?"
    rf"\s?(?P<suffix>{_UNIT})?(?P<close>\))?"
)
_SAME: Final = str.maketrans({"−": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'"})


@dataclass(frozen=True)
class Cell:
    """What a cell that may be a number is made of."""

    negative: bool
    prefix: str
    body: str
    exponent: str
    suffix: str


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written; one format for all of them.

    decimal: the mark before decimals. Of a column that had whole numbers alone, in a table with decimal commas, it is
    ",.": a comma, and also a point where it cannot be one of thousands.

    >>> NumberFormat(decimal=",", thousands=".", suffix="€").read("1.234,50 €")
    1234.5
    >>> NumberFormat().read("1,5") is None
    True
    >>> NumberFormat(",.").read("100.5"), NumberFormat(",.").read("1.234")
    (100.5, None)
    """

    decimal: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""

    @property
    def bare(self) -> bool:
        """Whether numbers stand without a currency sign or unit."""
        return not (self.prefix or self.suffix)

    def read(self, text: str) -> float | None:
        """The number that a text means in this format; None where it means none."""
        cell = split_cell(text)
        return None if cell is None else self.value(cell)

    def value(self, cell: Cell) -> float | None:
        """The number of a cell that is taken apart already."""
        if (cell.prefix, cell.suffix) != (self.prefix, self.suffix):
            return None
        plain = _plain(cell.body, self.decimal[0], self.thousands)
        if plain is None and len(self.decimal) > 1 and not _THOUSANDS.search(cell.body):
            plain = _plain(cell.body, self.decimal[1], self.thousands)
        return None if plain is None else float(f"{'-' if cell.negative else ''}{plain}{cell.exponent}")

    def describe(self) -> str:
        """What is unusual about it, in words; empty for plain numbers."""
        parts = []
        if self.decimal == ",":
            parts.append("decimal commas")
        if self.thousands:
            parts.append(
                {" ": "spaces", "'": "apostrophes", ",": "commas", ".": "dots"}[self.thousands] + " in thousands"
            )
        parts.extend(f"the unit {unit!r}" for unit in (self.prefix, self.suffix) if unit)
        return ", ".join(parts)


_EITHER: Final = ",."
_THOUSANDS: Final = re.compile(r"\.\d{3}(?!\d)")
#: the formats tried, in order; with decimal commas elsewhere in the table, those with a comma come first
_POINT: Final = ((".", ""), (".", ","), (".", " "), (".", "'"))
_COMMA: Final = ((",", ""), (",", "."), (",", " "), (",", "'"))


def is_placeholder(text: str) -> bool:
    """Whether a text stands for an empty cell.

    >>> is_placeholder(" N/A "), is_placeholder("12")
    (True, False)
    """
    return len(text) <= LONGEST and text.strip().casefold() in PLACEHOLDERS


def split_cell(text: str) -> Cell | None:
    """A text taken apart as sign, currency, digits, exponent and unit; None where it cannot be a number."""
    found = _CELL.fullmatch(text.translate(_SAME).strip()) if len(text) <= LONGEST else None
    if found is None:
        return None
    signs = [s for s in (found["sign"], found["inner"]) if s]
    if len(signs) > 1 or bool(found["open"]) != bool(found["close"]) or (found["open"] and signs):
        return None
    negative = bool(found["open"]) or signs == ["-"]  # accountants write (12.50)
    return Cell(negative, found["prefix"] or "", found["body"], found["exponent"] or "", found["suffix"] or "")


def choose_format(cells: Sequence[Cell], comma: bool = False) -> tuple[NumberFormat, bool] | None:
    """The one format that reads every cell, and whether another would read them all as other numbers.

    comma: whether other columns of the table have decimal commas, which then decides what is open here.
    None if no format fits, or if units differ.

    >>> cells = [c for c in map(split_cell, ["1,5", "12"]) if c]
    >>> choose_format(cells)
    (NumberFormat(decimal=',', thousands='', prefix='', suffix=''), False)
    """
    units = {(cell.prefix, cell.suffix) for cell in cells}
    if len(units) != 1:
        return None
    prefix, suffix = units.pop()
    bodies = {cell.body for cell in cells}
    fitting = [
        (decimal, thousands)
        for decimal, thousands in ((*_COMMA, *_POINT) if comma else (*_POINT, *_COMMA))
        if all(_plain(body, decimal, thousands) is not None for body in bodies)
    ]
    if not fitting:
        return None
    marked = sorted(body for body in bodies if "," in body or "." in body)  # about the others all formats agree
    readings = {tuple(_plain(body, *format_) for body in marked) for format_ in fitting}
    if fitting[0][0] == "," and not marked:
        return NumberFormat(_EITHER, "", prefix, suffix), False
    return NumberFormat(*fitting[0], prefix, suffix), len(readings) > 1


def number_like(texts: Iterable[tuple[str, int]]) -> tuple[int, list[str]]:
    """How many of the cells (text, count) read as a number, in whatever format, and the texts that do not.

    A unit counts if at least one cell in twenty has it: '5 kg' beside '300 g' are numbers, '12 Elm' is an address.
    """
    pairs = list(texts)
    cells = [(text, count, split_cell(text)) for text, count in pairs]
    tally: dict[str, int] = {}
    for _, count, cell in cells:
        if cell is not None:
            tally[cell.suffix] = tally.get(cell.suffix, 0) + count
    total = sum(count for _, count in pairs)
    known = {"", "%"} | {unit for unit, count in tally.items() if 20 * count >= total}
    formats = [*_POINT, *_COMMA]

    def reads(cell: Cell | None) -> bool:
        return (
            cell is not None and cell.suffix in known and any(_plain(cell.body, d, t) is not None for d, t in formats)
        )

    return sum(count for _, count, cell in cells if reads(cell)), [text for text, _, cell in cells if not reads(cell)]


def _plain(body: str, decimal: str, thousands: str) -> str | None:
    """Digits with a decimal point, as Python reads them; None where separators are not where they belong."""
    whole, point, fraction = body.partition(decimal)
    if fraction and not (fraction.isascii() and fraction.isdigit()):
        return None
    if whole and not (whole.isascii() and whole.isdigit()):
        if not thousands or not _GROUPED[thousands].fullmatch(whole):
            return None
        whole = whole.replace(thousands, "")
    if not (whole or fraction):
        return None
    return f"{whole or '0'}.{fraction}" if point else whole


def _grouped(mark: str) -> re.Pattern[str]:
    pattern = rf"[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+"
    if mark == ",":
        pattern += r"|[1-9]\d?(?:,\d{2})+,\d{3}"  # 12,34,567 in India
    return re.compile(pattern, re.ASCII)


_GROUPED: Final = {mark: _grouped(mark) for mark in (",", ".", " ", "'")}
