"""One trial: what goes into the store when all is well, and when it is not."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lossdial.losses import VSLoss
from lossdial.spaces import Lam
from lossdial.training import fit
from lossdial_studies import Experiment, Method, Store, Trial, running, trials
from lossdial_studies.running import Outcome, Workplace, run_trial
from lossdial_studies.store import finished


def place(small: Any, store: Path) -> Workplace:
    return Workplace(store, small.features, Path("nowhere"))


def test_rows_scores_and_nothing_left_over(small: Any, tmp_path: Path) -> None:
    (trial,) = trials(small.experiments(("vs+lct",), seeds=1, epochs=12))
    assert run_trial(trial, place(small, tmp_path)) == Outcome("finished")
    store = Store.open(tmp_path)
    frame = store.frame()
    assert len(frame) == 4 * 20
    assert frame["auc"].mean() > 0.7  # it has learned
    y, scores = store.scores(trial.experiments[0].key)
    assert (len(y), scores.shape) == (100, (100, 20))
    assert len(np.unique(scores[0])) > 1  # λ matters
    assert not list((tmp_path / "unfinished").glob("*"))
    assert run_trial(trial, place(small, tmp_path)) == Outcome("finished")  # and has nothing to do


def test_a_stack_gives_the_rows_of_single_runs(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (trial,) = trials(small.experiments(("vs+sam+lct",), seeds=1))
    run_trial(trial, place(small, tmp_path / "stack"))
    monkeypatch.setattr(Experiment, "stacks", property(lambda _: False))
    for single in trials(trial.experiments):
        run_trial(single, place(small, tmp_path / "single"))
    stack, single_ = (
        Store.open(tmp_path / name).frame().sort_values(["key", "gamma", "tau"]) for name in ("stack", "single")
    )
    for name in ("auc", "brier", "log_loss", "max_f1_from_0"):
        assert stack[name].to_numpy() == pytest.approx(single_[name].to_numpy(), abs=1e-4)


def test_what_is_not_told_λ_has_one_row(small: Any, tmp_path: Path) -> None:
    for trial in trials(small.experiments(("vs", "vs+lct:no-film", "focal+lct:no-film"), seeds=1)):
        run_trial(trial, place(small, tmp_path))
    assert len(Store.open(tmp_path).frame()) == 12


class Explodes(VSLoss):
    """Not a number in one of four heads, or in all where there is one."""

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        losses = super().per_sample(logits, y, lam)
        return torch.cat([losses[: len(losses) // 4] * torch.nan, losses[len(losses) // 4 :]])


def test_divergence_is_recorded(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Method, "build_loss", lambda _, beta: Explodes(beta))
    for trial in trials(small.experiments(("vs+lct",), seeds=1)):
        run_trial(trial, place(small, tmp_path))
    first, *others = trial.experiments
    ends = Store.open(tmp_path).outcomes()
    assert [ends[e.key].status for e in (first, *others)] == ["diverged", "done", "done", "done"]
    assert finished(trial, ends)
    (single,) = trials(small.experiments(("vs+lct:per-sample",), seeds=1, settings=1))
    run_trial(single, place(small, tmp_path / "single"))
    (row,) = Store.open(tmp_path / "single").rows()
    assert row["status"] == "diverged"
    assert "all settings have diverged; the first: the loss became nan at step 1" in row["message"]
    assert "Checkpoints" not in row["message"]  # they are gone


def test_weights_that_are_no_numbers_after_the_last_step(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ruined(stack: Any, *arguments: Any, **options: Any) -> Any:
        result = fit(stack, *arguments, **options)
        with torch.no_grad():
            stack.head.linear.weight[2].fill_(torch.inf)
        return result

    monkeypatch.setattr(running, "fit", ruined)
    (trial,) = trials(small.experiments(("vs",), seeds=1))
    run_trial(trial, place(small, tmp_path))
    ends = Store.open(tmp_path).outcomes()
    assert [ends[e.key].status for e in trial.experiments] == ["done", "done", "diverged", "done"]


def test_data_that_cannot_be_read_are_no_reason_to_stop(small: Any, tmp_path: Path) -> None:
    (trial,) = trials(small.experiments(("vs",), seeds=1))
    missing = Workplace(tmp_path, tmp_path / "nowhere", tmp_path)
    assert run_trial(trial, missing) == Outcome("finished")
    rows = list(Store.open(tmp_path).rows())
    assert {row["status"] for row in rows} == {"failed"}
    assert "the data cannot be read" in rows[0]["message"]


def test_a_failure_leaves_results_alone(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (trial,) = trials(small.experiments(("vs",), seeds=1))
    run_trial(trial, place(small, tmp_path))
    (tmp_path / "rows" / f"{trial.experiments[0].key}.jsonl").unlink()

    def fails(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(running, "fit", fails)
    run_trial(trial, place(small, tmp_path))
    ends = Store.open(tmp_path).outcomes()
    assert [ends[e.key].status for e in trial.experiments] == ["out-of-memory", "done", "done", "done"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError("no room"), "out-of-memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out-of-memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), "out-of-memory"),
        (KeyError("a bug"), "failed"),
    ],
)
def test_other_failures_are_recorded(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: str
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(running, "fit", fails)
    (trial,) = trials(small.experiments(("vs",), seeds=1))
    assert run_trial(trial, place(small, tmp_path)) == Outcome("finished")
    rows = list(Store.open(tmp_path).rows())
    assert [row["status"] for row in rows] == [status] * 4
    assert f"{type(error).__name__}" in rows[0]["message"]
    assert "test_running.py" in rows[0]["message"]
    monkeypatch.undo()
    run_trial(trial, place(small, tmp_path))  # another attempt
    assert {end.status for end in Store.open(tmp_path).outcomes().values()} == {"done"}


def test_real_want_of_memory(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_model", lambda *_: torch.empty(2**55))
    (trial,) = trials(small.experiments(("vs",), seeds=1))
    run_trial(trial, place(small, tmp_path))
    assert {end.status for end in Store.open(tmp_path).outcomes().values()} == {"out-of-memory"}


@pytest.mark.parametrize("checkpoint_seconds", [0.0, 1e9])  # in a checkpoint, in the results
def test_a_full_disk_stops_the_sweep(
    small: Any, tmp_path: Path, checkpoint_seconds: float, full_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    first, second = trials(small.experiments(("vs",), seeds=2))
    run_trial(first, place(small, tmp_path))
    with full_disk(1000):
        outcome = run_trial(second, replace(place(small, tmp_path), checkpoint_seconds=checkpoint_seconds))
    assert outcome.kind == "stop"
    assert "cannot be written" in outcome.message
    assert len(Store.open(tmp_path).outcomes()) == 4


def test_a_network_from_scratch_resumes_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeless: Any, write_cifar: Callable[[Path], None]
) -> None:
    write_cifar(tmp_path / "data")
    running._images.cache_clear()
    run = Experiment("cifar10-auto-truck", 10.0, "cpu", "vs+sam+lct", 3, 0, 8)
    trial = Trial((run,))
    work = Workplace(tmp_path / "whole", tmp_path, tmp_path / "data", checkpoint_seconds=0)
    assert run_trial(trial, work) == Outcome("finished")
    store = Store.open(tmp_path / "whole")
    assert store.outcomes() == {run.key: ("done", trial.key)}
    assert len(store.frame()) == 20

    class Killed(BaseException):
        pass

    calls: list[int] = []

    def dies(*arguments: Any, **options: Any) -> Any:
        loss = arguments[1]
        inner = loss.per_sample

        def counted(*a: Any) -> Tensor:
            calls.append(1)
            if len(calls) == 8:  # two evaluations a step
                raise Killed
            return inner(*a)

        loss.per_sample = counted
        return fit(*arguments, **options)

    monkeypatch.setattr(running, "fit", dies)
    broken = replace(work, store=tmp_path / "broken")
    with pytest.raises(Killed):
        run_trial(trial, broken)
    assert list((tmp_path / "broken" / "unfinished").rglob("checkpoint.pt"))
    assert run_trial(trial, broken) == Outcome("finished")
    assert len(calls) < 8 + 2 * 2 * 8  # two evaluations of two batches in eight epochs: not from the start
    assert timeless(Store.open(tmp_path / "broken")) == timeless(store)
    running._images.cache_clear()
