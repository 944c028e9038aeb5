"""A table with text, booleans, dates and gaps, and a model of it with several operating points."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from lossdial import Bundle, LCTClassifier, Recipe
from lossdial.bundle import Training
from lossdial.bundle.predictor import Predictor
from lossdial.data.schema import ArraySchema, Schema
from lossdial.dial import OperatingPoint
from lossdial.dial.calibration import Beta, Calibration, Isotonic, Platt, Temperature
from lossdial.models import ConditionalClassifier
from lossdial.models.heads import Head, HeadConfig
from lossdial.spaces import Linear, Space

pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")

SPACE = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 1 / 3))
CALIBRATIONS: tuple[Calibration | None, ...] = (
    None,
    Temperature(1.7),
    Platt(0.8, -1.1),
    Beta(0.7, 1.2, -0.4),
    Isotonic((-2.0, -0.5, -0.5, 0.3, 1.0), (0.02, 0.1, 0.2, 0.2, 0.9)),
)


def patients(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.2
    since = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 90, n), "D")
    frame = pd.DataFrame(
        {
            "age": (rng.normal(50, 9, n) + 8 * ill).round(2),
            "town": pd.Series(np.where(rng.random(n) + 0.3 * ill > 0.6, "Ulm", "Bern"), dtype=object),
            "dose": (rng.random(n) + ill).round(3),
            "since": since.strftime("%Y-%m-%d"),
            "price": [f"${x:.2f}" for x in rng.random(n) * 10],
            "smokes": rng.random(n) < 0.3 + 0.2 * ill,
            "score": rng.normal(size=n),
            "state": np.where(ill, "ill", "well"),
        }
    )
    for name in ("town", "dose", "since"):
        frame.loc[rng.random(n) < 0.05, name] = None
    return frame


@pytest.fixture(scope="session")
def table() -> LCTClassifier:
    warnings.simplefilter("ignore", UserWarning)  # pytest puts the filters back
    train, val = patients(900, 0), patients(1500, 1)
    clf = LCTClassifier(recipe=Recipe(4), random_state=0).fit(train.drop(columns="state"), train["state"])
    X, y = val.drop(columns="state"), val["state"]
    clf.tune(X, y, maximize="precision", subject_to={"recall": 0.8})
    clf.tune(X, y, maximize="specificity", subject_to={"recall": 0.7}, confidence=0.9, name="sure")
    clf.tune(X, y, maximize="f1", calibration="isotonic", name="steps")
    clf.adapt(X, y, prevalence=0.01, cost_fn=100, cost_fp=1, name="clinic")
    return clf


@pytest.fixture(scope="session")
def exported(table: LCTClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from lossdial import to_onnx

    path = tmp_path_factory.mktemp("onnx") / "new folder" / "model.onnx"
    to_onnx(table.bundle_, path)
    return path


def bundle_of(
    backbone: nn.Module, head: Head | HeadConfig | str | None = None, schema: Schema | None = None, space: Space = SPACE
) -> Bundle:
    """A bundle around a network that nobody trained, with a point for each kind of calibration."""
    torch.manual_seed(0)
    model = ConditionalClassifier(backbone, int(backbone.n_features), space, head).eval()  # type: ignore[arg-type]
    schema = schema or ArraySchema((int(backbone.in_features),))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    points = {}
    for i, calibration in enumerate(CALIBRATIONS):
        lam = {n: float(np.float32(rng.uniform(*space.bounds(n)))) for n in space.names}
        name = "default" if i == 0 else f"point {i}"
        points[name] = OperatingPoint(name, lam, 0.02 * i, "made up", {}, 40, 360, calibration=calibration)
    training = Training({"name": "vs", "beta": 9.0}, 0.1, 0.0, 0, (), {})
    return Bundle(Predictor(schema, model, (0, 1)), training, points)
