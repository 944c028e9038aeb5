"""Feature-wise linear modulation: λ scales and shifts each channel."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

__all__ = ["FiLM", "Scale"]

Scale = Literal["sigma", "1+sigma"]


class FiLM(nn.Module):
    r""":math:`\tilde f = \sigma(\lambda) * f + \mu(\lambda)`, channel by channel.

    Two branches, each ``Linear(d, hidden) – ReLU – Linear(hidden, c)`` with bias: 2·(d+1)·hidden + 2·(hidden+1)·c
    parameters (17,280 at d = 2, c = 64, hidden = 128).

    ``scale="1+sigma"`` starts near the identity; ``scale="sigma"`` uses the branch's output as it is.
    """

    def __init__(self, dim: int, n_channels: int, hidden: int = 128, scale: Scale = "1+sigma") -> None:
        super().__init__()
        if scale not in ("sigma", "1+sigma"):
            raise ValueError(f"scale must be 'sigma' or '1+sigma'; got {scale!r}.")
        self.scale = scale
        self._offset = 1.0 if scale == "1+sigma" else 0.0
        self.sigma = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, n_channels))
        self.mu = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, n_channels))

    def coefficients(self, code: Tensor) -> tuple[Tensor, Tensor]:
        """σ (with its 1, if any) and μ of codes (..., d): two tensors (..., c)."""
        return self.sigma(code) + self._offset, self.mu(code)

    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        """features (n, c) or (n, c, h, w); code (d,) for the whole batch or (n, d)."""
        sigma, mu = self.coefficients(code)
        if features.dim() > 2:  # channels come second, whatever follows is space
            spread = (...,) + (None,) * (features.dim() - 2)
            sigma, mu = sigma[spread], mu[spread]
        return sigma * features + mu

    def extra_repr(self) -> str:
        return f"scale={self.scale!r}"
