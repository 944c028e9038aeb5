"""Cells small enough for every rival, with something to learn and a group that must stay whole."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lossdial_studies.scoreboard.sets import BoardSet, Cell, CellSide


def make_cell(entry: BoardSet, columns: int = 6) -> Cell:
    rng = np.random.default_rng(0)

    def part(n: int, first: int) -> CellSide:
        y = (np.arange(n) % 8 == 0).astype(np.int64)
        x = rng.normal(size=(n, columns)).astype(np.float32)
        x[:, :4] += 1.2 * y[:, None]
        rows = pd.DataFrame(x, columns=[f"x{i}" for i in range(columns)]) if entry.kind == "table" else x
        return CellSide(rows, x, y, np.arange(first, first + n))

    return Cell(entry, 0, part(320, 0), part(160, 320), part(160, 480))


@pytest.fixture(scope="session")
def tiny_table() -> Cell:
    return make_cell(BoardSet("wilt"))


@pytest.fixture(scope="session")
def tiny_images() -> Cell:
    return make_cell(BoardSet("aptos", 100), 12)
