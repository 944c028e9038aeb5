"""The table encoder as a scikit-learn transformer. Apart, for reading a model must not cost scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from lossdial.data.encoder.table import TableCoder

__all__ = ["TableEncoder"]


class TableEncoder(TransformerMixin, BaseEstimator, TableCoder):
    __doc__ = TableCoder.__doc__

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Encode rows as those of training were; see :meth:`TableCoder.transform`."""
        return TableCoder.transform(self, X)  # scikit-learn's set_output wraps what a class itself defines
