"""Before and after a training: a run that has ended already, figures along the way, the first operating point."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import nn

from lossdial.bundle import Bundle, BundleError, Evidence
from lossdial.bundle.predictor import Predictor
from lossdial.dial import OperatingPoint
from lossdial.dial.checks import statable
from lossdial.dial.metrics.functions import auc
from lossdial.models import ConditionalClassifier
from lossdial.sklearn.rows import Split
from lossdial.spaces import Lam
from lossdial.training import Checkpoint

__all__ = ["as_module", "as_tensor", "can_be_stated", "evidence_of", "finished", "seed_of", "untuned", "validation"]


def can_be_stated(labels: NDArray[Any]) -> bool:
    return statable(int(labels.sum()), int(len(labels) - labels.sum())) is None


def untuned(lam: Lam, ridge_on: str = "") -> OperatingPoint:
    """What predict uses until somebody chooses: p > ½ at the λ whose probabilities are the most honest.

    ridge_on: sketches of the held-out samples, where they chose a ridge: those cannot certify this point.
    """
    why = "untuned: the λ nearest to cross entropy"
    why += ", the ridge at the least held-out log loss" if ridge_on else ""
    return OperatingPoint(
        "default", lam.as_dict(), 0.0, why, metrics={}, n_positive=0, n_negative=0, chosen_on=ridge_on
    )


def validation(x: Any, labels: Any, neutral: Lam) -> Any:
    def validate(current: ConditionalClassifier) -> dict[str, float]:
        like = next(current.head.parameters())  # the device and, where precision is 'true', another dtype
        with torch.no_grad():
            features = current.embed(x if x.dtype == torch.uint8 else x.to(like.dtype), progress=False).to(like)
            margin = current.margins(features, neutral.at(None))[:, 0]
        return {"auc": float(auc(labels, margin.float().cpu().numpy()))}

    return validate


def evidence_of(predictor: Predictor, split: Split, features: torch.Tensor | None) -> Evidence | None:
    """What held-out rows of these features say of every λ."""
    if features is None or split.labels_val is None:
        return None
    scores = predictor.scores(features)
    groups = None if split.groups_val is None else np.unique(split.groups_val, return_inverse=True)[1]
    return Evidence(split.labels_val.astype(np.uint8), scores.array(), scores.lams, groups, split.weight_val)


def finished(folder: Path | None, identity: Mapping[str, Any], network: Any) -> Bundle | None:
    """The finished model of this very run, where its folder holds one; another model there is an error."""
    if folder is None or not (folder / "bundle.json").exists():
        return None
    found = Bundle.load(folder, as_module(network))
    there = found.training.identity
    changed = sorted(key for key in {*there, *identity} if there.get(key) != identity.get(key))
    if changed:
        folds = " In cross-validation and in a search every fit has rows of its own: give no Run(folder) there."
        raise BundleError(
            f"{folder} holds a model trained with other settings (different: {', '.join(changed)}). "
            f"Choose another folder, or delete this one.{folds if 'data' in changed else ''}"
        )
    return found


def seed_of(random_state: Any, folder: Path | None, network: Any) -> int:
    """Of a run; without random_state, that of the run which waits, or ended, in its folder."""
    if random_state is None and folder is not None:
        waiting = Checkpoint.identity_in(folder) or {}
        if not waiting and (folder / "bundle.json").exists():
            waiting = dict(Bundle.load(folder, as_module(network)).training.identity)
        if isinstance(waiting.get("seed"), int):
            return int(waiting["seed"])
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def as_module(network: Any) -> nn.Module | None:
    return network if isinstance(network, nn.Module) else None


def as_tensor(array: NDArray[Any] | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array.astype(np.float32))
