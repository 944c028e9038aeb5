"""Files to rows: readers of tables and images, data sets by name, the table encoder, splits without leaks.

`readers/` reads files as they come; `encoder/` turns a table into a matrix; `sources` knows what `data` may name;
`samples` and `splits` divide it into training and test; `embedding` keeps features of a frozen network on disk. A name
is loaded at its first use: a caller that needs no table loads no reader of tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.imports import lazily

if TYPE_CHECKING:
    from lossdial.data.encoder.transformer import TableEncoder
    from lossdial.data.readers.tables import read_table
    from lossdial.data.samples import ImageSplit, counts_table, save_contact_sheet
    from lossdial.data.sources import data_root
    from lossdial.data.splits import grouped_split, subsample_minority

__all__ = [
    "ImageSplit",
    "TableEncoder",
    "counts_table",
    "data_root",
    "grouped_split",
    "read_table",
    "save_contact_sheet",
    "subsample_minority",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "encoder.transformer": "TableEncoder",
        "readers.tables": "read_table",
        "samples": "ImageSplit counts_table save_contact_sheet",
        "sources": "data_root",
        "splits": "grouped_split subsample_minority",
    },
)
