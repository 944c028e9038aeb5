"""One way to split samples: by class, with groups kept whole; and fewer positives in training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.base.errors import InputError, warn

Share = float | Fraction


class CoarseGroups(InputError):
    """Groups that are too large for both sides of a split to have samples of every stratum."""


def subsample_minority(
    y: NDArray[np.integer[Any]], beta: float, seed: int, n_minority: int | None = None
) -> NDArray[np.intp]:
    """Indices of all negatives and of n₋/β (or `n_minority`) positives; what a larger β keeps, smaller β keep too.

    >>> subsample_minority(np.array([0, 0, 0, 0, 1, 1, 1, 1]), beta=2, seed=0)
    array([0, 1, 2, 3, 4, 6])
    """
    majority, minority = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    if not beta > 0:
        raise InputError("beta", "must be greater than 0, negatives per positive", got=beta)
    if beta > len(majority):
        raise InputError(
            "beta",
            f"leaves no minority sample beside {len(majority):,} of the majority",
            got=beta,
            remedy=f"The largest possible is {len(majority)} (one sample).",
        )
    count = math.floor(len(majority) / beta + 0.5) if n_minority is None else n_minority
    if count > len(minority):
        raise InputError(
            "beta",
            f"needs {count:,} minority samples, and the data have {len(minority):,}",
            got=beta,
            remedy=f"The smallest possible is {len(majority) / max(len(minority), 1):.4g}.",
        )
    order = np.random.default_rng(seed).permutation(len(minority))
    return np.sort(np.concatenate([majority, minority[order[:count]]]))


def grouped_split(
    strata: NDArray[Any], groups: NDArray[Any] | None, share: Share | Mapping[Any, Share], seed: int
) -> NDArray[np.bool_]:
    """Hold out ⌊share·n⌋ samples of each stratum, with every group wholly on one side.

    Where groups are too coarse for that, a warning gives the shares reached, or CoarseGroups is raised.

    >>> test = grouped_split(np.array([0, 0, 0, 0, 1, 1]), np.array([7, 7, 8, 8, 9, 5]), 0.5, seed=0)
    >>> int(test.sum())
    3
    """
    names, stratum = np.unique(strata, return_inverse=True)
    wishes = [share[name] if isinstance(share, Mapping) else share for name in names.tolist()]
    shares = [Fraction(one).limit_denominator(1_000_000) for one in wishes]  # 0.29 of 100 is 29, not 28
    for one in shares:
        if not 0 < one < 1:
            raise InputError("share", "must lie strictly between 0 and 1", got=float(one))
    totals = np.bincount(stratum)
    quota = np.array([math.floor(one * int(n)) for one, n in zip(shares, totals, strict=True)])
    _, group = np.unique(np.arange(len(strata)) if groups is None else groups, return_inverse=True)
    sizes = np.zeros((int(group.max()) + 1, len(names)), dtype=np.int64)  # (groups, strata)
    np.add.at(sizes, (group, stratum), 1)

    order = np.random.default_rng(seed).permutation(len(sizes))
    taken = _first_that_fit(sizes, quota, order)
    count = sizes[taken].sum(axis=0)
    while (count != quota).any():  # coarse groups: take what lessens the distance to the quotas most
        distance = np.abs(count + sizes - quota).sum(axis=1)
        distance[taken] = np.iinfo(np.int64).max
        nearest = int(distance.argmin())
        if distance[nearest] >= np.abs(count - quota).sum():
            break
        taken[nearest] = True
        count += sizes[nearest]
    _check_shares(names.tolist(), shares, totals, quota, count)
    return np.asarray(taken[group])


def _first_that_fit(sizes: NDArray[np.int64], quota: NDArray[Any], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Mask of the groups, sizes (groups, strata), visited in order, that are taken while they fit every quota."""
    taken = np.zeros(len(sizes), dtype=bool)
    if (sizes.sum(axis=1) == 1).all():  # the first of each stratum, without a loop
        stratum = sizes.argmax(axis=1)[order]
        for s, count in enumerate(quota):
            taken[order[stratum == s][:count]] = True
        return taken
    left = quota.tolist()
    for g, row in zip(order.tolist(), sizes[order].tolist(), strict=True):
        if all(size <= room for size, room in zip(row, left, strict=True)):
            taken[g] = True
            left = [room - size for size, room in zip(row, left, strict=True)]
    return taken


def _check_shares(
    names: list[Any], shares: list[Fraction], totals: NDArray[Any], quota: NDArray[Any], count: NDArray[Any]
) -> None:
    for name, share, total, expected, reached in zip(names, shares, totals, quota, count, strict=True):
        if expected > 0 and reached in (0, total):
            raise CoarseGroups(
                "groups",
                f"are too coarse to split {name!r}: its {total:,} samples would all be on one side",
                remedy="Give more, or smaller, groups.",
            )
        if abs(reached - expected) > max(1, 0.01 * total):
            reached_share = f"{reached / total:.1%} of {name!r} went to test"
            warn(f"{reached_share} where {float(share):.1%} was asked for: groups are coarse")
