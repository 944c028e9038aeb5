"""Descriptions of parts of a model: frozen values that are checked where they are written, and go to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from lossdial.base.names import closest

__all__ = ["Config"]


@dataclass(frozen=True)
class Config:
    """A part of a model as a value. Subclasses are frozen dataclasses of plain values, with a ``name`` for the JSON."""

    name: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The name, and every field."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"name": self.name} | {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` gave; a field that is missing has its default."""
        known = [field.name for field in fields(cls)]
        given = {key: value for key, value in data.items() if key != "name"}
        for key in given:
            if key not in known:
                raise ValueError(f"{cls.__name__} has no field {key!r}; {closest(key, known)}")
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})


def whole(value: object, least: int = 1) -> bool:
    """Whether a value is an integer of at least so much; True and 2.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
