"""Features of a table, learned once from labelled rows: where columns are cut, and trees grown on residuals."""

from lossdial.training.tables.learning import Learned, learn_table

__all__ = ["Learned", "learn_table"]
