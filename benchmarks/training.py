"""What the conditional step costs: `fit` with LCT, and with SAM, against a hand-written cross-entropy loop.

    python benchmarks/training.py

The network is the paper's for CIFAR: ResNet-32 of width 16 on 32 x 32 images, batches of 128, SGD with momentum. The
plain loop is the same backbone with a linear head and no λ. Everything runs on one thread and is timed by the
processor's clock, the parties taking turns, each at its best of several turns, so that neither the number of cores nor
a busy machine changes the ratios. Exits with 1 when a bar is missed. About three minutes.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F

from lossdial import ConditionalClassifier, Recipe, VSLoss, fit
from lossdial.models import CifarResNet
from lossdial.training import OptimizerConfig
from lossdial.training.batches import ArrayBatches


@dataclass(frozen=True)
class Sizes:
    """How large the measurement is; the defaults are the ones with bars."""

    depth: int = 32
    width: int = 16
    batch_size: int = 128
    steps: int = 2
    turns: int = 10


def make_images(sizes: Sizes) -> ArrayBatches:
    generator = torch.Generator().manual_seed(0)
    n = sizes.steps * sizes.batch_size
    x = torch.randint(256, (n, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return ArrayBatches(x, (torch.rand(n, generator=generator) < 0.1).long(), sizes.batch_size)


class PlainClassifier(nn.Module):
    """The backbone, average pooling and a linear layer."""

    def __init__(self, backbone: CifarResNet) -> None:
        super().__init__()
        self.backbone, self.linear = backbone, nn.Linear(backbone.n_features, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.backbone(x).mean((2, 3)))


def plain_epoch(sizes: Sizes, data: ArrayBatches) -> None:
    """Cross entropy, as a tutorial would write it."""
    model = PlainClassifier(CifarResNet(sizes.depth, sizes.width))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    order = torch.randperm(len(data.y))
    for index in order.split(sizes.batch_size):
        loss = F.cross_entropy(model(data.x[index].float() / 255), data.y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def conditional_epoch(sizes: Sizes, data: ArrayBatches, sam_rho: float | None, fabric: Fabric) -> None:
    """The same through `fit`: λ drawn, FiLM, the Vector Scaling loss, the schedule, the checks."""
    loss = VSLoss(beta=9.0)
    model = ConditionalClassifier(CifarResNet(sizes.depth, sizes.width), 4 * sizes.width, loss.default_space())
    fit(model, loss, data, Recipe(1, optimizer=OptimizerConfig("sgd", 0.1, sam_rho=sam_rho)), fabric=fabric)


def seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def in_turns(turns: int, *functions: Callable[[], object]) -> list[float]:
    """The best time of each function, called in turns after one unmeasured turn."""
    times = [[seconds(function) for function in functions] for _ in range(turns + 1)]
    return [min(column) for column in zip(*times[1:], strict=True)]


def measure(sizes: Sizes) -> list[tuple[str, float, float]]:
    """What was measured, its value and the most it may be."""
    data = make_images(sizes)
    fabric = Fabric(accelerator="cpu", devices=1)  # made once a run, which has more than these few steps
    plain, conditional, sharp = in_turns(
        sizes.turns,
        lambda: plain_epoch(sizes, data),
        lambda: conditional_epoch(sizes, data, None, fabric),
        lambda: conditional_epoch(sizes, data, 0.1, fabric),
    )
    return [
        ("LCT step / plain cross-entropy step", conditional / plain, 1.05),
        ("LCT step with SAM / plain cross-entropy step", sharp / plain, 2.1),
    ]


def main() -> int:
    torch.set_num_threads(1)
    sizes = Sizes()
    rows = measure(sizes)
    table = Table("what", "measured", "bar", "", title=f"ResNet-{sizes.depth}-{sizes.width}, batch {sizes.batch_size}")
    for what, value, bar in rows:
        table.add_row(what, f"{value:.3f}", f"<= {bar:g}", "[green]met" if value <= bar else "[red]missed")
    Console().print(table)
    return 0 if all(value <= bar for _, value, bar in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
