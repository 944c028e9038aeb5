"""Files to rows: readers of tables and images, data sets by name, the table encoder, splits without leaks.

`readers/` reads files as they come; `encoder/` turns a table into a matrix; `sources` knows what `data` may name;
`samples` and `splits` divide it into training and test; `embedding` keeps features of a frozen network on disk. Names
are loaded when they are first used: who asks for no table loads no reader of tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.imports import lazily

if TYPE_CHECKING:
    from lossdial.data.encoder.inference import ColumnReport
    from lossdial.data.encoder.transformer import TableEncoder
    from lossdial.data.leaks import count_copies, split_rows
    from lossdial.data.readers.decoding import decode_images
    from lossdial.data.readers.tables import read_table, split_target
    from lossdial.data.samples import ImageSplit, TableSplit, counts_table, save_contact_sheet
    from lossdial.data.sources import data_root
    from lossdial.data.splits import grouped_split, subsample_minority

__all__ = [
    "ColumnReport",
    "ImageSplit",
    "TableEncoder",
    "TableSplit",
    "count_copies",
    "counts_table",
    "data_root",
    "decode_images",
    "grouped_split",
    "read_table",
    "save_contact_sheet",
    "split_rows",
    "split_target",
    "subsample_minority",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "encoder.inference": "ColumnReport",
        "encoder.transformer": "TableEncoder",
        "leaks": "count_copies split_rows",
        "readers.decoding": "decode_images",
        "readers.tables": "read_table split_target",
        "samples": "ImageSplit TableSplit counts_table save_contact_sheet",
        "sources": "data_root",
        "splits": "grouped_split subsample_minority",
    },
)
