"""Reasons: what each column of a raw row adds to its score, and what a score loses without a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lossdial.base.errors import InputError
from lossdial.base.progress import ProgressBar

if TYPE_CHECKING:
    from lossdial.bundle.predictor import Predictor

_SHOWN: Final = 10  # columns in a text
_BAR: Final = 24  # characters of the longest bar
_ROWS: Final = 4_000  # on which a column is shuffled


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each column adds to the scores of n rows, in log-odds of the positive class.

    ``base + contributions.sum(1)`` is the margin. The score of a row is taken apart exactly as the model computes it;
    that tells nothing of causes. ``explanation[3]`` is that of one row, ``explanation[:100]`` that of several.

    Attributes
    ----------
    columns : tuple of str
        The d columns of the raw rows that the model reads.
    contributions : array of shape (n, d)
        What each of them adds.
    base : float
        The margin before any column is looked at.
    margin : array of shape (n,)
        z₊ − z₋ at the λ of the point, as the model gives it.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from lossdial import LCTClassifier
    >>> X, y = make_classification(400, weights=[0.8], random_state=0)
    >>> explanation = LCTClassifier(network="features").fit(X, y).explain(X)
    >>> bool(np.allclose(explanation.base + explanation.contributions.sum(1), explanation.margin, atol=1e-5))
    True
    """

    columns: tuple[str, ...]
    contributions: NDArray[np.float64]
    base: float
    margin: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.margin)

    def __getitem__(self, rows: Any) -> Explanation:
        if rows is None or isinstance(rows, bool):
            raise InputError("rows", "must be the number of a row, a slice, or an array of numbers", got=rows)
        rows = np.atleast_1d(np.arange(len(self))[rows])
        return Explanation(self.columns, self.contributions[rows], self.base, self.margin[rows])

    @property
    def size(self) -> NDArray[np.float64]:
        """The mean absolute contribution of each column, (d,)."""
        return np.asarray(np.abs(self.contributions).mean(0))

    @property
    def share(self) -> NDArray[np.float64]:
        """The same as shares of their sum, (d,)."""
        return np.asarray(self.size / max(self.size.sum(), np.finfo(float).tiny))

    @property
    def order(self) -> NDArray[np.intp]:
        """The places of the columns, that of the largest mean absolute contribution first."""
        return np.argsort(-self.size, kind="stable")

    def __str__(self) -> str:
        """The largest contributions: of one row each with its sign, of several their mean absolute values."""
        one = len(self) == 1
        values = self.contributions[0] if one else self.size

        def figure(places: NDArray[np.intp]) -> str:
            total = values[places].sum()
            return f"{total:+8.3f}" if one else f"{total:8.3f}  {self.share[places].sum():4.0%}"

        lines = [f"{len(self):,} rows; the mean absolute contribution of each column, and its share:"]
        if one:
            lines = [f"score {self.margin[0]:+.3f} = base {self.base:+.3f} and, of each column:"]
        longest = max(np.abs(values).max(initial=0), np.finfo(float).tiny)
        for place in self.order[:_SHOWN]:
            bar = ("+" if values[place] > 0 else "-") * round(_BAR * abs(values[place]) / longest)
            lines.append(f"{figure(np.array([place]))}  {self.columns[place]}  {bar}".rstrip())
        others = self.order[_SHOWN:]
        if len(others):
            lines.append(f"{figure(others)}  {len(others):,} other columns together")
        return "\n".join(lines)


def permutation_importances(
    predictor: Predictor, X: Any, y: NDArray[np.int64], lam: Mapping[str, float], shuffles: int = 5, seed: int = 0
) -> tuple[float, NDArray[np.float64]]:
    """The average precision of raw rows, labels y (n,), at one λ; and by how much each shuffle of a raw column lowers
    it, (shuffles, d).

    Of more than 4,000 rows so many are drawn, up to half of them positives, and each class counts as it does in all.
    """
    from sklearn.metrics import average_precision_score  # here, for reading a model must not cost scikit-learn

    generator = np.random.default_rng(seed)
    encoded, weight = predictor.schema.encode(X), np.ones(len(y))
    if len(y) > _ROWS:
        drawn = []
        for label, most in ((1, _ROWS // 2), (0, _ROWS - min(_ROWS // 2, int(y.sum())))):
            rows = np.flatnonzero(y == label)
            drawn.append(generator.permutation(rows)[:most])
            weight[rows] = len(rows) / max(1, len(drawn[-1]))
        kept = np.concatenate(drawn)
        encoded, y, weight = encoded[kept], y[kept], weight[kept]
    folded = predictor.fold(lam)

    def precision() -> float:
        return float(
            average_precision_score(y, predictor.margins(predictor.embed(encoded), folded), sample_weight=weight)
        )

    widths = predictor.schema.widths()
    whole, drops, stop = precision(), np.zeros((shuffles, len(widths))), 0
    with ProgressBar("importances", len(widths), delay=2.0) as bar:
        for place, width in enumerate(widths.values()):
            own = slice(stop, stop := stop + width)
            before = encoded[:, own].copy()
            for shuffle in range(shuffles):
                encoded[:, own] = before[generator.permutation(len(before))]
                drops[shuffle, place] = whole - precision()
            encoded[:, own] = before
            bar.advance(place + 1, {})
    return whole, drops
