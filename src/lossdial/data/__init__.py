"""Files to arrays: tables, images, the paper's data sets, imbalance and grouped splits."""

from lossdial.data.encoding import TableEncoder
from lossdial.data.tables import read_table, split_target

__all__ = ["TableEncoder", "read_table", "split_target"]
