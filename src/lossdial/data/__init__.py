"""Files to arrays: tables, images, the paper's data sets, imbalance and grouped splits.

Names are imported when first used: who reads a model's schema needs no readers of images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.lazy import lazily

if TYPE_CHECKING:
    from lossdial.data.contact_sheet import save_contact_sheet
    from lossdial.data.encoder.table import TableEncoder
    from lossdial.data.imbalance import grouped_split, subsample_minority
    from lossdial.data.readers.decoding import decode_images
    from lossdial.data.readers.images import list_image_csv, list_image_folder, load_images, split_images
    from lossdial.data.readers.tables import read_table, split_target
    from lossdial.data.sets.dataset import ImageDataSet
    from lossdial.data.sets.named import DATA_SETS, data_root, data_set, data_sets_table, fetch
    from lossdial.data.sets.named_tables import TableDataSet
    from lossdial.data.splits import ImageSplit, TableSplit, counts_table

__all__ = [
    "DATA_SETS",
    "ImageDataSet",
    "ImageSplit",
    "TableDataSet",
    "TableEncoder",
    "TableSplit",
    "counts_table",
    "data_root",
    "data_set",
    "data_sets_table",
    "decode_images",
    "fetch",
    "grouped_split",
    "list_image_csv",
    "list_image_folder",
    "load_images",
    "read_table",
    "save_contact_sheet",
    "split_images",
    "split_target",
    "subsample_minority",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "contact_sheet": "save_contact_sheet",
        "encoder.table": "TableEncoder",
        "imbalance": "grouped_split subsample_minority",
        "readers.decoding": "decode_images",
        "readers.images": "list_image_csv list_image_folder load_images split_images",
        "readers.tables": "read_table split_target",
        "sets.dataset": "ImageDataSet",
        "sets.named": "DATA_SETS data_root data_set data_sets_table fetch",
        "sets.named_tables": "TableDataSet",
        "splits": "ImageSplit TableSplit counts_table",
    },
)
