"""What k members side by side are made of: their linear layers, and the mean of their probabilities."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import log_softmax, logsigmoid


def mean_log_odds(margins: Tensor, dim: int = 0) -> Tensor:
    r"""The log-odds of the members' mean probability, :math:`\log\sum_k\sigma(m_k) - \log\sum_k\sigma(-m_k)`.

    Of one member it is the margin itself. The sums are of logarithms, so that margins of any size stay finite.

    >>> mean_log_odds(torch.tensor([200.0, 200.0])), mean_log_odds(torch.tensor([-3.0, 3.0]))
    (tensor(200.), tensor(0.))
    """
    if margins.shape[dim] == 1:
        return margins.squeeze(dim)
    return logsigmoid(margins).logsumexp(dim) - logsigmoid(-margins).logsumexp(dim)


def mean_log_probability(logits: Tensor) -> Tensor:
    """Logits (k, n, 2) of k members as one pair (n, 2): the logarithms of their mean probabilities."""
    if len(logits) == 1:
        return logits[0]
    return log_softmax(logits, -1).logsumexp(0) - math.log(len(logits))


class _Row(torch.autograd.Function):
    """Row i of x (k, in) through layer i of weights (k, in, out) and biases (k, out): (k, out).

    The weight's gradient is an outer product, which torch's own backward takes as a batched matrix product: correct,
    and ten times as slow as writing it down. FiLM's last layers are nearly all parameters of the paper's head.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias[:, None], x[:, None], weight)[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradient.to(weight.dtype)  # under autocast it comes in another
        d_x = torch.bmm(gradient[:, None], weight.mT)[:, 0] if ctx.needs_input_grad[0] else None
        return d_x, x[:, :, None] * gradient[:, None], gradient


class MemberLinear(nn.Module):
    """Linear layers side by side, one for each member: weight (k, in, out), bias (k, out)."""

    def __init__(self, members: int, n_in: int, n_out: int) -> None:
        super().__init__()
        # (in, out), not torch's (out, in): a gradient then has the layout of its weight and is not copied.
        self.weight = nn.Parameter(torch.zeros(members, n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(members, n_out))

    @torch.no_grad()
    def reset(self, member: int) -> None:
        """First weights for one member, as ``nn.Linear`` draws them."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        self.weight[member].uniform_(-bound, bound)
        self.bias[member].uniform_(-bound, bound)

    def forward(self, x: Tensor, scale: Tensor | None = None, shift: Tensor | None = None) -> Tensor:
        """x (n, in), the same for every member, or (k, n, in) -> (k, n, out).

        scale, shift (k, in): of ``scale * x + shift``, folded into the layer, so that no array of that size is made.
        """
        k, n_in, n_out = self.weight.shape
        if k == 1:
            return self._one(x if x.dim() == 2 else x.squeeze(0), scale, shift)
        weight: Tensor = self.weight
        bias = self.bias if shift is None else _Row.apply(shift, weight, self.bias)
        if scale is not None:
            weight = scale[:, :, None] * weight
        if x.dim() == 2:  # one product for all members
            out = torch.addmm(bias.reshape(-1), x, weight.transpose(0, 1).reshape(n_in, k * n_out))
            return out.view(x.shape[0], k, n_out).transpose(0, 1)  # len() would tie an export to one batch size
        if x.shape[1] == 1:
            return _Row.apply(x.squeeze(1), weight, bias).unsqueeze(1)
        return torch.baddbmm(bias[:, None], x, weight)

    def _one(self, x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
        """The same of one member: x (n, in) -> (1, n, out), in as few operations as a plain layer takes."""
        weight = self.weight.squeeze(0)  # a view: to select [0] would copy in the backward pass
        bias: Tensor = self.bias
        if shift is not None:
            bias = torch.addmm(bias, shift, weight)
        if scale is not None:
            weight = scale.view(-1, 1) * weight
        return torch.addmm(bias, x, weight).unsqueeze(0)

    def margin(self) -> tuple[Tensor, Tensor]:
        """Weight (k, in) and bias (k,) of the second output less the first: z₊ − z₋ of a last layer."""
        return self.weight[..., 1] - self.weight[..., 0], self.bias[:, 1] - self.bias[:, 0]

    def extra_repr(self) -> str:
        members, n_in, n_out = self.weight.shape
        return f"members={members}, in={n_in}, out={n_out}"
