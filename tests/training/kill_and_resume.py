"""Kills training runs with SIGKILL and resumes them; prints one JSON line for each.

A script of its own, so that the parent process can import torch, never run it, and fork: each run is a child that dies
or ends for real, without paying for the import.
"""

import contextlib
import hashlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning_fabric  # noqa: F401  # which fit imports: before the forks, not in each of them
import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from lossdial.losses import VSLoss
from lossdial.models import MLP, CifarResNet, ConditionalClassifier, FiLMConfig, Network, SettingsStack
from lossdial.spaces import Lam
from lossdial.training import Cosine, OptimizerConfig, Recipe, Steps, fit
from lossdial.training.batches import ArrayBatches, Augment


class DeadlyLoss(VSLoss):
    """Kills the process at the given evaluation: SAM evaluates twice a step, so a step may die in its middle."""

    deadline: int = -1

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        self.deadline -= 1
        if self.deadline == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().per_sample(logits, y, lam)


class NoisyRows(Dataset[tuple[Tensor, Tensor]]):
    """Rows with noise from each of the global generators that a transform may use."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        noise = torch.rand(()) + random.gauss(0, 1) + np.random.randn()  # noqa: NPY002 (what old transforms do)
        return self.x[i] + 0.1 * noise, self.y[i]


def table() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(90, generator=g) < 0.3).long()
    return torch.randn(90, 5, generator=g) + y[:, None], y


def images() -> ArrayBatches:
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(60, generator=g) < 0.3).long()
    x = torch.randint(256, (60, 3, 8, 8), generator=g, dtype=torch.uint8)
    return ArrayBatches(x, y, 16, Augment(crop_padding=1, flip_horizontal=True))


def normalised_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.3))


def single(backbone: nn.Module, n_features: int) -> Network:
    return ConditionalClassifier(backbone, n_features, SPACE)


def ensemble(backbone: nn.Module, n_features: int) -> Network:
    return ConditionalClassifier(backbone, n_features, SPACE, FiLMConfig((6,), members=3))


def stack(backbone: nn.Module, n_features: int) -> Network:
    return SettingsStack([ConditionalClassifier(backbone, n_features, SPACE) for _ in range(4)])


@dataclass(frozen=True)
class Case:
    """One way to train, and how many loss evaluations a whole run makes."""

    backbone: Callable[[], nn.Module]
    n_features: int
    batches: Callable[[], Any]
    recipe: Recipe
    evaluations: int
    model: Callable[[nn.Module, int], Network] = single


def loader(**arguments: Any) -> DataLoader[Any]:
    return DataLoader(NoisyRows(*table()), batch_size=20, **arguments)


WARM = Cosine(warmup=1.5)
SPACE = VSLoss(beta=3.0).default_space()
CASES = {
    "dropout, warm-up and cosine, clipping": Case(
        lambda: MLP(5, (16, 8), dropout=0.3),
        8,
        lambda: ArrayBatches(*table(), 20),
        Recipe(4, optimizer=OptimizerConfig("adamw", 0.01, weight_decay=0.1), schedule=WARM, clip_norm=0.5),
        20,
    ),
    "images, augmentation, batch norm, SAM, EMA": Case(
        lambda: CifarResNet(8, 2),
        8,
        images,
        Recipe(
            3, optimizer=OptimizerConfig("sgd", 0.05, sam_rho=0.1), schedule=Steps(milestones=(1, 2)), ema_decay=0.9
        ),
        24,
    ),
    "batch norm, dropout, SAM around Adam, EMA, λ per sample": Case(
        normalised_mlp,
        12,
        lambda: ArrayBatches(*table(), 20),
        Recipe(
            3, optimizer=OptimizerConfig("adam", 0.01, sam_rho=0.05), schedule=WARM, ema_decay=0.95, lam_per="sample"
        ),
        30,
    ),
    "DataLoader with a generator of its own, EMA": Case(
        normalised_mlp,
        12,
        lambda: loader(shuffle=True, generator=torch.Generator()),
        Recipe(3, optimizer=OptimizerConfig("sgd", 0.05), schedule=WARM, ema_decay=0.9),
        15,
    ),
    "DataLoader without one, dropout": Case(
        lambda: MLP(5, (8,), dropout=0.3),
        8,
        lambda: loader(shuffle=True),
        Recipe(3, optimizer=OptimizerConfig("adam", 0.01), schedule=WARM),
        15,
    ),
    "DataLoader whose sampler has a generator": Case(
        lambda: MLP(5, (8,)),
        8,
        lambda: loader(sampler=RandomSampler(table()[1], generator=torch.Generator())),
        Recipe(3, optimizer=OptimizerConfig("adam", 0.01), schedule=WARM),
        15,
    ),
    "an ensemble: dropout, SAM, EMA, clipping, λ per sample": Case(
        lambda: MLP(5, (8,), dropout=0.3),
        8,
        lambda: ArrayBatches(*table(), 20, weight=torch.linspace(0, 2, 90)),
        Recipe(3, optimizer=OptimizerConfig("adam", 0.01, sam_rho=0.1), clip_norm=0.5, ema_decay=0.9, lam_per="sample"),
        30,
        ensemble,
    ),
    "a stack of settings: SAM, EMA, clipping": Case(
        nn.Identity,
        5,
        lambda: ArrayBatches(*table(), 20),
        Recipe(3, optimizer=OptimizerConfig("adam", 0.01, sam_rho=0.1), schedule=WARM, clip_norm=0.5, ema_decay=0.9),
        30,
        stack,
    ),
    "DataLoader with workers": Case(
        lambda: MLP(5, (8,)),
        8,
        lambda: loader(shuffle=True, num_workers=2),
        Recipe(2, optimizer=OptimizerConfig("adam", 0.01), schedule=WARM),
        10,
    ),
}


def digest(value: Any) -> str:
    """Of every bit of nested dicts, lists, tensors and numbers."""
    sha = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, Tensor):
            sha.update(value.detach().contiguous().numpy().tobytes())
        elif isinstance(value, dict):
            for key in sorted(value, key=str):
                sha.update(str(key).encode())
                add(value[key])
        elif isinstance(value, (list, tuple)):
            for item in value:
                add(item)
        else:
            sha.update(repr(value).encode())

    add(value)
    return sha.hexdigest()


def timeless(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def train(case: Case, run_dir: Path, deadline: int = -1, every: float = 0.0) -> dict[str, str]:
    """A digest of all that a run leaves behind."""
    torch.manual_seed(0)
    loss = DeadlyLoss(beta=3.0)
    loss.deadline = deadline
    model = case.model(case.backbone(), case.n_features)
    torch.manual_seed(os.getpid())  # nothing may depend on the state that fit finds

    def validate(current: Network) -> dict[str, float]:
        return {"norm": float(sum(p.detach().double().square().sum() for p in current.parameters()))}

    result = fit(
        model, loss, case.batches(), case.recipe, seed=3, validate=validate, run_dir=run_dir, checkpoint_seconds=every
    )
    last = torch.load(run_dir / "checkpoint.pt", weights_only=True)
    log = [json.loads(line) for line in (run_dir / "log.jsonl").read_text().splitlines()]
    return {
        "model": digest(model.state_dict()),
        "optimizer": digest(last["optimizer"]),
        "raw weights": digest(last["model"]),
        "ema": digest(last["ema"]),
        "history": digest(timeless(list(result.history))),
        "log": digest(timeless(log)),
    }


def in_child(function: Callable[[], Any], answer: Path) -> int:
    """Run in a forked child that leaves its answer in a file; the child's wait status.

    The workers of a DataLoader outlive a parent that was killed, now and then for good; they go with their group.
    """
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        status = 1
        try:
            answer.write_text(json.dumps(function()))
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return status


def kill_in_the_middle_of_a_checkpoint(after: int) -> None:
    """Die when the checkpoint's bytes are written, but not yet under its name."""
    fsync, calls = os.fsync, []

    def deadly(file: int) -> None:
        calls.append(file)
        if len(calls) == after:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(file)

    os.fsync = deadly


def standing(run_dir: Path) -> list[int] | None:
    """Epoch and batch of the checkpoint that a killed run left."""
    if not (run_dir / "checkpoint.pt").exists():
        return None
    found = torch.load(run_dir / "checkpoint.pt", weights_only=True)
    return [found["epoch"], found["batch"]]


def main(folder: Path) -> None:
    rng = random.Random(0)
    torch.set_num_threads(1)
    for number, (name, case) in enumerate(CASES.items()):
        base = folder / f"case-{number}"
        base.mkdir()
        status = in_child(lambda case=case, base=base: train(case, base / "whole", every=1e9), base / "whole.json")
        assert status == 0, name
        expected = json.loads((base / "whole.json").read_text())
        # At three random evaluations: of a run that saves after every step, now and then, never. And once while saving.
        steps = rng.sample(range(2, case.evaluations + 1), 3)
        for attempt, (deadline, every) in enumerate([*zip(steps, (0.0, 0.03, 1e9), strict=True), (-1, 0.0)]):
            run_dir, answer = base / f"run-{attempt}", base / f"run-{attempt}.json"

            def doomed(case=case, run_dir=run_dir, deadline=deadline, every=every):
                if deadline < 0:
                    kill_in_the_middle_of_a_checkpoint(after=4)
                return train(case, run_dir, deadline, every)

            status = in_child(doomed, answer)
            left = standing(run_dir)
            ended = in_child(lambda case=case, run_dir=run_dir: train(case, run_dir, every=1e9), answer)
            found = json.loads(answer.read_text()) if ended == 0 else {}
            line = {
                "case": name,
                "killed_at": deadline,
                "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
                "every": every,
                "left": left,
                "differs": sorted(key for key in expected if found.get(key) != expected[key]),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
