"""What needs no training on features that do not move: the exact path, and scikit-learn's ridge as its rival."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from lossdial.losses import imbalance
from lossdial.models import ConditionalClassifier
from lossdial.training import Exact, refit_head
from lossdial_studies.experiment import Experiment

__all__ = ["Learned", "solve"]


@dataclass(frozen=True, eq=False)
class Learned:
    """A model; how long it took, by the clock and of the processor; and why it is none where it diverged."""

    model: ConditionalClassifier
    seconds: float
    processor: float
    diverged: str | None = None


def solve(experiment: Experiment, model: ConditionalClassifier, x: Tensor, y: NDArray[np.int64]) -> Learned:
    """The solved model of an experiment.

    model: as training would start with it; its backbone, which standardises, is used, and its head is not.
    x, y: stored features (n, c) and labels (n,).
    """
    clock, used = time.monotonic(), time.process_time()
    if experiment.how.way == "exact":
        solved = refit_head(model, x, y, experiment.how.build_loss(imbalance(y)), experiment.space, Exact())
    else:
        solved = _ridge(model, x, y)
    return Learned(solved, time.monotonic() - clock, time.process_time() - used)


@torch.no_grad()
def _ridge(model: ConditionalClassifier, x: Tensor, y: NDArray[np.int64]) -> ConditionalClassifier:
    """The model with the weights that scikit-learn finds at the C and the class weights of its space."""
    setting = model.space.nearest({}).as_dict()
    weights = "balanced" if setting["balanced"] else None
    found = LogisticRegression(C=10 ** setting["ridge"], class_weight=weights, max_iter=1000)
    found.fit(model.embed(x, progress=False).numpy(), y)
    head = dict(model.head.named_parameters())
    for name, values in (("linear.weight", found.coef_[0]), ("linear.bias", found.intercept_[0])):
        head[name].zero_()
        head[name][0, ..., 1] = torch.as_tensor(values).to(head[name])  # z₋ stays 0
    return model.eval()
