"""Rows that are copies of each other, groups that belong together, and columns and files that give the class away."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError, shown, warn
from lossdial.data.encoder.columns import cells_of, has_numbers
from lossdial.data.encoder.inference import is_identifier
from lossdial.data.splits import CoarseGroups, grouped_split

Rows = pd.DataFrame | NDArray[Any]

_PART: Final = 256  # rows hashed at a time: a view in another order is copied, one part at a time
_WIDE: Final = 256  # columns; beyond, a row is hashed as bytes
_SHARP: Final = 0.5  # difference between the classes' shares of a file format, or of their sizes, that is warned of
_FEW: Final = 5  # files, or rows, of a class that say nothing yet
_PERFECT: Final = 0.999  # AUC of a column alone that is warned of
_ORDERED: Final = 0.75  # that of a column that numbers the rows, in which there should be nothing to learn,
_SURE: Final = 5.0  # where it is so many standard errors above one half
_LOOKED_AT: Final = 25_000  # rows of a class, at most


@dataclass(frozen=True, eq=False)
class RowSplit:
    """The mask (n,) of the rows held out, and the groups (n,) that were kept together."""

    test: NDArray[np.bool_]
    groups: NDArray[np.intp]


def row_numbers(X: Any) -> NDArray[np.float64]:
    """A number (n,) for each row of a table, of an array (n, …) or of a list: a random mixture of its columns.

    It changes by little where a row is rounded or stored in float32, so that a sketch of training rows still knows it.
    """
    if hasattr(X, "tocsr"):  # a sparse matrix
        return np.asarray(np.arcsinh(X.tocsr()) @ _weights(X.shape[1])).ravel()
    if not isinstance(X, pd.DataFrame):
        try:
            X = np.asarray(X)
        except ValueError:  # rows of several lengths
            X = np.array([str(row) for row in X])
        if X.dtype.kind not in "fiub":
            X = pd.DataFrame(X.reshape(len(X), -1))
    if isinstance(X, pd.DataFrame):
        X = X.infer_objects()
        columns = [_as_numbers(X.iloc[:, i]) for i in range(X.shape[1])]
        X = np.stack(columns, axis=1) if columns else np.zeros((len(X), 0))
    rows = X.reshape(len(X), -1)
    weights, numbers = _weights(rows.shape[1]), np.empty(len(rows))
    for start in range(0, len(rows), _PART):
        part = rows[start : start + _PART].astype(np.float64)
        scaled = part if X.dtype == np.uint8 else np.arcsinh(part)  # pixels are of one scale
        numbers[start : start + _PART] = np.nan_to_num(scaled, nan=-1.5, posinf=1e3, neginf=-1e3) @ weights
    return numbers


def _weights(columns: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(0.5, 1.5, columns) * np.resize([1.0, -1.0], columns)


def _as_numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Cells (n,) as numbers where they can be read so; else by a hash of their text, in [0, 8)."""
    if column.dtype.kind in "fiub":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    cells = column.astype(object).where(column.notna(), None).map(str, na_action="ignore")
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64)
    text = pd.util.hash_array(cells.fillna("").to_numpy(dtype=object)) / 2.0**61
    return np.where(np.isnan(numbers) & column.notna().to_numpy(), text, numbers)


def row_digests(x: Rows) -> NDArray[np.uint64]:
    """A number (n,) per row of a table (n, d) or per image (n, c, h, w), the same for rows that are the same.

    It depends neither on the process, nor on the order of a data frame's columns, nor on the type of a number.
    """
    if isinstance(x, pd.DataFrame):
        names = sorted(x.columns, key=str)
        return _mixed([_bits(x[name]) for name in names], len(x))
    x = np.asarray(x)
    if x.ndim == 2 and x.dtype.kind in "fiub" and x.shape[1] <= _WIDE:
        return _mixed([_float_bits(x[:, i]) for i in range(x.shape[1])], len(x))
    if x.dtype == object:
        return row_digests(pd.DataFrame(x.reshape(len(x), -1)))
    digests = [hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=8).digest() for row in x]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def row_groups(x: Rows, largest: float = 0.05) -> NDArray[np.intp]:
    """Groups (n,) of rows that are exactly the same, identifiers aside; numbered in the order of first occurrence.

    A row that makes up more than a share `largest` is what the data are made of, and no copy.
    """
    if isinstance(x, pd.DataFrame):
        x = x.loc[:, [not is_identifier(x.iloc[:, i]) for i in range(x.shape[1])]]
    digests = row_digests(x)
    codes, uniques = pd.factorize(digests)
    alone = np.flatnonzero(_are_common(digests, largest))
    codes[alone] = len(uniques) + np.arange(len(alone))
    return np.asarray(pd.factorize(codes)[0], dtype=np.intp)


def _are_common(digests: NDArray[np.uint64], largest: float = 0.05) -> NDArray[np.bool_]:
    """Which rows (n,) make up more than a share of them all: what the data are made of, and no copies."""
    codes, uniques = pd.factorize(digests)
    return np.asarray((np.bincount(codes, minlength=len(uniques)) > max(5, largest * len(codes)))[codes])


def join_groups(*groups: ArrayLike | None) -> NDArray[np.intp] | None:
    """Groups (n,) in which two rows are together if any of the given groupings has them together; None for none."""
    from scipy.sparse import coo_array  # here, for reading a model needs neither
    from scipy.sparse.csgraph import connected_components

    groupings = [pd.factorize(np.asarray(g))[0] for g in groups if g is not None]
    if not groupings:
        return None
    if any((codes < 0).any() for codes in groupings):
        raise InputError("groups", "must not have gaps", remedy="Give each row without a group one of its own.")
    n = len(groupings[0])
    if any(len(codes) != n for codes in groupings):
        raise InputError("groups", "must be of one length", got=[len(codes) for codes in groupings])
    starts = np.cumsum([n, *(codes.max(initial=-1) + 1 for codes in groupings)])
    rows = np.tile(np.arange(n), len(groupings))
    nodes = np.concatenate([codes + start for codes, start in zip(groupings, starts, strict=False)])
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, nodes)), shape=(int(starts[-1]),) * 2)
    _, component = connected_components(graph, directed=False)
    return np.asarray(pd.factorize(component[:n])[0], dtype=np.intp)


def split_rows(x: Rows, y: NDArray[Any], groups: ArrayLike | None, share: float, seed: int) -> RowSplit:
    """Hold out a share of each class, with copies of a row, and rows of a group, on one side.

    Where rows repeat too much for that, only groups are kept together, and a warning counts the copies.
    """
    if not 0 < share < 1:
        raise InputError("share", "must lie strictly between 0 and 1", got=share)
    names, counts = np.unique(y, return_counts=True)
    shares = {name: max(share, 1 / n) if n > 1 else share for name, n in zip(names.tolist(), counts, strict=True)}
    kept = join_groups(groups, row_groups(x))
    try:
        test = grouped_split(y, kept, shares, seed)
    except CoarseGroups:
        kept = join_groups(groups)
        test = grouped_split(y, kept, shares, seed)
    if isinstance(x, pd.DataFrame):
        count_copies(x[~test], x[test], "held-out rows")
    else:
        digests = row_digests(x)  # not the rows themselves: images need not be copied for this
        _warn_of_copies(digests[~test], digests[test], "held-out rows" if x.ndim == 2 else "held-out images")
    return RowSplit(test, np.arange(len(y)) if kept is None else kept)


def count_copies(train: Rows, other: Rows, what: str = "test images") -> int:
    """Count the rows, or images, that are exact copies of training rows; a warning gives their number."""
    if isinstance(train, pd.DataFrame) and isinstance(other, pd.DataFrame):
        names = [name for name in train.columns if name in other.columns and not is_identifier(train[name])]
        train, other = train[names], other[names]
    return _warn_of_copies(row_digests(train), row_digests(other), what)


def warn_of_file_kinds(labels: Sequence[str], formats: NDArray[np.str_], sizes: NDArray[np.int64]) -> None:
    """Warn if the files of one class are of another format, or of other sizes, than those of the rest."""
    from scipy.stats import ks_2samp  # here, for it takes long to import

    classes, pixels = np.asarray(labels), sizes.prod(axis=1)
    by_format: list[tuple[float, str]] = []
    by_size: list[tuple[float, str]] = []
    for name in sorted(set(labels)):
        own, rest = classes == name, classes != name
        if min(own.sum(), rest.sum()) < _FEW:
            continue
        for kind in np.unique(formats):
            share, share_of_rest = float((formats[own] == kind).mean()), float((formats[rest] == kind).mean())
            text = (
                f"{share:.0%} of the {own.sum():,} files of class {name!r} are {kind}, and {share_of_rest:.0%} of the "
                f"other {rest.sum():,}: a model can tell the classes by the file format. Save all files in one format"
            )
            by_format.append((share - share_of_rest, text))
        text = (
            f"the files of class {name!r} are of another size ({_typical(sizes[own])} px, typically) than the others "
            f"({_typical(sizes[rest])}): a model can tell the classes by their sharpness. Use one size for all"
        )
        by_size.append((float(ks_2samp(pixels[own], pixels[rest]).statistic), text))
    for differences in (by_format, by_size):
        difference, text = max(differences, key=lambda pair: pair[0], default=(0.0, ""))
        if difference >= _SHARP:
            warn(text)


def warn_of_columns(columns: Iterable[tuple[str, NDArray[Any]]], y: NDArray[Any]) -> None:
    """Warn if a column alone separates the classes almost perfectly, or numbers the rows and follows the label.

    Columns (n,) have a name, and numbers, NaN for a gap, or texts, None for a gap; y (n,) is 1 for the positive class.
    """
    of_class = [np.flatnonzero(np.asarray(y) == label) for label in (0, 1)]
    rows = np.sort(np.concatenate([members[:: 1 + len(members) // _LOOKED_AT] for members in of_class]))
    positive = np.asarray(y)[rows] == 1
    count = int(positive.sum())
    if min(count, len(rows) - count) < _FEW:
        return
    error = np.sqrt((len(rows) + 1) / (12 * count * (len(rows) - count)))  # of an AUC that is one half
    perfect: list[str] = []
    ordered: list[str] = []
    for name, cells in columns:
        values = _by_label(cells[rows], positive) if cells.dtype == object else cells[rows]
        auc = _auc(values, positive)
        told = f"{shown(name)} (AUC {auc:.4f})"
        if _numbers_rows(cells, rows):
            if auc >= min(max(_ORDERED, 0.5 + _SURE * error), _PERFECT):
                ordered.append(told)
        elif auc >= _PERFECT:
            perfect.append(told)
    seen = f"over {len(rows):,} rows, {count:,} of them positive"
    if perfect:
        these = "one column" if len(perfect) == 1 else f"each of {len(perfect)} columns"
        told = f"{these} alone separates the classes almost perfectly, {seen}: {_listed(perfect)}"
        warn(f"{told}. Leave out what is known only after the label")
    if ordered:
        warn(f"the label follows the number of the row, {seen}: {_listed(ordered)}. Leave such a column out")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def _auc(values: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """How well values (n,), NaN highest, separate the classes, in whichever direction: 0.5 to 1."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    n = int(positive.sum())
    auc = (ranks[place[positive]].sum() - n * (n + 1) / 2) / (n * (len(values) - n))
    return float(max(auc, 1 - auc))


def _by_label(texts: NDArray[Any], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The share of positives among other rows of the same text: of the odd ones for an even row, and the reverse."""
    codes, _ = pd.factorize(texts)
    codes = codes + 1  # a gap is a text too
    half = np.arange(len(codes)) % 2 == 1
    values = np.empty(len(codes))
    for own, other in ((half, ~half), (~half, half)):
        positives = np.bincount(codes[other], weights=positive[other], minlength=codes.max() + 1)
        totals = np.bincount(codes[other], minlength=codes.max() + 1)
        values[own] = ((positives + positive.mean()) / (totals + 1))[codes[own]]
    return values


def _numbers_rows(cells: NDArray[Any], rows: NDArray[np.intp]) -> bool:
    """Whether a column (n,) counts the rows: whole numbers, no two the same, that ascend or leave few out."""
    values = cells[rows]
    if values.dtype == object or not np.array_equal(values, np.rint(values)):
        return False
    steps = np.diff(values)
    if (steps > 0).all():
        return True
    ascending = np.sort(values)
    return bool((np.diff(ascending) > 0).all() and ascending[-1] - ascending[0] < 2 * len(cells))


def _typical(sizes: NDArray[np.int64]) -> str:
    width, height = np.median(sizes, axis=0)
    return f"{width:.0f} × {height:.0f}"


def _warn_of_copies(train: NDArray[np.uint64], other: NDArray[np.uint64], what: str) -> int:
    images = what.endswith("images")  # of which none comes often by nature
    rare = ~_are_common(np.concatenate([train, other]), 1.0 if images else 0.05)
    train, rare_others = train[rare[: len(train)]], other[rare[len(train) :]]
    copies = int(np.isin(rare_others, train).sum())
    if copies:
        repeated = 1 - len(np.unique(train)) / len(train)
        itself = f" (in training itself {repeated:.0%} of the rows repeat others)" if repeated > 0.01 else ""
        of_training = f"exact copies of training {'images' if images else 'rows'}{itself}"
        warn(f"{copies:,} of {len(other):,} {what} are {of_training}: scores on them will flatter")
    return copies


def _bits(column: pd.Series[Any]) -> NDArray[np.uint64]:
    if has_numbers(column):
        return _float_bits(column.to_numpy(dtype=np.float64, na_value=np.nan))
    codes, cells = cells_of(column)
    digests = [hashlib.blake2b(str(cell).encode(), digest_size=8).digest() for cell in cells]
    bits = np.frombuffer(b"".join(digests) + b"\xff" * 8, dtype="<u8").astype(np.uint64)
    return bits[codes]  # −1, a gap, is the last


def _float_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    numbers = values.astype(np.float64) + 0.0  # −0 is 0
    numbers[np.isnan(numbers)] = np.nan  # of one kind
    return numbers.view(np.uint64)


def _mixed(columns: list[NDArray[np.uint64]], n: int) -> NDArray[np.uint64]:
    """Rows of numbers to one number each, by the mixing function of SplitMix64 (Steele et al. 2014)."""
    state = np.full(n, len(columns), dtype=np.uint64)
    for bits in columns:
        state = state * np.uint64(0x9E3779B97F4A7C15) + bits
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return state
