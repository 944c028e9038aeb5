"""The claim by the paper's other metrics, from rows alone: one training against the best and the mean of a search.

A setting, λ and threshold are chosen on one half of the evaluation data and measured on the other, halves swapped, seed
by seed. Bounds are of the seeds alone, in pairs: unlike those of AUC they take the test rows as given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.stats import t as student

from lossdial.dial.metrics.registry import PAPER_METRICS, as_metric
from lossdial_studies.against import CONFIDENCE, SETTING
from lossdial_studies.methods import CONTROLS, method
from lossdial_studies.sheets import TextTable

__all__ = ["MetricClaim", "metric_claims", "metric_table"]

#: AUC has a table of its own
OTHERS: Final = tuple(name for name in PAPER_METRICS if name != "auc")


@dataclass(frozen=True)
class MetricClaim:
    """One training of LCT less a search, by one metric; more is better, so the Brier score is turned round.

    Attributes
    ----------
    metric
        By its name.
    method, search
        Which are compared.
    one, best, mean
        The metric's mean over seeds of one training, of the best of the search and of the mean of the search.
    low_best, low_mean
        The one-sided bounds of what one training gains over each; NaN with a single seed.
    seeds
        Which both have.
    """

    metric: str
    method: str
    search: str
    one: float
    best: float
    mean: float
    low_best: float
    low_mean: float
    seeds: tuple[int, ...]


def metric_claims(frame: pd.DataFrame, search: str = "vs") -> tuple[MetricClaim, ...]:
    """Compare one LCT training with the plain search and its control by every metric but AUC.

    Parameters
    ----------
    frame
        Rows of one data set, β, preset and number of epochs.
    search
        The baseline.

    Returns
    -------
    tuple of MetricClaim
        Empty where no seed has both sides whole.
    """
    ours = f"{search}+lct"
    one = frame[(frame["method"] == ours) & (frame["setting"] == SETTING)]
    found = []
    for rival in (search, *(name for name in CONTROLS if name.startswith(search))):
        rows = frame[frame["method"] == rival]
        whole = rows.groupby("seed")["setting"].nunique()
        seeds = tuple(sorted({int(str(s)) for s in whole.index[whole == 16]} & set(one["seed"])))
        if not seeds:
            continue
        for name in OTHERS:
            figures = np.array(
                [
                    (
                        _chosen(one[one["seed"] == s], name),
                        _chosen(rows[rows["seed"] == s], name),
                        float(rows.loc[rows["seed"] == s, [f"{name}_from_0", f"{name}_from_1"]].to_numpy().mean()),
                    )
                    for s in seeds
                ]
            )
            sign = 1 if as_metric(name).greater_is_better else -1
            best, mean = (_low(sign * (figures[:, 0] - figures[:, k])) for k in (1, 2))
            means = figures.mean(axis=0).tolist()
            found.append(MetricClaim(name, ours, rival, means[0], means[1], means[2], best, mean, seeds))
    return tuple(found)


def _chosen(rows: pd.DataFrame, metric: str) -> float:
    """Of one seed: the best row on one half by what it gives on the other, both ways, averaged."""
    sign = 1 if as_metric(metric).greater_is_better else -1
    places = [int(np.nanargmax(sign * rows[f"{metric}_on_{half}"].to_numpy())) for half in (0, 1)]
    return float(np.mean([rows[f"{metric}_from_{half}"].to_numpy()[place] for half, place in enumerate(places)]))


def _low(gains: np.ndarray) -> float:
    k = len(gains)
    if k < 2:
        return float("nan")
    return float(gains.mean() - student.ppf(CONFIDENCE, k - 1) * gains.std(ddof=1) / np.sqrt(k))


def metric_table(found: Sequence[MetricClaim], about: str) -> TextTable:
    """Write the claims of metrics down.

    Parameters
    ----------
    found
        What :func:`metric_claims` gave.
    about
        Data set, β, preset and epochs, in words.

    Returns
    -------
    TextTable
    """

    def signed(value: float) -> str:
        return "–" if np.isnan(value) else f"{value:+.4f}"

    rows = [
        (
            claim.metric,
            method(claim.search).title,
            f"{claim.one:.4f}",
            f"{claim.best:.4f}",
            signed(claim.low_best),
            f"{claim.mean:.4f}",
            signed(claim.low_mean),
            str(len(claim.seeds)),
        )
        for claim in found
    ]
    gain = f"gain at least ({CONFIDENCE:.0%})"
    return TextTable(
        f"One training of VS + LCT by the other metrics, {about}",
        ("", "against", "one training", "best of 16", gain, "mean of 16", gain, "seeds"),
        tuple(rows),
        (
            "Setting, λ and threshold are chosen on one half and measured on the other. A gain is above 0 where one "
            "training is better, of the Brier score where its own is lower. Bounds are over seeds alone.",
        ),
    )
