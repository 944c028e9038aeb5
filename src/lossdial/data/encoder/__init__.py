"""A table of numbers, dates, text and gaps to a matrix."""

from lossdial.data.encoder.inference import ColumnReport
from lossdial.data.encoder.table import TableEncoder

__all__ = ["ColumnReport", "TableEncoder"]
