"""What the estimator's comfort costs: `LCTClassifier.fit` against a bare PyTorch loop and against skorch.

    LOSSDIAL_DATA=... python benchmarks/fit.py

Data are the mammography table (11,183 x 6), a fifth of it for validation. The bare loop trains the same conditional
network with the same loss, λ draws, batches and update rule, and nothing else: no validation, no checks, no log; it
must end with the same weights. It is timed with torch's Adam as one writes it, and with the fused one that the
estimator uses. skorch trains the same backbone with cross entropy for as many epochs of the same batch size; a bare
loop of that is timed too, as the least that skorch's own task can cost.

Everything runs on one thread and is timed by the processor's clock, the parties taking turns, each at its best of
several turns, so that neither the number of cores nor a busy machine changes the ratios. Exits with 1 when a bar is
missed. About a minute.
"""

import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import Tensor, nn
from torch.nn import functional as F

from lossdial import LCTClassifier, Recipe, VSLoss
from lossdial.base.streams import Stream, stream
from lossdial.models import MLP, ConditionalClassifier, build_model


@dataclass(frozen=True)
class Sizes:
    """How long the measurement is; the defaults are the ones with bars."""

    epochs: int = 10
    batch_size: int = 128
    turns: int = 8


@dataclass(frozen=True)
class Problem:
    """Training and validation rows, and the estimator's seed."""

    x: np.ndarray
    y: np.ndarray
    x_val: np.ndarray
    y_val: np.ndarray
    seed: int = 0

    @classmethod
    def load(cls, path: Path) -> "Problem":
        with np.load(path) as file:
            x, y = file["X"], file["y"].astype(np.int64)
        x, x_val, y, y_val = train_test_split(x, y, test_size=0.2, stratify=y, random_state=0)
        return cls(x, y, x_val, y_val)


def as_single(model: ConditionalClassifier) -> list[Tensor]:
    """Buffers and parameters in the order of the forward pass; the head's as a single Linear has them."""
    head = [value[0].t() for value in model.head.state_dict().values()]  # of a vector, itself
    return [*model.backbone.state_dict().values(), *head]


class BareNetwork(nn.Module):
    """The estimator's default network, written out."""

    def __init__(self, start: ConditionalClassifier) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("scale", torch.ones(6))
        self.body = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.sigma = nn.Sequential(nn.Linear(2, 128), nn.ReLU(), nn.Linear(128, 64))
        self.mu = nn.Sequential(nn.Linear(2, 128), nn.ReLU(), nn.Linear(128, 64))
        self.linear = nn.Linear(64, 2)
        self.load_state_dict(dict(zip(self.state_dict(), as_single(start), strict=True)))

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        features = self.body((x - self.mean) / self.scale)
        return self.linear((1 + self.sigma(code)) * features + self.mu(code))


def bare_fit(problem: Problem, sizes: Sizes, fused: bool) -> BareNetwork:
    """The least that trains the same network on the same batches."""
    x, y, seed = torch.from_numpy(problem.x), torch.from_numpy(problem.y), problem.seed
    beta = float((y == 0).sum() / (y == 1).sum())
    space = VSLoss(beta).default_space()
    network = BareNetwork(build_model(None, None, space, x, seed))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3, fused=fused)
    count, log_beta, half = -(-len(y) // sizes.batch_size), math.log(beta), torch.tensor([0.15, 1.5])
    for epoch in range(sizes.epochs):
        lams = space.sample([count, sizes.batch_size], stream(seed, Stream.LAMBDA, epoch)).values
        order = torch.randperm(len(y), generator=stream(seed, Stream.SHUFFLE, epoch))
        for i in range(count):
            index = order[i * sizes.batch_size : (i + 1) * sizes.batch_size]
            lam, labels = lams[i, : len(index)], y[index]
            for group in optimizer.param_groups:
                group["lr"] = 3e-3 * (1 + math.cos(math.pi * (epoch + i / count) / sizes.epochs)) / 2
            z = network(x[index], lam / half - 1)
            eta = torch.exp(-log_beta * lam[:, 0]) * z[:, 1] - z[:, 0] - log_beta * lam[:, 1]
            loss = F.softplus(eta * (1 - 2 * labels)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


def plain_fit(problem: Problem, sizes: Sizes) -> nn.Module:
    """What skorch is asked for, as a bare loop: the backbone with cross entropy, no λ."""
    x, y = torch.from_numpy(problem.x), torch.from_numpy(problem.y)
    backbone = MLP(6)
    backbone.standardize.fit(x)
    network = nn.Sequential(backbone, nn.Linear(64, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(sizes.epochs):
        for index in torch.randperm(len(y)).split(sizes.batch_size):
            loss = F.cross_entropy(network(x[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


def our_fit(problem: Problem, sizes: Sizes) -> LCTClassifier:
    classifier = LCTClassifier(recipe=Recipe(sizes.epochs, batch_size=sizes.batch_size), random_state=0)
    return classifier.fit(problem.x, problem.y, problem.x_val, problem.y_val)


def skorch_fit(problem: Problem, sizes: Sizes) -> NeuralNetClassifier:
    backbone = MLP(6)
    backbone.standardize.fit(torch.from_numpy(problem.x))
    network = NeuralNetClassifier(
        nn.Sequential(backbone, nn.Linear(64, 2)),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=3e-3,
        max_epochs=sizes.epochs,
        batch_size=sizes.batch_size,
        iterator_train__shuffle=True,
        train_split=predefined_split(Dataset(problem.x_val, problem.y_val)),
        verbose=0,
    )
    return network.fit(problem.x, problem.y)


def seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def in_turns(turns: int, *functions: Callable[[], object]) -> list[float]:
    """The best time of each function, called in turns after one unmeasured turn."""
    times = [[seconds(function) for function in functions] for _ in range(turns + 1)]
    return [min(column) for column in zip(*times[1:], strict=True)]


def measure(problem: Problem, sizes: Sizes) -> list[tuple[str, float, float]]:
    """What was measured, its value and the most it may be."""
    bare = torch.cat([p.flatten() for p in bare_fit(problem, sizes, fused=False).state_dict().values()])
    ours = torch.cat([p.flatten() for p in as_single(our_fit(problem, sizes).bundle_.predictor.model)])
    gap = float((bare - ours).detach().abs().max())
    fit, loop, fused_loop, skorch, plain_loop = in_turns(
        sizes.turns,
        lambda: our_fit(problem, sizes),
        lambda: bare_fit(problem, sizes, fused=False),
        lambda: bare_fit(problem, sizes, fused=True),
        lambda: skorch_fit(problem, sizes),
        lambda: plain_fit(problem, sizes),
    )
    return [
        ("LCTClassifier.fit / bare loop", fit / loop, 1.2),
        ("LCTClassifier.fit / bare loop with the fused optimiser", fit / fused_loop, math.inf),
        ("LCTClassifier.fit / skorch's NeuralNetClassifier.fit", fit / skorch, 1 / 3),
        ("bare loop of the backbone alone / skorch's", plain_loop / skorch, math.inf),
        ("largest difference of a weight from the bare loop's", gap, 1e-3),
    ]


def main() -> int:
    if "LOSSDIAL_DATA" not in os.environ:
        sys.exit("set LOSSDIAL_DATA to the folder that holds tables/mammography.npz")
    torch.set_num_threads(1)
    sizes = Sizes()
    rows = measure(Problem.load(Path(os.environ["LOSSDIAL_DATA"]) / "tables" / "mammography.npz"), sizes)
    table = Table("what", "measured", "bar", "", title=f"mammography, {sizes.epochs} epochs of {sizes.batch_size}")
    for what, value, bar in rows:
        verdict = "" if math.isinf(bar) else "[green]met" if value <= bar else "[red]missed"
        table.add_row(what, f"{value:.3g}", "" if math.isinf(bar) else f"<= {bar:.3g}", verdict)
    Console().print(table)
    return 0 if all(value <= bar for _, value, bar in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
