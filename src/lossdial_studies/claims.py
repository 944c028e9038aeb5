"""The tables of one training against a search: `one-against-search`, and `claim` with its control and other metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd
from scipy.stats import t as student

from lossdial.dial import Surface
from lossdial.dial.metrics.registry import PAPER_METRICS, as_metric
from lossdial_studies.comparisons import (
    BAR,
    CONFIDENCE,
    HALVINGS,
    POWER,
    RESAMPLES,
    Difference,
    Kind,
    Side,
    Sides,
    compare,
)
from lossdial_studies.experiment import REFERENCE
from lossdial_studies.methods import ABLATIONS, CONTROLS, METHODS, method
from lossdial_studies.rendering import TextTable
from lossdial_studies.store import Store

#: the baseline that is searched
SEARCH: Final = "vs"
#: the AUC at which plain cross entropy counts as having learned
LEARNED: Final = 0.85
#: AUC has tables of its own
OTHER_METRICS: Final = tuple(name for name in PAPER_METRICS if name != "auc")
_CELL: Final = ("data", "beta", "preset", "epochs")
_WAYS: Final = tuple(name for name in (*ABLATIONS, *METHODS) if name.partition(":")[0] == f"{SEARCH}+lct")
_LAM: Final = "γ ~ L(0, 0.3, 0), τ ~ L(0, 3, 0.33)"
_BOUNDS: Final = "(Obuchowski and Rockette; Hillis)"
_AT_LEAST: Final = f"at least ({CONFIDENCE:.0%})"


def comparable(frame: pd.DataFrame, store: Store) -> bool:
    """Whether a store holds a search, one training of LCT, and the scores of both."""
    if frame.empty or len(frame[list(_CELL)].drop_duplicates()) > 1:
        return False
    one = frame["method"].isin(_WAYS) & (frame["setting"] == REFERENCE)
    searched = frame["method"] == SEARCH
    return bool(one.any() and searched.any()) and _scored(frame[one | searched], store)


def claimable(frame: pd.DataFrame, store: Store) -> bool:
    """Whether a store holds a control, beside which the claim is to be read, and all scores that it takes."""
    if frame.empty or not frame["method"].isin(CONTROLS).any():
        return False
    both = frame.groupby(list(_CELL))["method"].agg(lambda names: {SEARCH, f"{SEARCH}+lct"} <= set(names))
    return bool(both.all()) and _scored(frame[frame["method"].isin([SEARCH, *CONTROLS, *_WAYS])], store)


def _scored(rows: pd.DataFrame, store: Store) -> bool:
    return all(map(store.has_scores, rows["key"].unique()))


def against_search(
    frame: pd.DataFrame,
    store: Store,
    resamples: int = RESAMPLES,
    halvings: int = HALVINGS,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[list[Difference], float, pd.DataFrame, list[int]]:
    """Each way of training LCT once against the best of a search; the search's AUC, its rows, and the seeds left out.

    frame: rows of one data set, β, preset and number of epochs; their scores must be in the store.
    """
    for column in _CELL:
        if frame[column].nunique() > 1:
            shown = ", ".join(map(str, frame[column].unique()))
            raise ValueError(f"this table is of one {column}; there are {shown}. Keep one with --{column}.")
    settings = frame[frame["method"] == SEARCH].groupby("seed")["setting"].nunique()
    complete = int(settings.max()) if len(settings) else 0
    left_out = [int(seed) for seed in settings.index[settings < complete]]
    sides = _sides(frame, store, (SEARCH, *_WAYS), ("best", "one"), complete, "scratch --preset cpu")
    best = Side(SEARCH, "best", complete)
    ones = [side for side in sides.columns if side.kind == "one"]
    differences, means = compare(sides, [(one, best) for one in ones], resamples, halvings, advance=advance)
    searched = frame[(frame["method"] == SEARCH) & frame["seed"].isin(list(sides.columns[best]))]
    return differences, means[best], searched, left_out


def against_tables(
    frame: pd.DataFrame,
    store: Store,
    resamples: int = RESAMPLES,
    halvings: int = HALVINGS,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[TextTable, TextTable]:
    """The differences of :func:`against_search`, each with its verdict; and every setting of the search by itself."""
    differences, search_auc, searched, left_out = against_search(frame, store, resamples, halvings, advance)
    about = _about(*(frame[column].iloc[0] for column in _CELL))
    runs = frame.drop_duplicates("key")
    n, seeds = searched["setting"].nunique(), searched["seed"].nunique()
    spent = searched.drop_duplicates("key").groupby("seed")["seconds"].sum().mean()
    rows = [(f"{method(SEARCH).title}, best of {n}", f"{search_auc:.4f}", *[""] * 4, str(n), f"{spent:,.0f} ({seeds})")]
    for one in differences:
        mine = runs[(runs["method"] == one.ours.method) & (runs["setting"] == REFERENCE)]
        rows.append(
            (
                f"{method(one.ours.method).title}, one",
                f"{one.auc:.4f}",
                f"{one.rival_auc:.4f}",
                f"{one.difference:+.4f}",
                _signed(one.low),
                f"{'reached' if one.low >= -BAR else 'missed'} ({100 * one.kept:.0f} %)",
                "1",
                f"{mine['seconds'].mean():,.0f} ({len(one.seeds)})",
            )
        )
    best = TextTable(
        f"One training against the best of {n}: AUC, {about}",
        (
            *("", "AUC", "search, same seeds", "difference", _AT_LEAST, f"not worse by more than {BAR:g}"),
            *("trainings", "seconds (seeds)"),
        ),
        tuple(rows),
        (
            f"LCT is trained over {_LAM} (setting {REFERENCE}). The search's setting and LCT's λ are chosen on "
            "one half of the evaluation data and measured on the other, halves swapped, for each seed; figures "
            f"and bounds are means over {HALVINGS} random halvings, with the share whose own bound is within the bar.",
            "Runs of the same seed have the same training images, and are compared seed by seed. Bounds are one-sided, "
            f"over seeds and test rows, as for readers and cases {_BOUNDS}.",
            "Seconds are by the clock of a machine that had other work, of one training and of the whole search.",
            *[f"Left out: seed {', '.join(map(str, left_out))}, of which the search is not complete."] * bool(left_out),
        ),
    )
    return best, _settings_table(searched, store, about)


def _settings_table(searched: pd.DataFrame, store: Store, about: str) -> TextTable:
    """AUC on all of the evaluation data of each setting of a search, the best first."""
    grouped = searched.groupby(["setting", "gamma", "tau"])["auc"].agg(["mean", "std", "count"])
    lines = [
        (f"γ = {gamma:g}, τ = {tau:g}", mean, std, count)
        for (_, gamma, tau), mean, std, count in grouped.sort_values(
            "mean", ascending=False, kind="stable"
        ).itertuples()
    ]

    def learned(auc: float) -> str:
        verdict = "reached" if auc >= LEARNED else f"missed by {LEARNED - auc:.4f}"
        return f"{auc:.4f}; the bar of {LEARNED:g} is {verdict}."

    plain = [f"Cross entropy, {lam}: {learned(auc)}" for lam, auc, *_ in lines if lam == "γ = 0, τ = 0"]
    means = "; ".join(f"{size}: {auc:.4f}" for size, auc in averaged(searched, store))
    top, last = lines[0][1], lines[-1][1]
    return TextTable(
        f"{method(SEARCH).title} at each setting: AUC, {about}",
        ("λ", "AUC", "±", "seeds"),
        tuple((lam, f"{auc:.4f}", "" if count < 2 else f"{std:.4f}", str(count)) for lam, auc, std, count in lines),
        (
            *plain,
            *[f"The best fixed setting, {lines[0][0]}: {learned(top)}"] * bool(plain),
            f"The scores of so many of a seed's trainings averaged, at random: {means}.",
            f"From the best to the worst setting: {top - last:.4f}. All of the evaluation data; ±: over seeds.",
        ),
    )


def averaged(searched: pd.DataFrame, store: Store, subsets: int = 100) -> tuple[tuple[int, float], ...]:
    """AUC on all of the evaluation data of the mean score of 1, 2, 4, … trainings of a seed, and of all of them.

    Means over seeds, and over random subsets of the trainings.
    """
    random = np.random.default_rng(0)
    by_size: dict[int, list[float]] = {}
    for _, group in searched.drop_duplicates("key").groupby("seed"):
        pairs = [store.scores(key) for key in group["key"]]
        scores = np.hstack([each for _, each in pairs]).astype(np.float64)
        n = scores.shape[1]
        for size in [*[2**k for k in range(n.bit_length()) if 2**k < n], n]:
            picks = [random.permutation(n)[:size] for _ in range(1 if size == n else subsets)]
            means = np.stack([scores[:, pick].mean(axis=1) for pick in picks], axis=1)
            surface = Surface(pairs[0][0], means, [{"subset": float(k)} for k in range(len(picks))])
            by_size.setdefault(size, []).append(float(surface.metric("auc").mean()))
    return tuple((size, float(np.mean(aucs))) for size, aucs in sorted(by_size.items()))


def claims(
    frame: pd.DataFrame,
    store: Store,
    resamples: int = RESAMPLES,
    halvings: int = HALVINGS,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Difference]:
    """Every LCT training of a frame against the searches that it has, and the search with the block against the plain.

    frame: rows of one data set, β, preset and number of epochs; their scores must be in the store.
    """
    names = (SEARCH, *CONTROLS, f"{SEARCH}+lct", *(name for name in _WAYS if ":" in name))
    kinds: tuple[Kind, ...] = ("one", "any", "best", "mean", "averaged")
    sides = _sides(frame, store, names, kinds, 16, "claim --preset fast")
    return compare(sides, list(_meetings(list(sides.columns))), resamples, halvings, advance=advance)[0]


def _sides(
    frame: pd.DataFrame, store: Store, names: Sequence[str], kinds: Sequence[Kind], complete: int, study: str
) -> Sides:
    """The sides that a frame has; a search and a training of LCT that share a seed must be among them."""
    whole = frame[frame["method"] == SEARCH].groupby("seed")["setting"].nunique()
    seeds = set(whole.index[whole == complete])
    ones = frame[frame["method"].isin(_WAYS) & (frame["setting"] == REFERENCE)]
    if not seeds & set(ones["seed"]):
        raise ValueError(
            f"no seed has both a complete search of {SEARCH} and a training of {SEARCH}+lct at setting {REFERENCE}; "
            f"`lossdial reproduce --study {study}` makes them."
        )
    return Sides.read(frame, store, names, kinds, complete)


def _meetings(sides: Sequence[Side]) -> Iterator[tuple[Side, Side]]:
    """LCT against everything of a search; the search with the block against the plain one."""
    rivals = [side for side in sides if not method(side.method).lct]
    for ours in sides:
        if method(ours.method).lct:
            yield from ((ours, rival) for rival in rivals)
        elif ours.method != SEARCH:
            yield from ((ours, rival) for rival in rivals if rival.method == SEARCH and rival.kind == ours.kind)


def claim_tables(
    frame: pd.DataFrame, store: Store, resamples: int = RESAMPLES, advance: Callable[[int], None] = lambda _: None
) -> tuple[TextTable, ...]:
    """A table for each rival search, and one of the other metrics."""
    about = _about(*(frame[column].iloc[0] for column in _CELL))
    differences = claims(frame, store, resamples, advance=advance)
    rivals = list(dict.fromkeys(one.rival.method for one in differences))
    tables = [
        TextTable(
            f"AUC against {method(rival).title}, {about}",
            ("", "AUC", "against", "AUC", "difference", _AT_LEAST, "verdict", f"found at {POWER:.0%}", "ahead"),
            tuple(_claim_line(one) for one in differences if one.rival.method == rival),
            _CLAIM_NOTES if rival == rivals[-1] else (),
        )
        for rival in rivals
    ]
    return (*tables, metric_table(frame, about))


_CLAIM_NOTES: Final = (
    f"One training is LCT over {_LAM}, its λ chosen on one half of the evaluation data and "
    "measured on the other, halves swapped; so is the best of a search. The mean of a search is what one of its "
    "trainings gives on average; the mean of its scores is an ensemble, at the cost of all.",
    f"Figures and bounds are means over {HALVINGS} random halvings. Bounds are one-sided, over seeds and test rows as "
    f"crossed samples {_BOUNDS}, and seeds are compared in pairs.",
    f"Better: the bound is above 0. As good: it is above −{BAR:g}. Found at {POWER:.0%}: the true difference that so "
    "many seeds would have shown to be better with that probability. Ahead: on how many of the seeds.",
)


def _claim_line(one: Difference) -> tuple[str, ...]:
    figures = (f"{one.auc:.4f}", one.rival.title, f"{one.rival_auc:.4f}", _signed(one.difference), _signed(one.low))
    return (one.ours.title, *figures, one.verdict, _signed(one.detectable), f"{one.ahead} of {len(one.seeds)}")


def metric_claims(frame: pd.DataFrame) -> pd.DataFrame:
    """One LCT training against the plain search and its control by every metric but AUC, from rows alone.

    A row per search and metric: ``one``, ``best`` of the search and its ``mean``, over the ``seeds`` that both have;
    ``low_best`` and ``low_mean``, the one-sided bounds of what one training gains (the Brier score turned round), over
    seeds in pairs. Unlike those of AUC they take the test rows as given.
    """
    ours = frame[(frame["method"] == f"{SEARCH}+lct") & (frame["setting"] == REFERENCE)]
    records = []
    for rival in (SEARCH, *CONTROLS):
        rows = frame[frame["method"] == rival]
        whole = rows.groupby("seed")["setting"].nunique()
        seeds = sorted(set(whole.index[whole == 16]) & set(ours["seed"]))
        for name in OTHER_METRICS if seeds else ():
            sign = 1 if as_metric(name).greater_is_better else -1
            one, best = (
                np.array([_chosen(side[side["seed"] == s], name, sign) for s in seeds]) for side in (ours, rows)
            )
            reported = [f"{name}_from_0", f"{name}_from_1"]
            mean = np.array([rows.loc[rows["seed"] == s, reported].to_numpy().mean() for s in seeds])
            records.append(
                {
                    "metric": name,
                    "search": rival,
                    **{"one": one.mean(), "best": best.mean(), "mean": mean.mean()},
                    **{"low_best": _low(sign * (one - best)), "low_mean": _low(sign * (one - mean))},
                    "seeds": len(seeds),
                }
            )
    return pd.DataFrame(records)


def _chosen(rows: pd.DataFrame, metric: str, sign: int) -> float:
    """Of one seed: the best row on one half by what it gives on the other, both ways, averaged."""
    places = [int(np.nanargmax(sign * rows[f"{metric}_on_{half}"].to_numpy())) for half in (0, 1)]
    return float(np.mean([rows[f"{metric}_from_{half}"].to_numpy()[place] for half, place in enumerate(places)]))


def _low(gains: np.ndarray) -> float:
    k = len(gains)
    if k < 2:
        return float("nan")
    return float(gains.mean() - student.ppf(CONFIDENCE, k - 1) * gains.std(ddof=1) / np.sqrt(k))


def metric_table(frame: pd.DataFrame, about: str) -> TextTable:
    """:func:`metric_claims` in words."""
    gain = f"gain at least ({CONFIDENCE:.0%})"
    rows = [
        (
            *(one["metric"], method(one["search"]).title, f"{one['one']:.4f}", f"{one['best']:.4f}"),
            *(_signed(one["low_best"]), f"{one['mean']:.4f}", _signed(one["low_mean"]), str(one["seeds"])),
        )
        for one in metric_claims(frame).to_dict("records")
    ]
    return TextTable(
        f"One training of VS + LCT by the other metrics, {about}",
        ("", "against", "one training", "best of 16", gain, "mean of 16", gain, "seeds"),
        tuple(rows),
        (
            "Setting, λ and threshold are chosen on one half and measured on the other. A gain is above 0 where one "
            "training is better, of the Brier score where its own is lower. Bounds are over seeds alone.",
        ),
    )


def _about(data: str, beta: float, preset: str, epochs: int) -> str:
    return f"{data}, β = {beta:g}, preset {preset}, {epochs} epochs"


def _signed(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:+.4f}"
