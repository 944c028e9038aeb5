"""Before and after a training: a run that has ended already, figures along the way, the first operating point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lossdial.bundle import Bundle, BundleError
from lossdial.dial import OperatingPoint, statable
from lossdial.dial.metrics import auc
from lossdial.models import ConditionalClassifier
from lossdial.spaces import Lam

__all__ = ["as_module", "as_tensor", "can_be_stated", "finished", "untuned", "validation"]


def can_be_stated(labels: NDArray[Any]) -> bool:
    return statable(int(labels.sum()), int(len(labels) - labels.sum())) is None


def untuned(lam: Lam) -> OperatingPoint:
    """What predict uses until somebody chooses: p > ½ at the λ whose probabilities are the most honest."""
    why = "untuned: the λ nearest to cross entropy"
    return OperatingPoint("default", lam.as_dict(), 0.0, why, metrics={}, n_positive=0, n_negative=0)


def validation(x: Any, labels: Any, neutral: Lam) -> Any:
    def validate(current: ConditionalClassifier) -> dict[str, float]:
        like = next(current.head.parameters())  # the device and, where precision is 'true', another dtype
        with torch.no_grad():
            features = current.embed(x if x.dtype == torch.uint8 else x.to(like.dtype), progress=False).to(like)
            margin = current.margins(features, neutral.at(None))[:, 0]
        return {"auc": float(auc(labels, margin.float().cpu().numpy()))}

    return validate


def finished(folder: Path | None, identity: Mapping[str, Any], network: Any) -> Bundle | None:
    """The finished model of this very run, where its folder holds one; another model there is an error."""
    if folder is None or not (folder / "bundle.json").exists():
        return None
    found = Bundle.load(folder, as_module(network))
    there = found.training.identity
    changed = sorted(key for key in {*there, *identity} if there.get(key) != identity.get(key))
    if changed:
        raise BundleError(
            f"{folder} holds a model trained with other settings (different: {', '.join(changed)}). "
            "Choose another folder, or delete this one."
        )
    return found


def as_module(network: Any) -> nn.Module | None:
    return network if isinstance(network, nn.Module) else None


def as_tensor(array: NDArray[Any] | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array.astype(np.float32))
