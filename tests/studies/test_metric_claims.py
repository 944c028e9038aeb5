"""The claim by other metrics, against a choice by hand."""

import numpy as np
import pytest

from lossdial_studies.metric_claims import OTHERS, metric_claims, metric_table
from lossdial_studies.sheets import written


def frame_of(make_results, seeds=(0, 1, 2)):
    return make_results(methods=("vs", "vs:block", "vs+lct"), seeds=seeds, settings=tuple(range(16)), preset="fast")


def test_the_figures_are_those_of_naive_choices(make_results) -> None:
    frame = frame_of(make_results)
    found = metric_claims(frame)
    assert len(found) == 2 * len(OTHERS)
    for claim in found:
        sign = -1 if claim.metric == "brier" else 1
        gains = []
        for seed in claim.seeds:
            sides = []
            for name in ("vs+lct", claim.search):
                rows = frame[(frame["method"] == name) & (frame["seed"] == seed)]
                rows = rows[rows["setting"] == 1] if name == "vs+lct" else rows
                picked = [
                    max(rows.to_dict("records"), key=lambda row: sign * row[f"{claim.metric}_on_{half}"])
                    for half in (0, 1)
                ]
                sides.append(np.mean([row[f"{claim.metric}_from_{half}"] for half, row in enumerate(picked)]))
            gains.append((*sides, sign * (sides[0] - sides[1])))
        one, best, gain = np.mean(gains, axis=0)
        assert (claim.one, claim.best) == pytest.approx((one, best))
        assert claim.low_best < gain
        assert claim.seeds == (0, 1, 2)


def test_a_seed_that_lacks_a_setting_is_left_out(make_results) -> None:
    frame = frame_of(make_results)
    cut = frame[~((frame["method"] == "vs") & (frame["seed"] == 1) & (frame["setting"] == 7))]
    seeds = {claim.search: claim.seeds for claim in metric_claims(cut)}
    assert seeds == {"vs": (0, 2), "vs:block": (0, 1, 2)}
    assert metric_claims(frame[frame["method"] != "vs+lct"]) == ()


def test_a_single_seed_has_no_bound(make_results) -> None:
    table = metric_table(metric_claims(frame_of(make_results, seeds=(0,))), "a pair")
    assert "–" in written(table, "markdown")
    assert all(len(row) == len(table.headings) for row in table.rows)
