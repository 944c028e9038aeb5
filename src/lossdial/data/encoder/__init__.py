"""A table of numbers, dates, text and gaps to a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.imports import lazily

if TYPE_CHECKING:
    from lossdial.data.encoder.inference import ColumnReport
    from lossdial.data.encoder.table import TableCoder
    from lossdial.data.encoder.transformer import TableEncoder

__all__ = ["ColumnReport", "TableCoder", "TableEncoder"]

__getattr__, __dir__ = lazily(
    __name__, {"inference": "ColumnReport", "table": "TableCoder", "transformer": "TableEncoder"}
)
