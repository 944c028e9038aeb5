"""Exported graphs against Python, at the size that counts: 10,000 rows at every point, 50 random λ, five models.

    python benchmarks/exported.py

A table with text, gaps and dates (MLP), an MLP on numbers, a solved path, a CIFAR ResNet and a network of timm (random
weights where a training would change nothing). Of each: the greatest difference of scores over 50 λ, the labels that
differ at any named point, and seconds for the rows in Python (torch, with features and head) and in onnxruntime, both
on one thread. Exits with 1 where scores differ by more than 1e-4, or a label does. Some minutes on one core.
"""

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from lossdial import Bundle, LCTClassifier, OnnxModel, Predictor, Recipe, to_onnx
from lossdial.bundle import Training
from lossdial.data.schema import ArraySchema, ImageSchema, Schema
from lossdial.dial import OperatingPoint
from lossdial.export.comparison import made_up
from lossdial.losses import VSLoss
from lossdial.models import MLP, CifarResNet, ConditionalClassifier, TimmBackbone

BAR = 1e-4


@dataclass(frozen=True)
class Row:
    """What one model showed."""

    name: str
    rows: int
    points: int
    apart: float
    labels: int
    python: float
    onnx: float

    @property
    def passed(self) -> bool:
        return self.apart <= BAR and self.labels == 0


def table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.1
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 9, n) + 8 * ill,
            "town": rng.choice(["Ulm", "Bern", "Graz", "Linz"], n),
            "dose": rng.random(n) + ill,
            "since": pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 90, n), "D"),
            "smokes": rng.random(n) < 0.3 + 0.2 * ill,
        }
    )
    for name in ("town", "dose", "since"):
        frame.loc[rng.random(n) < 0.05, name] = None
    return frame.assign(ill=ill)


def trained_table() -> Bundle:
    frame = table(4000, 0)
    clf = LCTClassifier(recipe=Recipe(4), random_state=0).fit(frame.drop(columns="ill"), frame["ill"])
    clf.tune(maximize="f1")
    clf.tune(maximize="precision", subject_to={"recall": 0.8}, name="recall", calibration="isotonic")
    clf.adapt(prevalence=0.01, cost_fn=100, cost_fp=1, name="clinic")
    return clf.bundle_


def solved() -> Bundle:
    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.1
    X = (rng.standard_normal((3000, 64)) + 0.3 * y[:, None]).astype(np.float32)
    clf = LCTClassifier("focal", network="features", random_state=0).fit(X, y)
    clf.tune(maximize="f1")
    return clf.bundle_


def untrained(backbone: torch.nn.Module, schema: Schema) -> Bundle:
    """Random weights, and three points whose thresholds lie where scores are densest."""
    space = VSLoss(9.0).default_space()
    model = ConditionalClassifier(backbone, int(backbone.n_features), space).eval()
    predictor = Predictor(schema, model, (0, 1))
    features = predictor.features(made_up(predictor, 200, seed=1))
    points = {}
    for name, tau in (("default", 0.0), ("b", 1.25), ("c", 3.0)):
        lam = {"gamma": 0.1, "tau": tau}
        middle = float(np.median(predictor.margins(features, lam).astype(np.float64)))
        points[name] = OperatingPoint(name, lam, middle, "the median", {}, 20, 180)
    return Bundle(predictor, Training({"name": "vs", "beta": 9.0}, 0.1, 0.0, 0, (), {}), points)


def timm() -> Bundle:
    return untrained(TimmBackbone("test_resnet.r160_in1k"), ImageSchema(3, 32, 32))


MODELS: dict[str, Callable[[], Bundle]] = {
    "table with text, MLP": trained_table,
    "MLP": lambda: untrained(MLP(32), ArraySchema((32,))),
    "exact head": solved,
    "CIFAR ResNet": lambda: untrained(CifarResNet(8, 16), ImageSchema(3, 32, 32)),
    "timm": timm,
}


def measure(name: str, n: int, lams: int, batch: int = 500) -> Row:
    """Both of them on the same raw rows, batch by batch."""
    torch.manual_seed(0)
    bundle = MODELS[name]()
    predictor, rng = bundle.predictor, np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as folder:
        to_onnx(bundle, Path(folder) / "model.onnx")
        model = OnnxModel(Path(folder) / "model.onnx", threads=1)
    space = predictor.space
    drawn = [{key: float(np.float32(rng.uniform(*space.bounds(key)))) for key in space.free} for _ in range(lams)]
    row = Row(name, n, len(bundle.points), 0.0, 0, 0.0, 0.0)
    for start in range(0, n, batch):
        X = made_up(predictor, min(batch, n - start), seed=100 + start)
        for point in bundle.points.values():
            began = time.perf_counter()
            here = predictor.decide(predictor.features(X), point)
            between = time.perf_counter()
            there = model.decide(X, point.name)
            ended = time.perf_counter()
            labels = np.array(predictor.classes)[here.positive.astype(int)]
            apart = float(np.abs(there.score - here.margin).max())
            row = replace(
                row,
                apart=max(row.apart, apart),
                labels=row.labels + int((labels != there.label).sum()),
                python=row.python + between - began,
                onnx=row.onnx + ended - between,
            )
        if start == 0:
            some = X[:50]
            features = predictor.features(some)
            for lam in drawn:
                apart = float(np.abs(model.decide(some, lam=lam).score - predictor.margins(features, lam)).max())
                row = replace(row, apart=max(row.apart, apart))
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--lams", type=int, default=50)
    parser.add_argument("--only", choices=list(MODELS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    passed = True
    print("| model | rows × points | scores apart, at most | labels that differ | Python s | onnxruntime s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in [given.only] if given.only else MODELS:
        try:
            row = measure(name, given.rows, given.lams)
        except ImportError as error:  # the extra `vision` is optional
            print(f"| {name} | skipped: {error} | | | | |", flush=True)
            continue
        print(
            f"| {row.name} | {row.rows:,} × {row.points} | {row.apart:.1e} | {row.labels} | {row.python:.2f} | "
            f"{row.onnx:.2f} |",
            flush=True,
        )
        passed &= row.passed
    print("bars met: scores within 1e-4, every label the same" if passed else "MISSED", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
