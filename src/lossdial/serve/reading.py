"""Bodies and query strings, read by hand: small, strict, and every mistake in a line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from lossdial.base.errors import closest
from lossdial.serve.limits import Refused

__all__ = ["LARGEST", "flag", "mapping", "number", "numbers", "parse_json", "query", "shown", "text", "with_keys"]


#: the largest score, threshold or cost that is taken: beyond it arithmetic overflows, and nobody means it
LARGEST: Final = 1e9


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON; numbers must be finite, and a gap is null")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)  # made once: that costs more than a row


def parse_json(body: bytes) -> Any:
    """JSON as the standard has it: no NaN, no Infinity."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except RecursionError:
        raise Refused(400, "the body is nested too deeply.") from None
    except ValueError as error:  # UnicodeDecodeError is one
        raise Refused(400, f"the body is not JSON: {error}.") from None


def with_keys(content: Any, known: Sequence[str], required: Iterable[str] = ()) -> dict[str, Any]:
    """An object of JSON that has these keys and no others."""
    if not isinstance(content, dict):
        raise Refused(400, f"the body must be a JSON object with {', '.join(known)}; got {shown(content)}.")
    for key in content:
        if key not in known:
            raise Refused(400, f"{key!r:.60} is unknown; {closest(key[:60], known)}")
    for key in required:
        if key not in content:
            raise Refused(400, f"{key!r} is missing; the body is an object with {', '.join(known)}.")
    return content


def query(raw: bytes, known: Sequence[str]) -> dict[str, str]:
    """The query string, each name once and known."""
    found: dict[str, str] = {}
    if not raw:
        return found
    try:
        pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise Refused(400, "the query string has too many parts.") from None
    for name, value in pairs:
        if name not in known:
            there = closest(name[:60], known) if known else "this address takes none."
            raise Refused(400, f"the query has {name!r:.60}, which is unknown; {there}")
        if name in found:
            raise Refused(400, f"{name} is given twice in the query; give it once.")
        found[name] = value
    return found


def shown(value: Any) -> str:
    """A value in a message: short, whatever came."""
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    written = "null" if value is None else "true" if value is True else "false" if value is False else repr(value)
    return written if len(written) <= 60 else written[:60] + "…"


def number(value: Any, name: str) -> float:
    """A finite number of JSON, or the text of one in a query."""
    try:
        found = math.nan if isinstance(value, bool) or (isinstance(value, str) and len(value) > 200) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise Refused(400, f"{name} must be a finite number; got {shown(value)}.")
    return found


def text(value: Any, name: str) -> str:
    """A text."""
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        raise Refused(400, f"{name} must be text of 1 to 200 characters; got {shown(value)}.")
    return value


def flag(value: Any, name: str) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise Refused(400, f"{name} must be true or false; got {shown(value)}.")
    return value


def numbers(value: Any, name: str, most: int) -> NDArray[np.float64]:
    """A list of finite numbers, (n,), n from 1 to `most`."""
    if not isinstance(value, list) or not value:
        raise Refused(400, f"{name} must be a list of one or more numbers; got {shown(value)}.")
    if len(value) > most:
        raise Refused(413, f"{name} has {len(value):,} entries; at most {most:,} are taken at once. Send several.")
    found = np.array([number(entry, f"{name}[{i}]") for i, entry in enumerate(value)], dtype=np.float64)
    if (beyond := np.abs(found) > LARGEST).any():
        i = int(beyond.argmax())
        raise Refused(400, f"{name}[{i}] must lie within ±{LARGEST:g}; got {shown(value[i])}.")
    return found


def mapping(value: Any, name: str) -> Mapping[str, float]:
    """Names and numbers: an object of JSON, or `gamma=0.1,tau=2` in a query."""
    if isinstance(value, (str, dict)) and len(value) > 2_000:
        raise Refused(413, f"{name} is too long; it names a handful of numbers.")
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",")]
        if not all(equals for _, equals, _ in pairs) or len({key for key, _, _ in pairs}) < len(pairs):
            raise Refused(400, f"{name} must be written as name=number,name=number; got {shown(value)}.")
        return {key.strip(): number(entry, f"{name}: {key.strip()!r:.60}") for key, _, entry in pairs}
    if not isinstance(value, dict):
        raise Refused(400, f"{name} must be an object of names and numbers; got {shown(value)}.")
    return {key: number(entry, f"{name}: {key!r:.60}") for key, entry in value.items()}
