"""Reading JSON that somebody else may have written: every mistake is named by its key."""

import math
from collections.abc import Mapping
from typing import Any

_MISSING = object()
_LONGEST = 60


class Reader:
    """The fields of one JSON object; `where` is how errors call it."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, Mapping):
            raise ValueError(f"{where} must be an object of names and values; got {_show(data)}.")
        self.data, self.where = data, where

    def get(self, key: str, default: Any = _MISSING) -> Any:
        """What stands under a key."""
        if key not in self.data and default is _MISSING:
            raise ValueError(
                f"{self.where}: {key!r} is missing; there are {', '.join(map(repr, self.data)) or 'none'}."
            )
        return self.data.get(key, default)

    def text(self, key: str) -> str:
        return str(self._of(key, str, "a text"))

    def flag(self, key: str) -> bool:
        return bool(self._of(key, bool, "true or false"))

    def mapping(self, key: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._of(key, Mapping, "an object of names and values")
        return found

    def items(self, key: str) -> list[Any]:
        return list(self._of(key, list, "a list"))

    def count(self, key: str) -> int:
        found = self.get(key)
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise self._wrong(key, "a whole number, 0 or more", found)
        return found

    def number(self, key: str) -> float:
        """A number, or 'inf' or '-inf', which JSON cannot hold; not NaN."""
        return as_number(self.get(key), f"{self.where}: {key!r}")

    def finite(self, key: str) -> float:
        value = self.number(key)
        if math.isinf(value):
            raise self._wrong(key, "finite", value)
        return value

    def positive(self, key: str) -> float:
        value = self.finite(key)
        if value <= 0:
            raise self._wrong(key, "greater than 0", value)
        return value

    def optional(self, key: str) -> float | None:
        return None if self.get(key) is None else self.finite(key)

    def numbers(self, key: str) -> tuple[float, ...]:
        return tuple(as_number(value, f"{self.where}: {key!r}") for value in self.items(key))

    def finite_by_name(self, key: str) -> dict[str, float]:
        return {
            str(name): Reader(self.mapping(key), f"{self.where}: {key!r}").finite(name) for name in self.mapping(key)
        }

    def _of(self, key: str, kind: type, spelled: str) -> Any:
        found = self.get(key)
        if not isinstance(found, kind):
            raise self._wrong(key, spelled, found)
        return found

    def _wrong(self, key: str, spelled: str, found: Any) -> ValueError:
        return ValueError(f"{self.where}: {key!r} must be {spelled}; got {_show(found)}.")


def as_number(value: Any, where: str, nan: bool = False) -> float:
    """A float from JSON; the texts 'inf' and '-inf' (and 'nan', where it is legal) stand for what JSON lacks."""
    legal = ("inf", "-inf", "nan") if nan else ("inf", "-inf")
    if value not in legal if isinstance(value, str) else isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where} must be a number; got {_show(value)}.")
    number = float(value)
    if math.isnan(number) and not nan:
        raise ValueError(f"{where} must be a number; got NaN.")
    return number


def encode_float(value: float) -> float | str:
    """A float as JSON can hold it; `as_number` reads it back."""
    # JSON has no infinity, and a threshold of +inf ('predict none') is legal.
    return float(value) if math.isfinite(value) else repr(float(value))


def _show(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
