"""Trains in one or two processes on the CPU and leaves the weights in a file: two_processes.py DEVICES FOLDER.

A script of its own, because Fabric starts the second process by running it again.
"""

import sys
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from lossdial.losses import VSLoss
from lossdial.models import MLP, ConditionalClassifier, FiLMConfig
from lossdial.spaces import Lam
from lossdial.training import Cosine, OptimizerConfig, Recipe, fit
from lossdial.training.batches import ArrayBatches


class StoppingLoss(VSLoss):
    """Gives up at the given evaluation, in every process at once."""

    deadline: int = -1

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        self.deadline -= 1
        if self.deadline == 0:
            raise KeyboardInterrupt
        return super().per_sample(logits, y, lam)


def table(n: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(n, generator=g) < 0.3).long()
    return torch.randn(n, 5, generator=g) + y[:, None], y


def train(
    fabric: Fabric, batches, recipe: Recipe, run_dir: Path | None = None, deadline: int = -1, members: int = 1
) -> dict[str, object]:
    torch.manual_seed(0)
    loss = StoppingLoss(beta=3.0)
    loss.deadline = deadline
    model = ConditionalClassifier(MLP(5, (16,)), 16, loss.default_space(), FiLMConfig(members=members))
    result = fit(model, loss, batches, recipe, seed=1, fabric=fabric, run_dir=run_dir, checkpoint_seconds=0)
    return {"model": model.state_dict(), "loss": [row["loss"] for row in result.history]}


def main(devices: int, folder: Path) -> None:
    torch.set_num_threads(1)
    fabric = Fabric(accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto")
    fabric.launch()
    plain = Recipe(3, optimizer=OptimizerConfig("adam", 0.01), schedule=Cosine(warmup=1), clip_norm=1.0)
    sharp = Recipe(2, optimizer=OptimizerConfig("sgd", 0.1, sam_rho=0.1), ema_decay=0.9, lam_per="sample")
    results = {
        # The last batch has three samples, or one: then the second process has none of it.
        "odd last batch": train(fabric, ArrayBatches(*table(4 * 16 + 3), 16), plain),
        "last batch of one": train(fabric, ArrayBatches(*table(4 * 16 + 1), 16), plain),
        "SAM, EMA, λ per sample": train(fabric, ArrayBatches(*table(50), 16), sharp, folder / "run"),
        "an ensemble, weighted": train(
            fabric, ArrayBatches(*table(50), 16, weight=torch.linspace(0, 2, 50)), plain, members=3
        ),
    }
    loader = DataLoader(TensorDataset(*table(40)), batch_size=8 // devices, shuffle=True)
    results["DataLoader"] = train(fabric, loader, plain)
    try:
        train(fabric, loader, plain, folder / "stopped", deadline=13)  # five steps an epoch
    except KeyboardInterrupt:
        results["DataLoader, resumed"] = train(fabric, loader, plain, folder / "stopped")
    if fabric.is_global_zero:
        torch.save(results, folder / "results.pt")
    fabric.barrier()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
