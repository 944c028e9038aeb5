"""Files to rows: readers of tables and images, sets by name, the table encoder, splits without leaks.

`readers/` files as they come; `encoder/` a table to a matrix; `features/` those of a
frozen network, on disk; `sources/` what `data` may name. Names are loaded when they are first used: who asks for no
table loads no reader of tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.imports import lazily

if TYPE_CHECKING:
    from lossdial.data.contact_sheet import save_contact_sheet
    from lossdial.data.encoder import ColumnReport, TableEncoder
    from lossdial.data.leaks import count_copies, join_groups, row_digests, row_groups, split_rows
    from lossdial.data.readers.decoding import Decoded, decode_images
    from lossdial.data.readers.images import (
        ImageFiles,
        list_image_csv,
        list_image_folder,
        list_images,
        load_images,
        split_images,
    )
    from lossdial.data.readers.tables import read_table, split_target
    from lossdial.data.sources import data_root
    from lossdial.data.splits import ImageSplit, TableSplit, counts_table, grouped_split, subsample_minority

__all__ = [
    "ColumnReport",
    "Decoded",
    "ImageFiles",
    "ImageSplit",
    "TableEncoder",
    "TableSplit",
    "count_copies",
    "counts_table",
    "data_root",
    "decode_images",
    "grouped_split",
    "join_groups",
    "list_image_csv",
    "list_image_folder",
    "list_images",
    "load_images",
    "read_table",
    "row_digests",
    "row_groups",
    "save_contact_sheet",
    "split_images",
    "split_rows",
    "split_target",
    "subsample_minority",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "contact_sheet": "save_contact_sheet",
        "encoder": "ColumnReport TableEncoder",
        "leaks": "count_copies join_groups row_digests row_groups split_rows",
        "readers.decoding": "Decoded decode_images",
        "readers.images": "ImageFiles list_image_csv list_image_folder list_images load_images split_images",
        "readers.tables": "read_table split_target",
        "sources": "data_root",
        "splits": "ImageSplit TableSplit counts_table grouped_split subsample_minority",
    },
)
