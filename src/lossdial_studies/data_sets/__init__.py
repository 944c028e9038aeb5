"""The paper's data sets, and tables, by name: `lossdial train --data NAME` finds them here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.imports import lazily

if TYPE_CHECKING:
    from lossdial_studies.data_sets.dataset import ImageDataSet
    from lossdial_studies.data_sets.named import DATA_SETS, data_set, fetch
    from lossdial_studies.data_sets.named_tables import TableDataSet

__all__ = ["DATA_SETS", "ImageDataSet", "TableDataSet", "data_set", "fetch"]

__getattr__, __dir__ = lazily(
    __name__,
    {"dataset": "ImageDataSet", "named": "DATA_SETS data_set fetch", "named_tables": "TableDataSet"},
)
