"""What input costs: augmented CIFAR batches from memory, against a training step.

    python benchmarks/pipeline.py        about a minute on two cores

The bar: drawing and augmenting a batch of 128 costs under 8 % of a ResNet-32 (width 16) training step on it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy

from lossdial.models import CifarResNet, ConditionalClassifier
from lossdial.spaces import Constant, Space
from lossdial.training import ArrayBatches, Augment

BAR = 0.08


def best(action: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs: noise only ever adds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    torch.manual_seed(0)
    x = torch.randint(0, 256, (128 * 8, 3, 32, 32), dtype=torch.uint8)
    y = torch.randint(0, 2, (len(x),))
    batches = ArrayBatches(x, y, 128, Augment(crop_padding=4, flip_horizontal=True))
    space = Space(gamma=Constant(0.0), tau=Constant(0.0))
    model = ConditionalClassifier(CifarResNet(32, 16), 64, space)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    lam = space.sample()
    drawn, labels = next(batches.epoch(seed=0, epoch=0))

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(model(drawn, lam), labels).backward()
        optimizer.step()

    step()
    per_step = best(step, 5)
    per_batch = best(lambda: list(batches.epoch(seed=0, epoch=1)), 5) / len(batches)
    ratio = per_batch / per_step
    table = Table(title="input pipeline, CIFAR batches of 128")
    for column in ("what", "ms", "share of a step", "bar"):
        table.add_column(column, justify="left" if column == "what" else "right")
    table.add_row("ResNet-32 training step", f"{1e3 * per_step:.1f}", "", "")
    table.add_row("draw and augment a batch", f"{1e3 * per_batch:.2f}", f"{ratio:.2%}", f"{BAR:.0%}")
    Console().print(table)
    sys.exit(ratio > BAR)


if __name__ == "__main__":
    main()
