"""One trial: what goes into the store when all is well, and when it is not."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from lossdial.losses import VSLoss
from lossdial.spaces import Lam
from lossdial.training import fit
from lossdial_studies import running
from lossdial_studies.experiment import Experiment, Trial, trials
from lossdial_studies.methods import Method
from lossdial_studies.running import Outcome, Workplace, run_trial
from lossdial_studies.store import Store, finished


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


# what is solved, not trained


def solved(small: Any, store: Path, *methods: str) -> Store:
    for trial in trials(small.experiments(methods, seeds=1)):
        assert run_trial(trial, place(small, store)) == Outcome("finished")
    return Store.open(store)


def reference(small: Any, method: str, C: float, weights: str | None = None) -> np.ndarray:
    """Margins of the evaluation data by LogisticRegression on the features as the runs see them."""
    (first, *_) = small.experiments((method,), seeds=1)
    data = running._load(first, place(small, small.features))
    model = running._model(first, data.x)
    x, x_test = (model.embed(part, progress=False).double().numpy() for part in (data.x, data.x_test))
    found = LogisticRegression(C=C, class_weight=weights, tol=1e-9, max_iter=10_000).fit(x, data.y)
    return np.asarray(found.decision_function(x_test))


def test_the_path_is_one_run_at_many_ridges_each_a_logistic_regression(small: Any, tmp_path: Path) -> None:
    store = solved(small, tmp_path, "vs:exact")
    frame = store.frame()
    assert frame["ridge"].tolist() == [-5 + k / 2 for k in range(11)]
    assert frame["key"].nunique() == 1
    _, scores = store.scores(frame["key"][0])
    for ridge in (-3.0, -2.0, 0.0):  # nodes of the path
        at = frame["ridge"].tolist().index(ridge)
        assert scores[:, at] == pytest.approx(reference(small, "vs:exact", 10**ridge), abs=2e-3)


@pytest.mark.parametrize(("setting", "C", "weights"), [(1, 1e-3, None), (6, 1e-2, "balanced")])
def test_the_ridge_is_scikit_learn_s(small: Any, tmp_path: Path, setting: int, C: float, weights: str | None) -> None:
    store = solved(small, tmp_path, "ridge")
    frame = store.frame()
    assert sorted(frame["setting"]) == list(range(8))
    (key,) = frame.loc[frame["setting"] == setting, "key"]
    _, scores = store.scores(key)
    assert scores[:, 0] == pytest.approx(reference(small, "ridge", C, weights), abs=2e-3)


def test_rows_say_what_of_the_processor_they_took(small: Any, tmp_path: Path) -> None:
    frame = solved(small, tmp_path, "ridge", "vs", "vs:exact").frame()
    assert (frame["processor"] > 0).all()
    assert (frame["processor"] < 60).all()
