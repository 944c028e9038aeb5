"""What a server takes at most, and how it says no."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_LONGEST: Final = 2_000  # characters of a message


def shortened(message: str) -> str:
    """A message as it is answered: what strangers wrote comes back in part."""
    return message if len(message) <= _LONGEST else message[:_LONGEST] + "…"


@dataclass(frozen=True)
class Limits:
    """Bounds on what strangers can make a server hold or wait for.

    body: bytes of one request; those of all that are not answered yet may together have eight times as many.
    rows: rows, images or scores of one request.
    queue: rows that are waited for at once.
    seconds: for a request to arrive, for its rows to be scored, and for an answer to be taken; an idle connection is
        closed after them, too.
    connections: open at once.
    """

    body: int = 10 * 2**20
    rows: int = 10_000
    queue: int = 50_000
    seconds: float = 30.0
    connections: int = 1_000

    def __post_init__(self) -> None:
        for name in ("body", "rows", "queue", "seconds", "connections"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0; got {getattr(self, name)}.")


@dataclass(eq=False)
class Refused(Exception):
    """An answer that is a refusal: an HTTP status and one plain message."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message
