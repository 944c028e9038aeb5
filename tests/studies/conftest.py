"""Results as a sweep would leave them, with made-up figures."""

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from lossdial.data.embedding import embed
from lossdial.dial.metrics.registry import PAPER_METRICS
from lossdial.models import CifarResNet, FrozenEncoder
from lossdial_studies.data_sets.cifar import CIFAR10
from lossdial_studies.experiment import Experiment, grid, spread_settings
from lossdial_studies.features import LABELS, identified
from lossdial_studies.methods import METHODS, method
from lossdial_studies.store import Store

MakeResults = Callable[..., pd.DataFrame]


@pytest.fixture
def make_results() -> MakeResults:
    """``make_results(methods=..., data=[(name, β), ...], seeds=..., settings=...)``: one row per run and λ."""

    def make(
        methods: Sequence[str] = tuple(METHODS),
        data: Sequence[tuple[str, float]] = (("cifar10-auto-truck", 100.0),),
        seeds: Sequence[int] = (0, 1, 2),
        settings: Sequence[int] = (0, 5, 10),
        preset: str = "frozen",
        epochs: int = 30,
        seed: int = 0,
    ) -> pd.DataFrame:
        generator = np.random.default_rng(seed)
        rows = []
        for name, beta in data:
            for m in methods:
                spaces = method(m).spaces()
                for setting in settings:
                    lams = method(m).evaluation(spaces[setting])
                    for k in seeds:
                        run = {"key": f"{name}-{beta:g}-{m}-{setting}-{k}", "data": name, "beta": beta}
                        run |= {"preset": preset, "method": m, "setting": setting, "seed": k, "epochs": epochs}
                        rows += [run | _lam(lams[i].as_dict()) for i in range(len(lams))]
        frame = pd.DataFrame(rows)
        figures = {}
        for metric in PAPER_METRICS:
            halves = generator.uniform(0.5, 1, (2, len(frame)))
            figures[metric] = halves.mean(axis=0) + generator.normal(0, 0.01, len(frame))
            for k in (0, 1):
                figures[f"{metric}_on_{k}"] = halves[k]
                # A threshold from the other half costs something, where there is a threshold.
                free = metric in ("auc", "average_precision", "brier")
                loss = 0.0 if free else generator.uniform(0, 0.05, len(frame))
                figures[f"{metric}_from_{k}"] = halves[1 - k] - loss
        return pd.concat([frame, pd.DataFrame(figures)], axis=1)

    return make


@pytest.fixture
def results(make_results: MakeResults) -> pd.DataFrame:
    """The six methods on two data sets, one of them at two β."""
    return make_results(data=[("aptos", 200.0), ("cifar10-auto-truck", 100.0), ("aptos", 100.0)])


def _lam(lam: dict[str, float]) -> dict[str, float]:
    return {name: lam.get(name, np.nan) for name in ("gamma", "tau", "alpha", "phi", "ridge")}


@dataclass(frozen=True)
class Small:
    """Features of 220 + 100 made-up images under the name of a real data set, and a grid of runs on them."""

    features: Path

    def experiments(
        self,
        methods: tuple[str, ...] = ("vs", "vs+lct", "vs+sam+lct"),
        seeds: int = 2,
        settings: int = 4,
        epochs: int = 3,
        rates: Sequence[float] = (1e-3,),
    ) -> tuple[Experiment, ...]:
        cells = (("cifar10-auto-truck", 20.0),)
        runs = grid(cells, "frozen", methods, spread_settings(settings), range(seeds), epochs, rates)
        return identified(runs, self.features)


@pytest.fixture(scope="session")
def timeless() -> Callable[[Store], set[str]]:
    """Every row of a store without the time it took."""

    def rows(store: Store) -> set[str]:
        return {json.dumps({k: v for k, v in row.items() if k not in ("seconds", "processor")}) for row in store.rows()}

    return rows


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    folder = tmp_path_factory.mktemp("features")
    rng = np.random.default_rng(0)
    y_train, y_test = np.repeat([0, 1], [200, 40]), np.repeat([0, 1], [50, 50])
    y = np.concatenate([y_train, y_test])
    images = rng.integers(0, 150, (len(y), 3, 8, 8), dtype=np.uint8) + (60 * y[:, None, None, None]).astype(np.uint8)
    torch.manual_seed(0)
    embed(FrozenEncoder(CifarResNet(8, 3)), images, folder / "cifar10-auto-truck")
    groups = np.array([f"group {i // 2}" for i in range(len(y_test))])
    np.savez(folder / "cifar10-auto-truck" / LABELS, y_train=y_train, y_test=y_test, groups_test=groups)
    return Small(folder)


@pytest.fixture(scope="session")
def write_cifar() -> Callable[[Path], None]:
    """A small archive in the official form: 100 automobiles and 20 trucks to train on, 30 of each to test."""

    def write(root: Path) -> None:
        rng = np.random.default_rng(0)
        (root / CIFAR10.folder).mkdir(parents=True)
        for file in (*CIFAR10.train, CIFAR10.test):
            labels = np.repeat([1, 9], [30, 30] if file == CIFAR10.test else [20, 4])
            images = rng.integers(0, 120, (len(labels), 3072), dtype=np.uint8) + (labels[:, None] == 9) * np.uint8(90)
            batch = {b"labels": labels.tolist(), b"data": images.astype(np.uint8)}
            (root / CIFAR10.folder / file).write_bytes(pickle.dumps(batch, protocol=2))

    return write
