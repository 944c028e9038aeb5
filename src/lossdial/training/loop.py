"""The one training loop: baseline or conditional, with or without SAM, fresh or resumed."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import torch
from lightning_fabric import Fabric
from lightning_fabric.loggers.logger import Logger
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from lossdial.data.batches import ArrayBatches
from lossdial.data.streams import Stream, stream, stream_seed
from lossdial.losses import ConditionalLoss
from lossdial.models import ConditionalClassifier
from lossdial.spaces import Lam, Space
from lossdial.training.checkpoint import Checkpoint
from lossdial.training.progress import ProgressBar
from lossdial.training.recipe import Recipe
from lossdial.training.source import Source

__all__ = ["DivergedError", "FitResult", "Validate", "fit"]

#: called with the model after each epoch; gives the figures to log, such as {"auc": 0.93}
Validate = Callable[[ConditionalClassifier], Mapping[str, float]]

_SMALL_STEP: Final = 2**24  # multiplications: about a millisecond on one core


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

    optimizer: in place of the recipe's own.
    validate: called with the model after each epoch; what it returns is logged and shown.
    fabric: device, precision and processes; the CPU at float32 unless given.
    run_dir: log (``log.jsonl``) and checkpoints go here. A run that finds its own checkpoint goes on from it and ends
        with the same weights, bit for bit, as one that was never stopped.
    identity: settings that a checkpoint must share to be resumed.
    checkpoint_seconds: how often to save; 0 saves after every step.
    """
    loss.check_space(model.space)
    _warn_of_empty_batches(batches)
    fabric = fabric or Fabric(accelerator="cpu", devices=1)
    if fabric._precision.precision == "16-mixed":
        raise ValueError("float16 scaling cannot be used with step(closure); use precision='bf16-mixed' or '32-true'.")
    optimizer = optimizer or recipe.optimizer.build(model)
    for group in optimizer.param_groups:
        group.setdefault("initial_lr", group["lr"])
    wrapped, optimizer = fabric.setup(model, optimizer)
    average = get_ema_multi_avg_fn(recipe.ema_decay) if recipe.ema_decay else None
    with _threads(model, batches), torch.random.fork_rng([fabric.device] if fabric.device.type == "cuda" else []):
        return _Run(
            model=model,
            wrapped=wrapped,
            loss=loss,
            source=Source(batches, fabric, seed),
            recipe=recipe,
            optimizer=optimizer,
            ema=AveragedModel(model, multi_avg_fn=average) if average else None,
            seed=seed,
            validate=validate,
            fabric=fabric,
            run_dir=run_dir,
            identity=dict(identity or {}),
            checkpoint_seconds=checkpoint_seconds,
            logger=logger,
            bar=ProgressBar("training", recipe.epochs * len(batches), progress and fabric.is_global_zero),
        ).train()


@dataclass
class _Run:
    """The state of one call of fit."""

    model: ConditionalClassifier
    wrapped: nn.Module
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

    def _epoch(self, epoch: int, start: int, random: list[Tensor] | None) -> None:
        # The global generator serves dropout and, where it has none of its own, a DataLoader's shuffling.
        torch.manual_seed(stream_seed(self.seed, Stream.DROPOUT, epoch, self.fabric.global_rank))
        lams = self._draw(epoch)
        count = len(self.source)

        def resume() -> None:
            if random is not None:
                _set_random(random, self.fabric.device)

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
            self.bar.advance(epoch * count + i + 1, {"loss": self.loss_sum / (i + 1), **self._shown()})
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
        size = self.source.size(i)
        # Processes average their gradients; the factor makes that the mean over the whole batch.
        factor = len(y) * self.fabric.world_size / size if size is not None and self.fabric.world_size > 1 else 1.0

        def closure() -> float:
            self.optimizer.zero_grad()
            losses = self.loss.per_sample(self.wrapped(x, lam), y, lam)
            mean = losses.mean() * factor if factor != 1.0 else losses.mean()
            value = mean.item()
            if not math.isfinite(value):
                raise DivergedError(self._diverged(value, lam, epoch, i))
            self.fabric.backward(mean)
            if self.recipe.clip_norm is not None:
                self.fabric.clip_gradients(
                    self.wrapped, self.optimizer, max_norm=self.recipe.clip_norm, error_if_nonfinite=False
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
        row: dict[str, float] = {"epoch": epoch + 1, "step": (epoch + 1) * count, "loss": self.loss_sum / count}
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
            _get_random(self.fabric.device),
            self.loss_sum,
            self._seconds(),
            self.history,
            self.identity,
        ).save(self.run_dir)

    def _resume(self) -> tuple[int, int, list[Tensor] | None]:
        """Where to go on: epoch, batch, and the random state there."""
        found = Checkpoint.load(self.run_dir, self.identity, self.fabric.device) if self.run_dir is not None else None
        if self.run_dir is not None and self.fabric.is_global_zero and (self.run_dir / "log.jsonl").exists():
            rows = found.history if found is not None else []  # rows after the checkpoint will come again
            (self.run_dir / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        if found is None:
            return 0, 0, None
        self.model.load_state_dict(found.model)
        self.optimizer.load_state_dict(found.optimizer)
        if self.ema is not None and found.ema is not None:
            self.ema.load_state_dict(found.ema)
        self.history, self.loss_sum, self.before = found.history, found.loss_sum, found.seconds
        return found.epoch, found.batch, found.random if found.batch else None


@contextmanager
def _threads(model: ConditionalClassifier, batches: ArrayBatches | DataLoader[Any]) -> Iterator[None]:
    """One thread for a network whose step is less work than it takes several threads to meet.

    On a busy machine waiting threads spin, and a step of a small MLP becomes ten times slower, not faster.
    """
    work = sum(p.numel() for p in model.backbone.parameters())  # per row of a table; images do more
    small = isinstance(batches, ArrayBatches) and batches.x.dim() == 2 and batches.batch_size * work < _SMALL_STEP
    before = torch.get_num_threads()
    torch.set_num_threads(1 if small else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _get_random(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def _set_random(states: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)


def _warn_of_empty_batches(batches: ArrayBatches | DataLoader[Any]) -> None:
    if isinstance(batches, ArrayBatches) and (share := batches.share_without_positives()) > 0.5:
        warnings.warn(
            f"{int(batches.y.sum())} of {len(batches.y)} training samples are positive, so about {share:.0%} of the "
            f"batches of {batches.batch_size} see none. Use a larger batch_size.",
            UserWarning,
            stacklevel=3,
        )
