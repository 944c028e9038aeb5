"""Many heads at once: the paper's heads on the same features, each with its own λ, weights and optimiser state.

On features that are not trained, a step of one head is so little work that most of it is overhead. Here k heads that
differ in their space (and in their first weights) take the step together, in batched matrix products:

- With one λ for the batch, FiLM folds into the linear layer: logits = f (σ*W)ᵀ + (Wμ + b). No (k, n, c) array is made.
- Nearly all parameters are the last layers of FiLM's branches, whose gradient is an outer product. Its norm is a
  product of two norms, so the gradient is written once, already clipped.

Each head ends as :func:`lossdial.training.fit` would have left it, up to rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from lossdial.base.streams import Stream, stream
from lossdial.losses import ConditionalLoss
from lossdial.models import ConditionalClassifier, FiLMHead, PlainHead
from lossdial.spaces import Lam
from lossdial.training.batches import ArrayBatches
from lossdial.training.checkpoint import Checkpoint
from lossdial.training.environment import one_thread
from lossdial.training.recipe import Recipe

__all__ = ["StackedResult", "fit_stacked", "stackable"]

_SIGMA, _MU = "films.0.sigma", "films.0.mu"
_SMALL: Final = 2**20  # parameters whose update is too little work for several threads


@dataclass(frozen=True)
class StackedResult:
    """What training a stack leaves behind, besides the weights in the models."""

    #: for each model, why it has no usable weights; None where all went well
    diverged: tuple[str | None, ...]
    seconds: float
    steps: int


def stackable(models: Sequence[ConditionalClassifier], recipe: Recipe) -> bool:
    """Whether :func:`fit_stacked` can train these models: heads of one kind without hidden layers, nothing else."""
    return (
        len({_shape(model.head) for model in models}) == 1
        and _shape(models[0].head) is not None
        and not any(p.requires_grad for model in models for p in model.backbone.parameters())
        and recipe.lam_per == "batch"
        and recipe.ema_decay is None
    )


def _shape(head: nn.Module) -> tuple[object, ...] | None:
    if isinstance(head, PlainHead):
        return ("plain", head.n_features)
    if isinstance(head, FiLMHead) and head.foldable:
        return ("film", head.n_features, head.dim, head.film_hidden, head.scale)
    return None


def fit_stacked(
    models: Sequence[ConditionalClassifier],
    loss: ConditionalLoss,
    batches: ArrayBatches,
    recipe: Recipe,
    *,
    seed: int = 0,
    run_dir: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    checkpoint_seconds: float = 30.0,
    advance: Callable[[int], None] | None = None,
) -> StackedResult:
    """Train the heads of ``models`` in place, all on the same batches of features, as :func:`fit` would one by one.

    batches: features (n, c) as they enter the heads; the backbones are not called.
    run_dir: checkpoints go here; a run that finds its own goes on from it.
    advance: called with the number of steps done.

    A head whose loss is no longer a number is left behind; the others are not touched by it.
    """
    if not stackable(models, recipe):
        raise ValueError(
            "only heads of one kind without hidden layers, on backbones without trained parameters, with one λ per "
            "batch and no EMA, can be trained as a stack; use fit for each of these models."
        )
    for model in models:
        loss.check_space(model.space)
    own: dict[str, Any] = {f.name: repr(getattr(recipe, f.name)) for f in fields(recipe)}
    own |= {"loss": repr(loss), "spaces": [repr(model.space) for model in models], "seed": seed}
    stack = _Stack(models)
    with torch.no_grad(), one_thread(stack.size < _SMALL):
        return _Run(
            models, stack, loss, batches, recipe, seed, run_dir, dict(identity or own), checkpoint_seconds
        ).train(advance)


@dataclass(frozen=True)
class _Outer:
    """The gradient (k, i, j) with entries left_i right_j, not yet multiplied out."""

    left: Tensor  # (k, i)
    right: Tensor  # (k, j)

    def square(self) -> Tensor:
        return self.left.square().sum(1) * self.right.square().sum(1)

    def write(self, scale: Tensor, out: Tensor) -> None:
        torch.mul((self.left * scale[:, None])[:, :, None], self.right[:, None, :], out=out)


@dataclass(frozen=True)
class _Dense:
    """A gradient (k, ...) as it is."""

    value: Tensor

    def square(self) -> Tensor:
        return self.value.flatten(1).square().sum(1)

    def write(self, scale: Tensor, out: Tensor) -> None:
        torch.mul(self.value, scale.view(-1, *[1] * (self.value.dim() - 1)), out=out)


_Gradient = dict[str, _Outer | _Dense]


class _Stack:
    """The parameters of k heads, each as one tensor (k, ...), and their gradient in closed form."""

    def __init__(self, models: Sequence[ConditionalClassifier]) -> None:
        heads = [model.head for model in models]
        self.values: dict[str, Tensor] = {k: v.detach() for k, v in stack_module_state(heads)[0].items()}
        self.film = isinstance(heads[0], FiLMHead)
        self.offset = 1.0 if getattr(heads[0], "scale", None) == "1+sigma" else 0.0
        self.linear: Final = "linears.0" if self.film else "linear"

    @property
    def size(self) -> int:
        """How many parameters all heads have together."""
        return sum(value.numel() for value in self.values.values())

    def unstack(self, models: Sequence[ConditionalClassifier]) -> None:
        for i, model in enumerate(models):
            model.head.load_state_dict({name: value[i] for name, value in self.values.items()})

    def gradient(
        self, x: Tensor, y: Tensor, codes: Tensor, lam: Lam, loss: ConditionalLoss
    ) -> tuple[Tensor, _Gradient]:
        """Mean losses (k,) over a batch x (n, c), y (n,) at λ (k,), and each head's gradient of its own."""
        v, n, k = self.values, len(x), len(codes)
        weight, bias = v[f"{self.linear}.weight"], v[f"{self.linear}.bias"]  # (k, 2, c), (k, 2)
        if self.film:
            hidden_sigma, sigma = self._branch(_SIGMA, codes)
            hidden_mu, mu = self._branch(_MU, codes)
            sigma = sigma + self.offset
            folded = sigma[:, None, :] * weight
            bias = _linear(mu, weight, bias)
        else:
            folded = weight
        logits = torch.addmm(bias.reshape(-1), x, folded.reshape(2 * k, -1).T)  # (n, 2k)
        losses, d_logits = _loss(logits.view(n, k, 2).transpose(0, 1), y, lam, loss)  # (k,), (k, n, 2)
        d_folded = (d_logits.transpose(1, 2).reshape(2 * k, n) @ x).view(k, 2, -1)
        d_bias = d_logits.sum(1)
        gradient: _Gradient = {f"{self.linear}.bias": _Dense(d_bias)}
        if self.film:
            gradient |= self._branch_gradient(_SIGMA, (d_folded * weight).sum(1), hidden_sigma, codes)
            gradient |= self._branch_gradient(_MU, torch.bmm(d_bias[:, None], weight)[:, 0], hidden_mu, codes)
            d_folded = d_folded * sigma[:, None, :] + d_bias[..., None] * mu[:, None, :]
        gradient[f"{self.linear}.weight"] = _Dense(d_folded)
        return losses, gradient

    def _branch(self, name: str, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden units (k, h) and outputs (k, c) of Linear – ReLU – Linear at codes (k, d)."""
        v = self.values
        hidden = _linear(codes, v[f"{name}.0.weight"], v[f"{name}.0.bias"]).relu_()
        return hidden, _linear(hidden, v[f"{name}.2.weight"], v[f"{name}.2.bias"])

    def _branch_gradient(self, name: str, d_out: Tensor, hidden: Tensor, codes: Tensor) -> _Gradient:
        d_hidden = torch.bmm(d_out[:, None], self.values[f"{name}.2.weight"])[:, 0] * (hidden > 0)
        return {
            f"{name}.2.weight": _Outer(d_out, hidden),
            f"{name}.2.bias": _Dense(d_out),
            f"{name}.0.weight": _Outer(d_hidden, codes),
            f"{name}.0.bias": _Dense(d_hidden),
        }


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Row i of x (k, a) through layer i of weights (k, b, a) and biases (k, b): (k, b)."""
    # As a row times a matrix: as a matrix times a column the same product takes five times as long.
    return torch.baddbmm(bias[:, None], x[:, None], weight.transpose(1, 2))[:, 0]


def _loss(logits: Tensor, y: Tensor, lam: Lam, loss: ConditionalLoss) -> tuple[Tensor, Tensor]:
    """The mean loss (k,) of logits (k, n, 2), and its gradient (k, n, 2)."""
    k, n, _ = logits.shape
    flat = logits.reshape(k * n, 2).requires_grad_()
    with torch.enable_grad():
        each = Lam(lam.names, lam.values.repeat_interleave(n, 0))  # every sample with the λ of its head
        means = loss.per_sample(flat, y.repeat(k), each).view(k, n).mean(1)
        (gradient,) = torch.autograd.grad(means.sum(), flat)
    return means.detach(), gradient.view(k, n, 2)


@dataclass
class _Run:
    """The state of one call of fit_stacked."""

    models: Sequence[ConditionalClassifier]
    stack: _Stack
    loss: ConditionalLoss
    batches: ArrayBatches
    recipe: Recipe
    seed: int
    run_dir: Path | None
    identity: dict[str, Any]
    checkpoint_seconds: float
    diverged: dict[int, str] = field(default_factory=dict)

    def train(self, advance: Callable[[int], None] | None) -> StackedResult:
        parameters = [nn.Parameter(value) for value in self.stack.values.values()]  # the same memory
        self.gradients = [torch.empty_like(value) for value in parameters]
        for parameter, gradient in zip(parameters, self.gradients, strict=True):
            parameter.grad = gradient
        self.optimizer = self.recipe.optimizer.build_base(parameters)
        epoch, batch, before = self._resume()
        self.saved = started = time.monotonic()
        count = len(self.batches)
        for current in range(epoch, self.recipe.epochs):
            start = batch if current == epoch else 0
            codes, lams = self._draw(current, count)
            for i, (x, y) in enumerate(self.batches.epoch(self.seed, current, start), start):
                rate = self.recipe.schedule(current + i / count, self.recipe.epochs)
                self.optimizer.param_groups[0]["lr"] = self.recipe.optimizer.lr * rate
                self._step(x, y, codes[i], lams.at(i), current * count + i)
                if advance is not None:
                    advance(current * count + i + 1)
                if self.run_dir is not None and time.monotonic() - self.saved >= self.checkpoint_seconds:
                    self._save(self.run_dir, current, i + 1, before + time.monotonic() - started)
        self.stack.unstack(self.models)
        for model in self.models:
            model.eval()
        messages = tuple(self.diverged.get(i) for i in range(len(self.models)))
        return StackedResult(messages, before + time.monotonic() - started, self.recipe.epochs * count)

    def _draw(self, epoch: int, count: int) -> tuple[Tensor, Lam]:
        """Codes (count, k, d) and λ (count, k) of an epoch; each model draws as it would alone."""
        lams = [model.space.sample([count], stream(self.seed, Stream.LAMBDA, epoch)) for model in self.models]
        codes = [model.space.encode(lam) for model, lam in zip(self.models, lams, strict=True)]
        drawn = Lam(lams[0].names, torch.stack([lam.values for lam in lams], 1))
        return torch.stack(codes, 1).to(self.batches.x), drawn.to(self.batches.x.device)

    def _step(self, x: Tensor, y: Tensor, codes: Tensor, lam: Lam, step: int) -> None:
        losses, gradient = self.stack.gradient(x, y, codes, lam, self.loss)
        for i in torch.nonzero(~losses.isfinite()).flatten().tolist():
            rate = self.optimizer.param_groups[0]["lr"]
            text = (
                f"the loss became {losses[i].item()} at step {step + 1} with λ = {lam.at(i)}, learning rate {rate:.3g}"
            )
            self.diverged.setdefault(i, text)
        rho = self.recipe.optimizer.sam_rho
        if rho is not None:
            before = self._ascend(gradient, rho)
            _, gradient = self.stack.gradient(x, y, codes, lam, self.loss)
            torch._foreach_copy_(list(self.stack.values.values()), before)
        scale = torch.ones_like(losses)
        if self.recipe.clip_norm is not None:
            scale = (self.recipe.clip_norm / (_norm(gradient) + 1e-6)).clamp(max=1)
        for name, out in zip(self.stack.values, self.gradients, strict=True):
            gradient[name].write(scale, out)
        self.optimizer.step()

    def _ascend(self, gradient: _Gradient, rho: float) -> list[Tensor]:
        """Move every head to θ + ρ g/‖g‖, its own norm; the values before."""
        before = [value.clone() for value in self.stack.values.values()]
        scale = rho / (_norm(gradient) + 1e-12)
        for (name, value), step in zip(self.stack.values.items(), self.gradients, strict=True):
            gradient[name].write(scale, step)
            value.add_(step)
        return before

    def _save(self, run_dir: Path, epoch: int, batch: int, seconds: float) -> None:
        self.saved = time.monotonic()
        state, left = self.optimizer.state_dict(), {"diverged": dict(self.diverged)}
        Checkpoint(epoch, batch, self.stack.values, state, None, left, 0.0, seconds, [], self.identity).save(run_dir)

    def _resume(self) -> tuple[int, int, float]:
        found = Checkpoint.load(self.run_dir, self.identity, self.batches.x.device) if self.run_dir else None
        if found is None:
            return 0, 0, 0.0
        for name, value in self.stack.values.items():
            value.copy_(found.model[name])
        self.optimizer.load_state_dict(found.optimizer)
        self.diverged.update(found.random["diverged"])
        return found.epoch, found.batch, found.seconds


def _norm(gradient: _Gradient) -> Tensor:
    """The norm (k,) of each head's whole gradient."""
    return torch.stack([part.square() for part in gradient.values()]).sum(0).sqrt()
