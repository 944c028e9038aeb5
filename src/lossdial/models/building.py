"""The one place where a model is put together, for the estimator, the experiments and whoever trains by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import cast

import torch
from torch import Tensor, nn

from lossdial.base.streams import Stream, stream_seed
from lossdial.models.backbones import MLPConfig, NetworkConfig, Standardize
from lossdial.models.encoders import FrozenEncoder
from lossdial.models.heads import HeadConfig, build_head
from lossdial.models.network import ConditionalClassifier, feature_size
from lossdial.spaces import Space

__all__ = ["build_model", "seeded_weights"]


@contextmanager
def seeded_weights(seed: int, *part: int) -> Iterator[None]:
    """First weights drawn inside are those of this seed; torch's own generator is left as it was found."""
    with torch.random.fork_rng([]):
        torch.manual_seed(stream_seed(seed, Stream.WEIGHTS, *part))
        yield


def build_model(
    network: nn.Module | NetworkConfig | None,
    head: HeadConfig | str | None,
    space: Space,
    x: Tensor,
    seed: int,
) -> ConditionalClassifier:
    """A model for inputs such as x (n, ...), as training starts with it.

    network: a backbone, which is copied, or the description of one to be made; an MLP over a table unless given.
    head: as in :func:`build_head`.
    x: training data; a backbone's ``standardize`` takes mean and deviation from them.
    seed: of the first weights. Those of the head depend on seed, sizes and config alone, not on the backbone.

    >>> space = Space.from_json({"gamma": [0, 0.3, 0], "tau": [0, 3, 0.333]})
    >>> build_model(MLPConfig((16,)), "film", space, torch.randn(20, 5), seed=0).n_features
    16
    """
    with seeded_weights(seed):
        if isinstance(network, nn.Module):
            backbone = deepcopy(network)
        elif network is None or isinstance(network, NetworkConfig):
            if x.dim() != 2:
                what = "an MLP" if network is None else repr(network)
                raise ValueError(f"{what} reads a table (n, c); got x of shape {tuple(x.shape)}. Pass network=….")
            backbone = (network or MLPConfig()).build(x.shape[1])
        else:
            raise ValueError(
                f"network must be an nn.Module, an MLPConfig, a FeaturesConfig or None for an MLP; got {network!r}."
            )
    standardize = getattr(backbone, "standardize", None)
    if isinstance(standardize, Standardize):
        images = isinstance(backbone, FrozenEncoder) and x.dim() > 2
        standardize.fit(cast(FrozenEncoder, backbone).stored(x) if images else x)
    n_features = feature_size(backbone, x[:2])
    with seeded_weights(seed, 1):
        return ConditionalClassifier(backbone, n_features, space, build_head(head, n_features, space.dim))
