"""The one training loop: baseline or conditional, with or without SAM, fresh or resumed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from lightning_fabric.loggers.logger import Logger
from lightning_fabric.plugins import Precision
from lightning_fabric.strategies.single_device import SingleDeviceStrategy
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream, stream_seed
from lossdial.losses import ConditionalLoss
from lossdial.models import ConditionalClassifier
from lossdial.spaces import Lam, Space
from lossdial.training.batches import ArrayBatches
from lossdial.training.checkpoint import Checkpoint, CheckpointError
from lossdial.training.environment import forked_random, get_random, seed_random, set_random, threads_for
from lossdial.training.recipe import Recipe
from lossdial.training.source import Source, warn_of_empty_batches

__all__ = ["DivergedError", "FitResult", "Validate", "fit"]

#: called with the model after each epoch; gives the figures to log, such as {"auc": 0.93}
Validate = Callable[[ConditionalClassifier], Mapping[str, float]]


class DivergedError(RuntimeError):
    """The loss is no longer a number; the message names step, λ and learning rate."""


@dataclass(frozen=True)
class FitResult:
    """What a training run leaves behind, besides the weights in the model."""

    history: tuple[dict[str, float], ...]  # one row an epoch: epoch, step, loss, lr, seconds, and what validate gave
    seconds: float
    steps: int


def fit(
    model: ConditionalClassifier,
    loss: ConditionalLoss,
    batches: ArrayBatches | DataLoader[Any],
    recipe: Recipe,
    *,
    optimizer: Optimizer | None = None,
    seed: int = 0,
    validate: Validate | None = None,
    fabric: Fabric | None = None,
    run_dir: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    checkpoint_seconds: float = 30.0,
    logger: Logger | None = None,
    progress: bool = True,
) -> FitResult:
    """Train ``model`` in place over the λ of its space.

    λ is drawn outside the optimiser's closure, so that SAM's two passes see the same one. It goes to the network and to
    the loss.

    batches: arrays in memory, or a DataLoader of (x, y), whose generators are seeded anew for each epoch.
    optimizer: in place of the recipe's own.
    validate: called with the model after each epoch; what it returns is logged and shown.
    fabric: device, precision and processes; the CPU at float32 unless given.
    run_dir: log (``log.jsonl``) and checkpoints go here. A run that finds its own checkpoint goes on from it and ends
        with the same weights, bit for bit, as one that was never stopped; on a GPU that takes
        ``torch.use_deterministic_algorithms(True)``, and a DataLoader whose workers draw random numbers must not keep
        them from epoch to epoch.
    identity: settings that a checkpoint must share to be resumed; those of recipe, loss, space and seed unless given.
    checkpoint_seconds: how often to save; 0 saves after every step.

    The global generators are left as they were found.
    """
    loss.check_space(model.space)
    warn_of_empty_batches(batches)
    fabric = fabric or Fabric(accelerator="cpu", devices=1)
    if fabric.strategy.precision.precision == "16-mixed":
        raise ValueError("float16 scaling cannot be used with step(closure); use precision='bf16-mixed' or '32-true'.")
    optimizer = optimizer or recipe.optimizer.build(model)
    for group in optimizer.param_groups:
        group.setdefault("initial_lr", group["lr"])
    wrapped: Callable[[Tensor, Lam], Tensor] = model
    backward: Callable[[Tensor], None] = Tensor.backward
    through_fabric = fabric.setup(model, optimizer)
    # On one device at full precision Fabric's wrappers only pass on, which is 5 % of a small network's step.
    if type(fabric.strategy) is not SingleDeviceStrategy or type(fabric.strategy.precision) is not Precision:
        (wrapped, optimizer), backward = through_fabric, fabric.backward
    average = get_ema_multi_avg_fn(recipe.ema_decay) if recipe.ema_decay else None
    with threads_for(model, batches), forked_random(fabric.device):
        return _Run(
            model=model,
            wrapped=wrapped,
            backward=backward,
            loss=loss,
            source=Source(batches, fabric, seed),
            recipe=recipe,
            optimizer=optimizer,
            ema=AveragedModel(model, multi_avg_fn=average) if average else None,
            seed=seed,
            validate=validate,
            fabric=fabric,
            run_dir=run_dir,
            identity=_identity(model, loss, recipe, seed) if identity is None else dict(identity),
            checkpoint_seconds=checkpoint_seconds,
            logger=logger,
            bar=ProgressBar("training", recipe.epochs * len(batches), progress and fabric.is_global_zero),
        ).train()


@dataclass
class _Run:
    """The state of one call of fit."""

    model: ConditionalClassifier
    wrapped: Callable[[Tensor, Lam], Tensor]
    backward: Callable[[Tensor], None]
    loss: ConditionalLoss
    source: Source
    recipe: Recipe
    optimizer: Optimizer
    ema: AveragedModel | None
    seed: int
    validate: Validate | None
    fabric: Fabric
    run_dir: Path | None
    identity: dict[str, Any]
    checkpoint_seconds: float
    logger: Logger | None
    bar: ProgressBar
    history: list[dict[str, float]] = field(default_factory=list)
    loss_sum: float = 0.0  # over the current epoch
    before: float = 0.0  # seconds of earlier, interrupted calls

    def train(self) -> FitResult:
        epoch, batch, random = self._resume()
        self.started = self.saved = time.monotonic()
        self.model.train()
        with self.bar:
            for current in range(epoch, self.recipe.epochs):
                self._epoch(current, batch if current == epoch else 0, random if current == epoch else None)
                self._end_epoch(current)
        if self.ema is not None:
            self.model.load_state_dict(self.ema.module.state_dict())
        self.model.eval()
        return FitResult(tuple(self.history), self._seconds(), self.recipe.epochs * len(self.source))

    def _seconds(self) -> float:
        return self.before + time.monotonic() - self.started

    def _epoch(self, epoch: int, start: int, random: dict[str, Any] | None) -> None:
        # The global generators serve dropout and, where it has none of its own, a DataLoader.
        seed_random(stream_seed(self.seed, Stream.DROPOUT, epoch, self.fabric.global_rank))
        lams, count, shown = self._draw(epoch), len(self.source), self._shown()

        def resume() -> None:
            if random is not None:
                set_random(random, self.fabric.device)

        for i, (x, y) in enumerate(self.source.epoch(epoch, start, resume), start):
            rate = self.recipe.schedule(epoch + i / count, self.recipe.epochs)
            for group in self.optimizer.param_groups:
                group["lr"] = group["initial_lr"] * rate
            lam = lams.at(i)
            if self.recipe.lam_per == "sample":
                lam = lam.at(slice(self.fabric.global_rank, len(y) * self.fabric.world_size, self.fabric.world_size))
            self.loss_sum += self._step(x, y, lam, epoch, i)
            if self.ema is not None:
                self.ema.update_parameters(self.model)
            self.bar.advance(epoch * count + i + 1, {"loss": self.loss_sum / (i + 1)} | shown)
            # Each process has a random state of its own, so several of them save between epochs only.
            if i + 1 < count and self.fabric.world_size == 1 and self._due():
                self._save(epoch, i + 1)

    def _draw(self, epoch: int) -> Lam:
        space: Space = self.model.space
        shape = [len(self.source)]
        if self.recipe.lam_per == "sample":
            shape.append(self.source.batch_size)
        return space.sample(shape, stream(self.seed, Stream.LAMBDA, epoch)).to(self.fabric.device)

    def _step(self, x: Tensor, y: Tensor, lam: Lam, epoch: int, i: int) -> float:
        size, world = self.source.size(i), self.fabric.world_size

        def closure() -> float:
            self.optimizer.zero_grad()
            losses = self.loss.per_sample(self.wrapped(x, lam), y, lam)
            # Processes average their gradients. Their parts of a batch may differ in size, one may even be empty:
            # weighted so, the average is the mean over the whole batch.
            mean = losses.mean() if world == 1 or size is None else losses.sum() * (world / size)
            self.backward(mean)
            value = mean.item()  # only now, so that an accelerator is waited for once
            if not math.isfinite(value):
                raise DivergedError(self._diverged(value, lam, epoch, i))
            if self.recipe.clip_norm is not None:
                self.fabric.clip_gradients(
                    self.model, self.optimizer, max_norm=self.recipe.clip_norm, error_if_nonfinite=False
                )
            return value

        return float(self.optimizer.step(closure))

    def _diverged(self, value: float, lam: Lam, epoch: int, i: int) -> str:
        step = epoch * len(self.source) + i + 1
        shown = lam if lam.shape == () else lam.at(0)
        kept = f" Checkpoints so far are kept in {self.run_dir}." if self.run_dir is not None else ""
        return (
            f"the loss became {value} at step {step} (epoch {epoch + 1}, batch {i + 1}) with λ = {shown} and learning "
            f"rate {self.optimizer.param_groups[0]['lr']:.3g}. Lower the learning rate, set clip_norm (the paper uses "
            f"0.5), or look for extreme values in the data.{kept}"
        )

    def _shown(self) -> dict[str, float]:
        hidden = {"epoch", "step", "loss", "lr", "seconds"}
        return {k: v for k, v in self.history[-1].items() if k not in hidden} if self.history else {}

    def _end_epoch(self, epoch: int) -> None:
        count = len(self.source)
        row: dict[str, float] = {"epoch": epoch + 1, "step": (epoch + 1) * count, "loss": self._loss_sum() / count}
        row["lr"] = self.optimizer.param_groups[0]["lr"]
        if self.validate is not None:
            row |= self.validate(cast(ConditionalClassifier, self.ema.module) if self.ema is not None else self.model)
        row["seconds"] = round(self._seconds(), 3)
        self.history.append(row)
        self.loss_sum = 0.0
        if self.logger is not None:
            self.logger.log_metrics({k: v for k, v in row.items() if k not in {"epoch", "step"}}, int(row["step"]))
        if self.run_dir is not None and self.fabric.is_global_zero:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            with (self.run_dir / "log.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
        if self._due() or epoch + 1 == self.recipe.epochs:
            self._save(epoch + 1, 0)

    def _loss_sum(self) -> float:
        if self.fabric.world_size == 1:
            return self.loss_sum
        total = torch.tensor(self.loss_sum, device=self.fabric.device)
        return cast(Tensor, self.fabric.all_reduce(total, reduce_op="mean")).item()

    def _due(self) -> bool:
        return self.run_dir is not None and time.monotonic() - self.saved >= self.checkpoint_seconds

    def _save(self, epoch: int, batch: int) -> None:
        if self.run_dir is None or not self.fabric.is_global_zero:
            return
        self.saved = time.monotonic()
        Checkpoint(
            epoch,
            batch,
            self.model.state_dict(),
            self.optimizer.state_dict(),
            self.ema.state_dict() if self.ema is not None else None,
            get_random(self.fabric.device),
            self.loss_sum,
            self._seconds(),
            self.history,
            self.identity,
        ).save(self.run_dir)

    def _resume(self) -> tuple[int, int, dict[str, Any] | None]:
        """Where to go on: epoch, batch, and the random state there."""
        found = Checkpoint.load(self.run_dir, self.identity, self.fabric.device) if self.run_dir is not None else None
        if self.run_dir is not None and self.fabric.is_global_zero and (self.run_dir / "log.jsonl").exists():
            rows = found.history if found is not None else []  # rows after the checkpoint will come again
            (self.run_dir / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        if found is None:
            return 0, 0, None
        try:
            self.model.load_state_dict(found.model)
            self.optimizer.load_state_dict(found.optimizer)
            if self.ema is not None and found.ema is not None:
                self.ema.load_state_dict(found.ema)
        except (RuntimeError, ValueError, KeyError) as error:
            raise CheckpointError(
                f"the checkpoint in {self.run_dir} belongs to another model or optimiser: {error} "
                "Train into another folder, or delete the checkpoint to start anew."
            ) from error
        self.history, self.loss_sum, self.before = found.history, found.loss_sum, found.seconds
        return found.epoch, found.batch, found.random if found.batch else None


def _identity(model: ConditionalClassifier, loss: ConditionalLoss, recipe: Recipe, seed: int) -> dict[str, Any]:
    settings = {setting.name: repr(getattr(recipe, setting.name)) for setting in fields(recipe)}
    return settings | {"loss": repr(loss), "space": repr(model.space), "seed": seed}
