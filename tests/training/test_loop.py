"""fit() against a loop written out by hand, and what it promises around it."""

import json
import random
import signal
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from lossdial.base.streams import Stream, stream
from lossdial.losses import VSLoss
from lossdial.models import MLP, ConditionalClassifier
from lossdial.spaces import Constant, Space
from lossdial.training import (
    CheckpointError,
    Cosine,
    DivergedError,
    OptimizerConfig,
    Recipe,
    Steps,
    fit,
)
from lossdial.training.batches import ArrayBatches
from lossdial.training.step import Step

LOSS = VSLoss(beta=4.0)
SPACE = LOSS.default_space()


def table(n=70, share=0.25):
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(n, generator=g) < share).long()
    return torch.randn(n, 5, generator=g) + y[:, None], y


def make_model(space=SPACE, **arguments):
    torch.manual_seed(0)
    return ConditionalClassifier(MLP(5, (8,), **arguments), 8, space)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def same_weights(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def naive_loop(model, batches, recipe, seed):
    """The training loop in as few words as possible; the λ seen, and the average of the weights."""
    optimizer = torch.optim.SGD(model.parameters(), recipe.optimizer.lr, fused=True)
    seen, average = [], None
    for epoch in range(recipe.epochs):
        shape = [len(batches)] if recipe.lam_per == "batch" else [len(batches), batches.batch_size]
        lams = model.space.sample(shape, stream(seed, Stream.LAMBDA, epoch))
        for i, (x, y, _) in enumerate(batches.epoch(seed, epoch)):
            optimizer.param_groups[0]["lr"] = recipe.optimizer.lr * recipe.schedule(
                epoch + i / len(batches), recipe.epochs
            )
            lam = lams[i] if recipe.lam_per == "batch" else lams[i][: len(y)]
            optimizer.zero_grad()
            LOSS(model(x, lam), y, lam).backward()
            if recipe.clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimizer.step()
            seen.append(lam.values)
            now = weights(model).double()
            decay = recipe.ema_decay or 0.0
            average = now if average is None else decay * average + (1 - decay) * now
    return seen, average


class RecordingLoss(VSLoss):
    """Keeps every λ that it is given."""

    def __init__(self, beta):
        super().__init__(beta)
        self.seen = []

    def per_sample(self, logits, y, lam):
        self.seen.append(lam.values.clone())
        return super().per_sample(logits, y, lam)


@pytest.mark.parametrize("lam_per", ["batch", "sample"])
@pytest.mark.parametrize(
    "schedule", [Steps(), Cosine(warmup=1), Steps(milestones=(1.5,))], ids=lambda s: type(s).__name__
)
def test_is_the_loop_written_out(lam_per, schedule):
    recipe = Recipe(
        3, optimizer=OptimizerConfig("sgd", 0.2, momentum=0.0), schedule=schedule, clip_norm=0.3, lam_per=lam_per
    )
    expected, model, batches = make_model(), make_model(), ArrayBatches(*table(), 16)
    loss = RecordingLoss(4.0)
    seen, _ = naive_loop(expected, batches, recipe, seed=5)
    result = fit(model, loss, batches, recipe, seed=5)
    assert same_weights(model, expected)
    assert len(seen) == len(loss.seen) == result.steps == 15
    assert all(torch.equal(a, b) for a, b in zip(seen, loss.seen, strict=True))
    assert len(torch.cat([v.reshape(-1, 2) for v in seen]).unique(dim=0)) == (15 if lam_per == "batch" else 3 * 70)


def test_history_has_a_row_an_epoch():
    recipe = Recipe(3, optimizer=OptimizerConfig("sgd", 0.2, momentum=0.0), schedule=Cosine())
    model, batches = make_model(), ArrayBatches(*table(), 16)
    calls = []

    def validate(current):
        calls.append(weights(current))
        return {"auc": 0.5 + len(calls)}

    result = fit(model, LOSS, batches, recipe, validate=validate)
    assert [row["epoch"] for row in result.history] == [1, 2, 3]
    assert [row["step"] for row in result.history] == [5, 10, 15]
    assert [row["auc"] for row in result.history] == [1.5, 2.5, 3.5]
    assert [row["lr"] for row in result.history] == pytest.approx([0.2 * Cosine()(e + 4 / 5, 3) for e in range(3)])
    assert 0 < result.history[0]["seconds"] <= result.history[2]["seconds"] <= result.seconds + 1e-3
    assert torch.equal(calls[-1], weights(model))
    assert not model.training


def test_the_loss_reported_is_the_mean_over_the_epochs_batches():
    recipe = Recipe(1, optimizer=OptimizerConfig("sgd", 1e-30), schedule=Steps(), lam_per="batch")  # the weights stay
    model, batches = make_model(), ArrayBatches(*table(), 16)
    result = fit(model, LOSS, batches, recipe, seed=2)
    lams = SPACE.sample([5], stream(2, Stream.LAMBDA, 0))
    each = [LOSS(model(x, lams[i]), y, lams[i]).item() for i, (x, y, _) in enumerate(batches.epoch(2, 0))]
    assert result.history[0]["loss"] == pytest.approx(np.mean(each), rel=1e-6)


def test_average_of_the_weights():
    recipe = Recipe(2, optimizer=OptimizerConfig("sgd", 0.2, momentum=0.0), schedule=Steps(), ema_decay=0.8)
    expected, model, batches = make_model(), make_model(), ArrayBatches(*table(), 16)
    validated = []

    def validate(current):
        validated.append(weights(current))
        return {}

    _, average = naive_loop(expected, batches, recipe, seed=0)
    fit(model, LOSS, batches, recipe, validate=validate)
    torch.testing.assert_close(weights(model), average.float(), rtol=1e-5, atol=1e-6)
    assert torch.equal(validated[-1], weights(model))  # validated as it will be used
    assert not torch.allclose(weights(model), weights(expected), atol=1e-4)


def test_both_passes_of_sam_see_the_same_lambda():
    loss, recipe = RecordingLoss(4.0), Recipe(2, optimizer=OptimizerConfig(sam_rho=0.1), lam_per="batch")
    fit(make_model(), loss, ArrayBatches(*table(), 16), recipe)
    first, second = torch.stack(loss.seen[::2]), torch.stack(loss.seen[1::2])
    assert torch.equal(first, second)
    assert len(first.unique(dim=0)) == 10


def test_the_average_of_the_weights_has_the_average_of_their_statistics():
    recipe = Recipe(1, optimizer=OptimizerConfig("sgd", 1e-30), schedule=Steps(), ema_decay=0.8)  # the weights stay
    model = ConditionalClassifier(nn.BatchNorm1d(5, affine=False), 5, SPACE)
    alone, batches = nn.BatchNorm1d(5, affine=False), ArrayBatches(*table(), 16)
    expected = None
    for x, _, _ in batches.epoch(0, 0):
        alone(x)
        now = alone.running_mean.clone()
        expected = now if expected is None else 0.8 * expected + 0.2 * now
    fit(model, LOSS, batches, recipe)
    torch.testing.assert_close(model.backbone.running_mean, expected)
    assert not torch.allclose(expected, alone.running_mean, atol=1e-3)


@pytest.mark.parametrize("rho", [None, 0.05])
def test_clipping_is_of_the_gradient_that_is_applied(rho):
    """One step of plain SGD at rate 1 moves the weights by the gradient: its norm must be the bound."""
    batches = ArrayBatches(*table(), 70)
    recipe = Recipe(1, optimizer=OptimizerConfig("sgd", 1.0, momentum=0.0, sam_rho=rho), schedule=Steps())
    free, bounded = make_model(), make_model()
    start = weights(free)
    fit(free, LOSS, batches, recipe)
    fit(bounded, LOSS, batches, Recipe(1, optimizer=recipe.optimizer, schedule=Steps(), clip_norm=0.01))
    step, clipped = weights(free) - start, weights(bounded) - start
    assert step.norm() > 0.05
    assert clipped.norm() == pytest.approx(0.01, rel=1e-3)
    # Direction unchanged: clipping before the ascent has no say in where SAM climbs.
    torch.testing.assert_close(clipped / clipped.norm(), step / step.norm(), rtol=0, atol=1e-4)


def test_a_baseline_is_a_space_of_constants():
    space = Space(gamma=Constant(0.0), tau=Constant(0.0))
    model, batches = make_model(space), ArrayBatches(*table(), 70)
    expected = deepcopy(model)
    fit(model, LOSS, batches, Recipe(1, optimizer=OptimizerConfig("sgd", 0.5, momentum=0.0), schedule=Steps()))
    x, y = batches.x, batches.y
    nn.functional.cross_entropy(expected.head.linear(expected.backbone(x))[0], y).backward()
    with torch.no_grad():
        for p in expected.parameters():
            p -= 0.5 * p.grad
    torch.testing.assert_close(weights(model), weights(expected))


def test_an_optimiser_of_ones_own():
    model, other = make_model(), make_model()
    optimizer = torch.optim.SGD(
        [{"params": model.backbone.parameters(), "lr": 0.0}, {"params": model.head.parameters()}], 0.1
    )
    fit(model, LOSS, ArrayBatches(*table(), 16), Recipe(2, schedule=Cosine()), optimizer=optimizer)
    assert same_weights(model.backbone, other.backbone)
    assert not same_weights(model.head, other.head)
    assert optimizer.param_groups[1]["initial_lr"] == 0.1


def test_global_state_is_left_as_found():
    model = make_model(dropout=0.5)
    torch.set_num_threads(2)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002 (the global one)
    fit(model, LOSS, DataLoader(TensorDataset(*table()), 16, shuffle=True), Recipe(2))
    fit(model, LOSS, ArrayBatches(*table(), 16), Recipe(2))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]  # noqa: NPY002 (the global one)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


def test_the_seed_decides_everything():
    def trained(seed, noise):
        model = make_model(dropout=0.3)
        torch.manual_seed(noise)
        fit(model, LOSS, ArrayBatches(*table(), 16), Recipe(2), seed=seed)
        return model

    assert same_weights(trained(0, 1), trained(0, 2))
    assert not same_weights(trained(0, 1), trained(1, 1))


# precision


def test_bfloat16_mixed():
    model, exact = make_model(), make_model()
    recipe = Recipe(3, optimizer=OptimizerConfig(lr=0.01, sam_rho=0.05), clip_norm=0.5, ema_decay=0.5)
    result = fit(
        model,
        LOSS,
        ArrayBatches(*table(), 16),
        recipe,
        fabric=Fabric(accelerator="cpu", devices=1, precision="bf16-mixed"),
    )
    expected = fit(exact, LOSS, ArrayBatches(*table(), 16), recipe)
    # bfloat16 has eight bits: three digits of the loss, and weights in float32 that drift apart a little.
    assert [row["loss"] for row in result.history] == pytest.approx([row["loss"] for row in expected.history], abs=0.01)
    assert weights(model).dtype == torch.float32
    assert (weights(model) - weights(exact)).abs().mean() < 0.003
    assert not torch.equal(weights(model), weights(exact))


# bad input


def test_divergence_names_step_lambda_and_rate(tmp_path):
    recipe = Recipe(2, optimizer=OptimizerConfig("sgd", 1e20, momentum=0.0), schedule=Steps(), lam_per="batch")
    with pytest.raises(DivergedError) as caught:
        fit(make_model(), LOSS, ArrayBatches(*table(), 16), recipe, seed=3, run_dir=tmp_path, checkpoint_seconds=0)
    message = str(caught.value)
    lam = SPACE.sample([5], stream(3, Stream.LAMBDA, 0))[1]
    assert "at step 2 (epoch 1, batch 2)" in message
    assert str(lam) in message
    assert "learning rate 1e+20" in message
    assert "clip_norm" in message
    assert f"kept in {tmp_path}" in message
    left = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert (left["epoch"], left["batch"]) == (0, 1)
    with pytest.raises(DivergedError) as caught:  # nothing was saved yet, so nothing is said to be
        fit(make_model(), LOSS, ArrayBatches(*table(), 16), recipe, seed=3, run_dir=tmp_path / "new")
    assert "kept" not in str(caught.value)
    with pytest.raises(DivergedError, match="batch 2\\) with a λ for each sample and learning rate"):
        fit(make_model(), LOSS, ArrayBatches(*table(), 16), replace(recipe, lam_per="sample"), seed=3)


def test_few_positives_are_warned_of_with_the_numbers():
    x, y = torch.randn(400, 5), torch.zeros(400).long()
    y[:4] = 1
    with pytest.warns(UserWarning, match=r"4 of 400 training samples are positive, so about 85% of the batches of 16"):
        fit(make_model(), LOSS, ArrayBatches(x, y, 16), Recipe(1))


def test_lambda_per_sample_must_know_the_size_of_a_batch():
    data = TensorDataset(*table())
    loader = DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 16, drop_last=False))
    with pytest.raises(ValueError, match="lam_per cannot be 'sample' with a DataLoader that has a"):
        fit(make_model(), LOSS, loader, Recipe(1))
    fit(make_model(), LOSS, loader, Recipe(1, lam_per="batch"))


# what is written


def test_log_and_a_finished_run(tmp_path):
    recipe = Recipe(3)
    model, loss = make_model(), RecordingLoss(4.0)
    first = fit(model, loss, ArrayBatches(*table(), 16), recipe, run_dir=tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert rows == list(first.history)
    assert len(loss.seen) == 15
    again = make_model()
    second = fit(again, loss, ArrayBatches(*table(), 16), recipe, run_dir=tmp_path / "run")
    assert len(loss.seen) == 15  # nothing is trained again
    assert same_weights(model, again)
    assert second.history == first.history
    assert second.seconds == pytest.approx(first.seconds, abs=0.5)
    assert len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) == 3


def test_a_log_without_a_checkpoint_is_begun_anew(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"epoch": 1}\n{"epoch": 2}\n')
    fit(make_model(), LOSS, ArrayBatches(*table(), 16), Recipe(1), run_dir=tmp_path)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    batches = ArrayBatches(*table(), 16)
    fit(make_model(), LOSS, batches, Recipe(1), run_dir=tmp_path)
    with pytest.raises(CheckpointError, match=r"clip_norm: 'None' then, '0.5' now; seed: 0 then, 1 now"):
        fit(make_model(), LOSS, batches, Recipe(1, clip_norm=0.5), seed=1, run_dir=tmp_path)
    other = ConditionalClassifier(MLP(5, (9,)), 9, SPACE)
    with pytest.raises(CheckpointError, match="belongs to another model or optimiser"):
        fit(other, LOSS, batches, Recipe(1), run_dir=tmp_path)


def test_two_processes_train_as_one(tmp_path):
    """Fabric's DDP over gloo, two processes of the CPU, against the same script in one process."""
    script = Path(__file__).with_name("two_processes.py")
    runs = []
    for devices in (1, 2):
        folder = tmp_path / str(devices)
        folder.mkdir()
        command = [sys.executable, str(script), str(devices), str(folder)]
        runs.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    for run in runs:
        output, _ = run.communicate(timeout=300)
        assert run.returncode == 0, output
    one, two = (torch.load(tmp_path / devices / "results.pt", weights_only=True) for devices in ("1", "2"))
    for case in ("odd last batch", "last batch of one", "SAM, EMA, λ per sample", "an ensemble, weighted"):
        assert one[case]["loss"] == pytest.approx(two[case]["loss"], abs=1e-5), case
        for name, weight in one[case]["model"].items():
            torch.testing.assert_close(two[case]["model"][name], weight, rtol=0, atol=1e-5, msg=f"{case}: {name}")
    log = (tmp_path / "2" / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in log] == [1, 2]
    resumed, whole = two["DataLoader, resumed"]["model"], two["DataLoader"]["model"]
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


@pytest.mark.parametrize("at", [1, 7, 10, 30])
def test_an_interrupted_run_keeps_the_step_at_hand(at, tmp_path, monkeypatch):
    """Ctrl-C in mid-step, at the end of an epoch and at the very end: what is kept goes on to the same weights."""
    x, y = table()
    recipe = Recipe(epochs=3, batch_size=7, optimizer=OptimizerConfig(lr=0.1))
    batches = recipe.batches(x, y)  # ten a epoch
    whole = make_model()
    fit(whole, LOSS, batches, recipe)
    original, taken = Step.__call__, []

    def step(self, *arguments):
        taken.append(True)
        if len(taken) == at:
            signal.raise_signal(signal.SIGINT)
        return original(self, *arguments)

    monkeypatch.setattr(Step, "__call__", step)
    model = make_model()
    with pytest.raises(KeyboardInterrupt):
        fit(model, LOSS, batches, recipe, run_dir=tmp_path, checkpoint_seconds=1e9)
    assert len(taken) == at
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    fit(model := make_model(), LOSS, batches, recipe, run_dir=tmp_path)
    assert len(taken) == 30  # no step is taken twice
    assert same_weights(model, whole)


def test_a_second_interrupt_does_not_wait(tmp_path, monkeypatch):
    x, y = table()
    recipe = Recipe(epochs=1, batch_size=7)

    def step(*_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    monkeypatch.setattr(Step, "__call__", step)
    with pytest.raises(KeyboardInterrupt):
        fit(make_model(), LOSS, recipe.batches(x, y), recipe, run_dir=tmp_path)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
