import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from lossdial.training.exact import problem as module
from lossdial.training.exact.problem import Rows

CPU = torch.device("cpu")


def rows_of(features, dtype=torch.float64) -> Rows:
    n = len(features)
    sign = torch.where(torch.arange(n) % 3 == 0, 1.0, -1.0).double()
    return Rows(features, sign, torch.full((n,), 1 / n, dtype=torch.float64), CPU, dtype)


def test_blocks_cover_every_row_once_whatever_the_number_of_nodes(monkeypatch) -> None:
    monkeypatch.setattr(module, "_FEWEST", 4)
    monkeypatch.setattr(module, "_BLOCK", 20)
    x = torch.randn(23, 3, dtype=torch.float64)
    for nodes in (1, 2, 5, 100):
        blocks = list(rows_of(x).blocks(nodes))
        assert torch.equal(torch.cat([block.x for block in blocks]), x)
        assert max(len(block.x) for block in blocks) == max(4, 20 // nodes)
        assert all(len(block.sign) == len(block.weight) == len(block.x) for block in blocks)


def test_scores_in_blocks_are_the_scores(monkeypatch) -> None:
    monkeypatch.setattr(module, "_FEWEST", 4)
    monkeypatch.setattr(module, "_BLOCK", 20)
    x, theta = torch.randn(23, 3, dtype=torch.float64), torch.randn(7, 4, dtype=torch.float64)
    torch.testing.assert_close(rows_of(x).scores(theta), theta[:, :-1] @ x.T + theta[:, -1:])


def test_a_file_larger_than_memory_is_read_in_blocks_and_without_a_warning(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_RESIDENT", 0)
    monkeypatch.setattr(module, "_FEWEST", 8)
    monkeypatch.setattr(module, "_BLOCK", 8)
    x = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float16)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    n = len(mapped)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = Rows(mapped, torch.ones(n).double(), torch.ones(n).double(), CPU, torch.float32, resident=0)
        blocks = list(rows.blocks())
    assert rows._features is mapped
    assert len(blocks) == 7
    np.testing.assert_array_equal(torch.cat([block.x for block in blocks]).numpy(), x.astype(np.float32))


def test_another_precision_starts_from_the_weights_as_they_came() -> None:
    rows = rows_of(torch.randn(7, 2), torch.float32)
    assert rows.at(torch.float32) is rows
    (block,) = rows.at(torch.float64).blocks()
    assert block.x.dtype == block.weight.dtype == torch.float64
    assert block.weight[0].item() == 1 / 7  # not the float32 next to it


def test_shares_and_noise() -> None:
    positive, negative = rows_of(torch.randn(9, 2)).shares()
    assert (positive, negative) == pytest.approx((1 / 3, 2 / 3))
    small, large = rows_of(torch.ones(9, 2), torch.float32), rows_of(1000 * torch.ones(9, 2), torch.float32)
    assert large.noise() == pytest.approx(1000 * small.noise())
