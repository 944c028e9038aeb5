"""The one training loop: baseline or conditional, one member or many, with or without SAM, fresh or resumed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream, stream_seed
from lossdial.losses import ConditionalLoss
from lossdial.models import Network
from lossdial.models.network import Draws
from lossdial.spaces import Lam
from lossdial.training import environment
from lossdial.training.batches import ArrayBatches, Source, warn_of_empty_batches
from lossdial.training.checkpoint import Checkpoint, CheckpointError
from lossdial.training.recipe import Recipe
from lossdial.training.step import DivergedError, Forward, Ridge, Step

if TYPE_CHECKING:
    from lightning_fabric import Fabric

#: called with the model after each epoch; gives the figures to log, such as {"auc": 0.93}
Validate = Callable[[Any], Mapping[str, float]]


@dataclass(frozen=True)
class FitResult:
    """The result of a training run, besides the weights in the model."""

    history: tuple[dict[str, float], ...]  # one row an epoch: epoch, step, loss, lr, seconds, and those of validate
    seconds: float
    steps: int
    #: for each setting of a stack, why it has no usable weights; None where it has
    diverged: tuple[str | None, ...] = (None,)


def fit(
    model: Network,
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
    progress: bool = True,
) -> FitResult:
    """Train a model in place over the λ of its space: a classifier, an ensemble, or a stack of settings.

    λ is drawn outside the optimiser's closure, so that SAM's two passes see the same one; the network and the loss
    read it. Members each draw their own and learn from their own loss; a backbone that they share, from the mean.
    A setting of a stack whose loss is no longer finite is dropped, without effect on the others. The global
    generators are left as they were.

    Parameters
    ----------
    model
        As :func:`~lossdial.models.build_model` makes it, or a ``SettingsStack``.
    loss
        The loss; its λ has the names of the model's space.
    batches
        Arrays in memory (``recipe.batches(x, y)``), or a DataLoader of (x, y) or (x, y, weight), whose generators are
        seeded anew for each epoch. Where the backbone is frozen, features of arrays are computed once.
    recipe
        Epochs, optimiser, schedule and so on.
    optimizer
        Used instead of the recipe's.
    seed
        Of the order of batches, of λ, of augmentation and of dropout.
    validate
        Called with the model after each epoch; the figures it returns are logged and shown.
    fabric
        Device, precision and processes, as from :func:`make_fabric`; the CPU at float32 unless given.
    run_dir
        The folder of the log (``log.jsonl``) and of checkpoints. A run that finds its own checkpoint resumes from it
        and ends with the same weights, bit for bit, as one that was never stopped; on a GPU that needs
        ``torch.use_deterministic_algorithms(True)``, and a DataLoader whose workers draw random numbers must not keep
        them from epoch to epoch. Ctrl-C takes effect after the current step, which is kept.
        ``Checkpoint.exists(run_dir)`` says whether there is a checkpoint.
    identity
        Settings that a checkpoint must share to be resumed; those of recipe, loss, space and seed unless given.
    checkpoint_seconds
        How often to save; 0 saves after every step.
    progress
        Show a bar on a terminal.

    Returns
    -------
    FitResult
        The history and the time.

    Raises
    ------
    DivergedError
        Where the loss is no longer finite.
    CheckpointError
        Where the checkpoint in ``run_dir`` is damaged or belongs to another run.

    Examples
    --------
    >>> from lossdial.losses import VSLoss
    >>> from lossdial.models import build_model
    >>> x, y = torch.randn(64, 3), torch.arange(64) % 4 // 3
    >>> loss, recipe = VSLoss(beta=3.0), Recipe(epochs=2)
    >>> model = build_model(None, None, loss.default_space(), x, seed=0)
    >>> fit(model, loss, recipe.batches(x, y), recipe, progress=False).steps
    2
    """
    for space in model.spaces:
        loss.check_space(space)
    ridge = Ridge.of(model, loss, batches)
    warn_of_empty_batches(batches)
    fabric = fabric or environment.make_fabric("cpu")
    environment.require_no_scaler(fabric)
    optimizer = optimizer or recipe.optimizer.build(model)
    for group in optimizer.param_groups:
        group.setdefault("initial_lr", group["lr"])
    embedded = isinstance(batches, ArrayBatches) and batches.augment is None and model.frozen
    with environment.threads_for(model, batches), environment.forked_random(fabric.device):
        if embedded and isinstance(batches, ArrayBatches):
            batches = batches.of(model.to(fabric.device).embed(batches.x, progress=progress))
        logits = model.head.forward if embedded else model.member_logits
        through_fabric = fabric.setup(Forward(model, logits), optimizer)
        plain = environment.only_passes_on(fabric)
        step = Step(
            model=model,
            logits=logits if plain else through_fabric[0],
            backward=Tensor.backward if plain else fabric.backward,
            loss=loss,
            optimizer=optimizer if plain else through_fabric[1],
            clip_norm=recipe.clip_norm,
            world=fabric.world_size,
            ridge=ridge,
        )
        average = get_ema_multi_avg_fn(recipe.ema_decay) if recipe.ema_decay else None
        return _Run(
            model=model,
            step=step,
            source=Source(batches, fabric, seed),
            recipe=recipe,
            # With its buffers: statistics of batch normalisation are those of the weights they go with.
            ema=AveragedModel(model, multi_avg_fn=average, use_buffers=True) if average else None,
            seed=seed,
            validate=validate,
            fabric=fabric,
            run_dir=run_dir,
            identity=_identity(model, loss, recipe, seed) if identity is None else dict(identity),
            checkpoint_seconds=checkpoint_seconds,
            bar=ProgressBar("training", recipe.epochs * len(batches), progress and fabric.is_global_zero),
        ).train()


@dataclass
class _Run:
    """The state of one call of fit."""

    model: Network
    step: Step
    source: Source
    recipe: Recipe
    ema: AveragedModel | None
    seed: int
    validate: Validate | None
    fabric: Fabric
    run_dir: Path | None
    identity: dict[str, Any]
    checkpoint_seconds: float
    bar: ProgressBar
    history: list[dict[str, float]] = field(default_factory=list)
    loss_sum: float = 0.0  # over the current epoch
    before: float = 0.0  # seconds of earlier, interrupted calls
    stop: environment.Interrupt = field(default_factory=environment.Interrupt)

    def train(self) -> FitResult:
        epoch, batch, random = self._resume()
        self.started = self.saved = time.monotonic()
        self.model.train()
        with self.bar, environment.interrupt_later(self.run_dir is not None and self.fabric.world_size == 1) as stop:
            self.stop = stop
            for current in range(epoch, self.recipe.epochs):
                self._epoch(current, batch if current == epoch else 0, random if current == epoch else None)
                self._end_epoch(current)
        if self.ema is not None:
            self.model.load_state_dict(self.ema.module.state_dict())
        self.model.eval()
        steps = self.recipe.epochs * len(self.source)
        diverged = tuple(self.step.diverged.get(i) for i in range(len(self.model.spaces)))
        return FitResult(tuple(self.history), self._seconds(), steps, diverged)

    def _seconds(self) -> float:
        return self.before + time.monotonic() - self.started

    def _epoch(self, epoch: int, start: int, random: dict[str, Any] | None) -> None:
        # The global generators serve dropout and, where it has none of its own, a DataLoader.
        environment.seed_random(stream_seed(self.seed, Stream.DROPOUT, epoch, self.fabric.global_rank))
        draws, count, shown = self._draw(epoch), len(self.source), self._shown()

        def resume() -> None:
            if random is not None:
                environment.set_random(random, self.fabric.device)

        for i, batch in enumerate(self.source.epoch(epoch, start, resume), start):
            rate = self.recipe.schedule(epoch + i / count, self.recipe.epochs)
            for group in self.step.optimizer.param_groups:
                group["lr"] = group["initial_lr"] * rate
            lam, code = self._of_batch(draws, i, len(batch.y))
            place = f"step {epoch * count + i + 1} (epoch {epoch + 1}, batch {i + 1})"
            try:
                self.loss_sum += self.step(batch, lam, code, self.source.size(i), place)
            except DivergedError as error:
                kept = self.run_dir is not None and Checkpoint.exists(self.run_dir)
                text = f" Checkpoints so far are kept in {self.run_dir}." if kept else ""
                raise DivergedError(f"{error}{text}") from None
            if self.ema is not None:
                self.ema.update_parameters(self.model)
            self.bar.advance(epoch * count + i + 1, {"loss": self.loss_sum / (i + 1)} | shown)
            # Each process has a random state of its own, so several of them save between epochs only.
            if i + 1 < count and self.fabric.world_size == 1 and self._due():
                self._save(epoch, i + 1)
                self.stop.now()

    def _draw(self, epoch: int) -> Draws:
        shape = [len(self.source)]
        if self.recipe.lam_per == "sample":
            shape.append(self.source.batch_size)
        lams, codes = self.model.draw(shape, stream(self.seed, Stream.LAMBDA, epoch))
        return Draws(lams.to(self.fabric.device), codes.to(next(self.model.head.parameters())))

    def _of_batch(self, draws: Draws, i: int, n: int) -> tuple[Lam, Tensor]:
        """λ and code of every member for a batch, or for this process's samples of it."""
        lam, code = draws.lams[i], draws.codes[i]
        if self.recipe.lam_per == "batch":
            return lam, code
        mine = slice(self.fabric.global_rank, n * self.fabric.world_size, self.fabric.world_size)
        return Lam(lam.names, lam.values[:, mine]), code[:, mine]

    def _shown(self) -> dict[str, float]:
        hidden = {"epoch", "step", "loss", "lr", "seconds"}
        return {k: v for k, v in self.history[-1].items() if k not in hidden} if self.history else {}

    def _end_epoch(self, epoch: int) -> None:
        count = len(self.source)
        row: dict[str, float] = {"epoch": epoch + 1, "step": (epoch + 1) * count, "loss": self._loss_sum() / count}
        row["lr"] = self.step.optimizer.param_groups[0]["lr"]
        if self.validate is not None:
            row |= self.validate(self.ema.module if self.ema is not None else self.model)
        row["seconds"] = round(self._seconds(), 3)
        self.history.append(row)
        self.loss_sum = 0.0
        if self.run_dir is not None and self.fabric.is_global_zero:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            with (self.run_dir / "log.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
        if self._due() or epoch + 1 == self.recipe.epochs:
            self._save(epoch + 1, 0)
            self.stop.now()

    def _loss_sum(self) -> float:
        if self.fabric.world_size == 1:
            return self.loss_sum
        total = torch.tensor(self.loss_sum, device=self.fabric.device)
        return cast(Tensor, self.fabric.all_reduce(total, reduce_op="mean")).item()

    def _due(self) -> bool:
        late = time.monotonic() - self.saved >= self.checkpoint_seconds
        return self.run_dir is not None and (late or self.stop.pressed)

    def _save(self, epoch: int, batch: int) -> None:
        if self.run_dir is None or not self.fabric.is_global_zero:
            return
        self.saved = time.monotonic()
        Checkpoint(
            epoch,
            batch,
            self.model.state_dict(),
            self.step.optimizer.state_dict(),
            self.ema.state_dict() if self.ema is not None else None,
            environment.get_random(self.fabric.device),
            self.loss_sum,
            self._seconds(),
            self.history,
            self.identity,
            self.step.diverged,
        ).save(self.run_dir)

    def _resume(self) -> tuple[int, int, dict[str, Any] | None]:
        """Where to resume: epoch, batch, and the random state there."""
        if self.run_dir is None:
            return 0, 0, None
        checkpoint, log = Checkpoint.load(self.run_dir, self.identity, self.fabric.device), self.run_dir / "log.jsonl"
        if self.fabric.is_global_zero and log.exists():
            rows = checkpoint.history if checkpoint is not None else []  # rows after the checkpoint will come again
            log.write_text("".join(json.dumps(row) + "\n" for row in rows))
        if checkpoint is None:
            return 0, 0, None
        try:
            self.model.load_state_dict(checkpoint.model)
            self.step.optimizer.load_state_dict(checkpoint.optimizer)
            if self.ema is not None and checkpoint.ema is not None:
                self.ema.load_state_dict(checkpoint.ema)
        except (RuntimeError, ValueError, KeyError) as error:
            raise CheckpointError(
                f"the checkpoint in {self.run_dir} belongs to another model or optimiser: {error} "
                "Train into another folder, or delete the checkpoint to start anew."
            ) from error
        self.history, self.loss_sum, self.before = checkpoint.history, checkpoint.loss_sum, checkpoint.seconds
        self.step.diverged.update(checkpoint.diverged)
        return checkpoint.epoch, checkpoint.batch, checkpoint.random if checkpoint.batch else None


def _identity(model: Network, loss: ConditionalLoss, recipe: Recipe, seed: int) -> dict[str, Any]:
    settings = {setting.name: repr(getattr(recipe, setting.name)) for setting in fields(recipe)}
    spaces = "; ".join(repr(space) for space in model.spaces)
    return settings | {"loss": repr(loss), "space": spaces, "head": repr(model.head.config), "seed": seed}
