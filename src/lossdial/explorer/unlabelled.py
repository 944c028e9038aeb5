"""Scores without labels: what a page can still show of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lossdial.dial.checks import FloatArray, require_finite


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Scores (n,) or (n, m) at m values of λ whose outcomes nobody knows yet.

    The page then shows how many alerts each threshold raises, and nothing that would need the truth.

    >>> Unlabelled([0.1, 0.7, -2.0]).shape
    (3, 1)
    """

    scores: ArrayLike
    lams: Sequence[Mapping[str, float]] | None = None

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores)
        scores = scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)
        scores = scores[:, None] if scores.ndim == 1 else scores
        lams = ({},) if self.lams is None else tuple({k: float(v) for k, v in lam.items()} for lam in self.lams)
        if scores.ndim != 2 or scores.shape[0] == 0 or scores.shape[1] != len(lams):
            raise ValueError(
                f"scores must have shape (n,), or (n, m) with one column for each of the {len(lams)} lams, and n > 0; "
                f"got {np.shape(self.scores)}."
            )
        if any(set(lam) != set(lams[0]) for lam in lams):
            raise ValueError(f"lams must all have the same names; got {sorted({tuple(lam) for lam in lams})}.")
        require_finite(scores.T)
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "lams", lams)

    @property
    def shape(self) -> tuple[int, int]:
        n, m = np.shape(self.scores)
        return n, m

    def columns(self) -> Iterator[FloatArray]:
        """Scores (n,) of each λ."""
        yield from np.ascontiguousarray(np.asarray(self.scores).T)
