from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial_studies.scoreboard.sets import BOARD, board_set, deal, load_cell

needs_data = pytest.mark.skipif("LOSSDIAL_DATA" not in os.environ, reason="needs the tables in $LOSSDIAL_DATA")


def test_no_group_is_on_two_sides_and_every_row_on_one():
    rng = np.random.default_rng(0)
    y, groups = (rng.random(900) < 0.1).astype(np.int64), rng.integers(300, size=900)
    sides = deal(y, groups, split=0)
    assert sorted(np.concatenate(sides).tolist()) == list(range(900))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not set(groups[sides[i]]) & set(groups[sides[j]])


def test_shares_are_kept_within_each_class_and_splits_differ():
    y = np.repeat([0, 1], [1000, 100])
    train, validation, test = deal(y, np.arange(1100), split=0)
    assert [int(y[side].sum()) for side in (train, validation, test)] == [60, 20, 20]
    assert [len(side) for side in (train, validation, test)] == [660, 220, 220]
    assert set(test) != set(deal(y, np.arange(1100), split=1)[2])
    assert (test == deal(y, np.arange(1100), split=0)[2]).all()


def test_names_are_all_different():
    assert len({entry.name for entry in BOARD}) == len(BOARD) == 24 + 12


@needs_data
def test_copies_of_a_row_stay_on_one_side_and_columns_are_standardised_by_training_rows():
    cell = load_cell(board_set("keel_yeast4"), 0, Path("unused"))
    sides = [set(map(tuple, side.rows.to_numpy().tolist())) for side in (cell.train, cell.validation, cell.test)]
    assert not sides[0] & sides[1]
    assert not sides[0] & sides[2]
    assert not sides[1] & sides[2]
    whole = pd.concat([side.rows for side in (cell.train, cell.validation, cell.test)])
    assert whole.duplicated().any()  # else nothing was put to the test
    assert np.allclose(cell.train.x.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(cell.train.x.std(axis=0), 1, atol=1e-4)
    assert not np.allclose(cell.test.x.mean(axis=0), 0, atol=1e-4)


@needs_data
def test_columns_that_give_the_label_away_are_dropped_and_text_is_encoded():
    cell = load_cell(board_set("machine_failure"), 1, Path("unused"))
    assert not {"TWF", "HDF", "UID", "Product ID", "Machine failure"} & set(cell.train.rows.columns)
    assert cell.train.x.dtype == np.float32
    assert np.isfinite(cell.test.x).all()


@needs_data
def test_large_tables_are_capped_within_each_class():
    cell = load_cell(board_set("cover"), 0, Path("unused"))
    assert len(cell.train.y) <= 50_000
    assert len(cell.validation.y) <= 20_000
    assert cell.train.y.mean() == pytest.approx(2_747 / 286_048, rel=0.02)
