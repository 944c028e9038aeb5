"""The table encoder as scikit-learn knows it: in pipelines, with clone, set_output and parameters."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from lossdial.data.encoder.table import TableCoder

__all__ = ["TableEncoder"]


class TableEncoder(TransformerMixin, BaseEstimator, TableCoder):
    __doc__ = TableCoder.__doc__

    def transform(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.float32]:
        return TableCoder.transform(self, X)  # scikit-learn's set_output wraps what a class itself defines
