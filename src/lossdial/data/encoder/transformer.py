"""The table encoder as a scikit-learn transformer. Apart, for reading a model must not cost scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from lossdial.data.encoder.table import TableCoder


class TableEncoder(TransformerMixin, BaseEstimator, TableCoder):
    """Turn a data frame (n rows) into a float32 matrix (n, d).

    Numbers and booleans pass with gaps filled by the training median, and a column that marks gaps where training had
    any; dates become days; text becomes a column of 0 and 1 for each category. Text that clearly means numbers ('1,5',
    '$12.50', '12 %', 'unknown' among numbers) is read as such, and `report_` says of every column what became of it. A
    column that is mostly numbers but cannot be read as a whole is an error. Values are not scaled: the network
    standardises its own input.

    Parameters
    ----------
    max_categories : int, default=100
        How many categories of a text column have a column each; rarer ones share one.

    Attributes
    ----------
    columns_ : tuple of Column
        The columns that are used, and how.
    report_ : tuple of ColumnReport
        What became of every column.
    dropped_ : tuple of str
        The columns that were left out.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": ["30", "unknown", "50"], "town": ["Ulm", "Bern", "Ulm"]})
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age=<missing>', 'town=Bern', 'town=Ulm']
    >>> encoder.transform(frame)
    array([[30.,  0.,  0.,  1.],
           [40.,  1.,  1.,  0.],
           [50.,  0.,  0.,  1.]], dtype=float32)
    >>> encoder.report_[0].note
    "text as numbers: '30' is 30; 1 cell such as 'unknown' taken as missing"
    """

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Encode rows as those of training were; see :meth:`TableCoder.transform`."""
        return TableCoder.transform(self, X)  # scikit-learn's set_output wraps what a class itself defines
