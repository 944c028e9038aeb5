"""A graph says what Python says: every backbone and head, at every point, λ, threshold and prevalence."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor, nn

from lossdial import Bundle, LCTClassifier, OnnxModel, to_onnx
from lossdial.base.errors import InputError
from lossdial.data.schema import ArraySchema, ImageSchema
from lossdial.dial.metrics.registry import sigmoid
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.export import ExportError, graph, model_card
from lossdial.export.comparison import check, made_up
from lossdial.models import MLP, CifarResNet, FixedFeatures, FrozenEncoder, PathConfig
from lossdial.models.heads import FiLMConfig, Head, PlainConfig, PolynomialConfig
from lossdial.spaces import Constant, Linear, Space
from tests.export.conftest import bundle_of, patients

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def agree(bundle: Bundle, model: OnnxModel, X: Any, some: int = 500) -> None:
    """Scores within 1e-4 at random λ; labels the same in every row at every point."""
    predictor, rng = bundle.predictor, np.random.default_rng(3)
    features = predictor.features(X)
    for point in bundle.points.values():
        here, there = predictor.decide(features, point), model.decide(X, point.name)
        assert_array_equal(there.label, np.array(predictor.classes)[here.positive.astype(int)], err_msg=point.name)
        assert_allclose(there.probability, here.probability, atol=1e-4, rtol=0, err_msg=point.name)
        assert 0 < here.positive.sum() < len(here.positive), "a point that flags all or none tests nothing"
    small = features[:some]
    for _ in range(50):
        lam = {n: float(np.float32(rng.uniform(*predictor.space.bounds(n)))) for n in predictor.space.free}
        here, there = predictor.margins(small, lam), model.decide(X[:some], lam=lam)
        assert_allclose(there.score, here, atol=1e-4, rtol=0)
        assert_allclose(there.probability, sigmoid(here.astype(np.float64)), atol=1e-4, rtol=0)


def centred(bundle: Bundle, X: Any) -> Bundle:
    """Thresholds in the middle of the scores of X, between two of them."""
    features = bundle.predictor.features(X)
    points = {}
    for name, point in bundle.points.items():
        score = np.sort(bundle.predictor.margins(features, point.lam).astype(np.float64))
        gaps = np.diff(score[len(score) // 3 : 2 * len(score) // 3])
        at = len(score) // 3 + int(np.argmax(gaps))
        points[name] = replace(point, threshold=float(score[at : at + 2].mean()))
    return replace(bundle, points=points)


def test_a_table_with_text_dates_and_gaps(table: LCTClassifier, exported: Path) -> None:
    agree(table.bundle_, OnnxModel(exported), patients(10_000, 7).drop(columns="state"))


class Counting(nn.Module):
    """A module that reads its number of rows as Python does."""

    def __init__(self) -> None:
        super().__init__()
        self.in_features = self.n_features = 4
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).view(len(x), 2, 2).flatten(1).tanh()


class Noisy(Counting):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.rand_like(x)


class Odd(Counting):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.bessel_j0(self.linear(x))


class Branching(Counting):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) if x.sum() > 0 else -self.linear(x)


def mlp() -> MLP:
    backbone = MLP(6, (16, 8))
    backbone.standardize.scale.fill_(0.2)
    return backbone


def path() -> Head:
    names, low, high = ("alpha", "phi", "ridge"), (0.1, 0.0, -3.0), (0.9, 2.0, 1.0)
    ridge, alpha, phi = (-3.0, -2.0, -1.0, 0.0, 1.0), (0.1, 0.5, 0.9), (0.0, 2.0)
    head = PathConfig(names=names, low=low, high=high, ridge=ridge, alpha=alpha, phi=phi, members=2).build(6, 3)
    nn.init.normal_(head.weights)
    nn.init.normal_(head.biases)
    return head


def of_timm() -> nn.Module:
    pytest.importorskip("timm", reason="the extra `vision` is not installed")
    from lossdial.models import TimmBackbone

    torch.manual_seed(0)
    return TimmBackbone("test_resnet.r160_in1k")


PATH_SPACE = Space(alpha=Linear(0.1, 0.9, 1.25), phi=Linear(0, 2, 0.5), ridge=Linear(-3, 1, 0.25))
NETWORKS: dict[str, Callable[[], Bundle]] = {
    "film, members": lambda: bundle_of(mlp(), FiLMConfig(members=3)),
    "film, width": lambda: bundle_of(mlp(), FiLMConfig(widths=(8,))),
    "film, widths and members": lambda: bundle_of(mlp(), FiLMConfig(widths=(8, 4), members=3)),
    "polynomial": lambda: bundle_of(mlp(), PolynomialConfig()),
    "polynomial, members": lambda: bundle_of(mlp(), PolynomialConfig(degree=3, members=2)),
    "plain, members": lambda: bundle_of(mlp(), PlainConfig(members=2)),
    "path": lambda: bundle_of(FixedFeatures(6), path(), ArraySchema((6,)), PATH_SPACE),
    "module of one's own": lambda: bundle_of(Counting()),
    "resnet": lambda: bundle_of(CifarResNet(8, 4), schema=ImageSchema(3, 8, 8)),
    "frozen": lambda: bundle_of(FrozenEncoder(CifarResNet(8, 4)), schema=ImageSchema(3, 8, 8, features=16)),
    "timm": lambda: bundle_of(of_timm(), schema=ImageSchema(3, 32, 32)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_and_head_gives_a_graph_that_agrees(name: str, tmp_path: Path) -> None:
    bundle = NETWORKS[name]()
    images = isinstance(bundle.predictor.schema, ImageSchema)
    X = made_up(bundle.predictor, 500 if images else 10_000, seed=5)
    bundle = centred(bundle, X)
    assert to_onnx(bundle, tmp_path / "m.onnx").check.batches == (1, 2, 1000)
    agree(bundle, OnnxModel(tmp_path / "m.onnx"), X, 50 if images else 500)


def test_an_exact_head_that_was_solved(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(900) < 0.2).astype(int)
    X = (rng.standard_normal((900, 8)) + 0.5 * y[:, None]).astype(np.float32)
    clf = LCTClassifier("vs", network="features", random_state=0).fit(X, y)
    clf.tune(maximize="f1", name="f1")
    to_onnx(clf.bundle_, tmp_path / "m.onnx")
    agree(clf.bundle_, OnnxModel(tmp_path / "m.onnx"), rng.standard_normal((10_000, 8)).astype(np.float32))


def test_a_model_of_one_loss_has_no_lambda(tmp_path: Path) -> None:
    bundle = bundle_of(MLP(4, (8,)), "plain", space=Space(gamma=Constant(0.1), tau=Constant(1.0)))
    made = to_onnx(bundle, tmp_path / "m.onnx")
    assert made.inputs == ("x", "point", "threshold", "prevalence")
    X = made_up(bundle.predictor, 50, seed=1)
    expected = bundle.predictor.decide(bundle.predictor.features(X), bundle.points["default"])
    assert_allclose(OnnxModel(tmp_path / "m.onnx").decide(X).score, expected.margin, atol=1e-5)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Noisy, "differs from Python at .*nothing was written"),
        (Odd, "the network Odd uses prims.bessel_j0, for which ONNX has no operator. Write that part .*serve"),
        (Branching, "the network Branching cannot be traced .*Write that part"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_a_line(network: type[nn.Module], message: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=message) as caught:
        to_onnx(bundle_of(network()), tmp_path / "m.onnx")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def raw(X: pd.DataFrame) -> dict[str, np.ndarray]:
    """What another language would give: its own numbers and texts, no encoder of ours."""
    since = pd.to_datetime(X["since"])
    return {
        "age": X["age"].to_numpy(np.float64),
        "town": X["town"].fillna("").to_numpy(object),
        "dose": X["dose"].to_numpy(np.float64),
        "since": np.array([np.nan if pd.isna(t) else t.timestamp() for t in since]),
        "price": X["price"].str.strip("$").to_numpy(np.float64),
        "smokes": X["smokes"].to_numpy(np.float64),
        "column.score": X["score"].to_numpy(np.float64),
    }


def test_raw_columns_and_defaults_in_onnxruntime_alone(table: LCTClassifier, exported: Path) -> None:
    session = onnxruntime.InferenceSession(exported)
    X = patients(400, 5).drop(columns="state")
    X.loc[:3, "town"] = "Atlantis"
    label, probability = session.run(["label", "probability"], raw(X))
    assert_array_equal(label, table.predict(X))
    assert_allclose(probability, table.predict_proba(X)[:, 0], atol=1e-6)
    for name, point in table.points.items():
        feed = raw(X) | {"point": np.array([name], dtype=object)}
        label, probability = session.run(["label", "probability"], feed)
        assert_array_equal(label, table.predict(X, point=name))
        assert_allclose(probability, table.predict_proba(X, point=name)[:, 0], atol=1e-6)
        (moved,) = session.run(["probability"], feed | {"prevalence": np.array([0.3])})
        margin = point.margin(table.decision_function(X, lam=point.lam) * -1) - point.shift
        known = log_odds(point.n_positive / (point.n_positive + point.n_negative))
        if point.prevalence is not None:
            known = log_odds(point.prevalence) - point.shift
        assert_allclose(moved, sigmoid(margin + log_odds(0.3) - known), atol=1e-6)
    one = {key: value[:1] for key, value in raw(X).items()}
    assert_array_equal(session.run(["label"], one)[0], table.predict(X[:1]))


def test_lambda_and_threshold_by_hand(table: LCTClassifier, exported: Path) -> None:
    session, X = onnxruntime.InferenceSession(exported), patients(300, 5).drop(columns="state")
    lam = {"gamma": 0.05, "tau": 2.5}
    feed = raw(X) | {f"lam.{name}": np.array([value], np.float32) for name, value in lam.items()}
    label, probability, score = session.run(None, feed | {"threshold": np.array([0.7])})
    margin = -table.decision_function(X, lam=lam)  # classes_ are sorted, and 'ill' comes first
    assert_allclose(score, margin, atol=1e-5)
    assert_allclose(probability, table.predict_proba(X, lam=lam)[:, 0], atol=1e-6)
    assert_array_equal(label == "ill", margin > 0.7)
    label, moved = session.run(["label", "probability"], feed | {"prevalence": np.array([0.02])})
    assert_array_equal(label == "ill", margin > 0)
    shift = log_odds(0.02) - log_odds(table.bundle_.training.prevalence)
    assert_allclose(moved, sigmoid(margin.astype(np.float64) + shift), atol=1e-6)


def test_what_no_point_can_answer_has_no_score(exported: Path) -> None:
    session, X = onnxruntime.InferenceSession(exported), raw(patients(3, 5).drop(columns="state"))
    X["age"] = np.array([50.0, np.inf, 40.0])
    assert np.isnan(session.run(["score"], X)[0]).tolist() == [False, True, False]
    assert (session.run(["label"], X)[0] == "").tolist() == [False, True, False]
    label, score = session.run(["label", "score"], X | {"point": np.array(["nowhere"], dtype=object)})
    assert np.isnan(score).all()
    assert label.tolist() == ["", "", ""]


@pytest.mark.parametrize(
    ("classes", "nothing"),
    [((0, 1), -1), ((-1, 1), np.iinfo(np.int64).min), ((0.5, 1.5), np.nan), (("", "ill"), "no answer")],
)
@pytest.mark.parametrize("space", [Space(tau=Linear(0, 3, 1 / 3)), Space(tau=Constant(1.0))])
def test_an_unknown_point_has_no_label(classes: tuple[Any, Any], nothing: Any, space: Space, tmp_path: Path) -> None:
    bundle = bundle_of(MLP(5, (8,)), space=space)
    bundle = replace(bundle, predictor=replace(bundle.predictor, classes=classes))
    to_onnx(bundle, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    feed = {"x": np.zeros((3, 5), np.float32), "point": np.array(["nowhere"], dtype=object)}
    for more in ({}, {"threshold": np.array([0.0])}):
        label, probability = session.run(["label", "probability"], feed | more)
        assert_array_equal(label, [nothing] * 3)
        assert np.isnan(probability).all()


def test_bands_are_told_and_answered_beside_the_graph(table: LCTClassifier, tmp_path: Path) -> None:
    val = patients(1500, 1)
    dial = table.dial(val.drop(columns="state"), val["state"])
    band = dial.refer(npv=0.97, precision=0.8, prevalence=0.2, name="triage")
    bundle = table.bundle_.with_point(band)
    with pytest.warns(UserWarning, match=r"no answer by a referral band: triage\."):
        to_onnx(bundle, tmp_path / "m.onnx")
    model, X = OnnxModel(tmp_path / "m.onnx"), patients(400, 6).drop(columns="state")
    expected = bundle.predictor.decide(bundle.predictor.features(X), band).action
    assert len(set(expected)) == 3
    assert_array_equal(model.refer(X, "triage"), expected)
    assert model.points["triage"] == band
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (label,) = session.run(["label"], raw(X) | {"point": np.array(["triage"], dtype=object)})
    assert set(label) == {""}
    for ask, message in (
        (lambda: model.decide(X, "triage"), r"Use refer\(X, 'triage'"),
        (lambda: model.refer(X, "triag"), "did you mean 'triage'"),
        (lambda: to_onnx(bundle, tmp_path / "n.onnx", point="triage"), "no graph answers"),
    ):
        with pytest.raises(InputError, match=message):
            ask()
    card = model_card(bundle, onnx="m.onnx")
    for part in ("### triage", band.description, f"thresholds on the score: {band.spelled_threshold}", "| referred |"):
        assert part in card


def test_metadata_has_points_certificates_and_digests(table: LCTClassifier, exported: Path) -> None:
    metadata = onnxruntime.InferenceSession(exported).get_modelmeta().custom_metadata_map
    points = json.loads(metadata["lossdial.points"])
    assert points == {name: json.loads(json.dumps(p.to_json())) for name, p in table.points.items()}
    assert points["sure"]["certificate"] is not None
    table.bundle_.save(exported.parent / "run", replace=True)
    kept = json.loads((exported.parent / "run" / "bundle.json").read_text())
    for name in ("evidence", "weights"):
        assert metadata[f"lossdial.{name}_sha256"] == kept[name]["sha256"]
    columns = {c["input"]: c for c in json.loads(metadata["lossdial.columns"])}
    assert columns["column.score"]["column"] == "score"
    town = {"input": "town", "column": "town", "type": "string", "gap": "", "holds": "text; '' is a gap"}
    assert columns["town"] == town


def test_the_chosen_point_is_the_default(table: LCTClassifier, tmp_path: Path) -> None:
    to_onnx(table.bundle_, tmp_path / "m.onnx", point="clinic", rows=patients(50, 3).drop(columns="state"))
    X, model = patients(200, 6).drop(columns="state"), OnnxModel(tmp_path / "m.onnx")
    assert model.default == "clinic"
    assert_array_equal(model.decide(X).label, table.predict(X, point="clinic"))


def test_a_tampered_graph_is_found_out(table: LCTClassifier, exported: Path) -> None:
    model = onnx.load(exported)
    weight = next(w for w in model.graph.initializer if w.name.startswith("network.") and len(w.dims) == 2)
    array = onnx.numpy_helper.to_array(weight).copy()
    array[0] += 0.01
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    with pytest.raises(ExportError, match="the graph differs from Python at point 'default': scores by up to"):
        check(table.bundle_, model.SerializeToString())


def test_mistakes_are_told_before_any_work(table: LCTClassifier, tmp_path: Path, monkeypatch) -> None:
    for path, options, argument in (("m.onnx", {"point": "klinic"}, "point"), ("m.bin", {}, "onnx")):
        with pytest.raises(InputError) as raised:
            to_onnx(table.bundle_, tmp_path / path, **options)
        assert raised.value.argument == argument
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.onnx").mkdir()
    for path in ("folder.onnx", "file/deep/m.onnx"):
        with pytest.raises(OSError, match="written"):
            to_onnx(table.bundle_, tmp_path / path)
    monkeypatch.setattr(graph, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(ModuleNotFoundError, match=r"this needs onnxscript: pip install 'lossdial\[onnx\]'"):
        to_onnx(table.bundle_, tmp_path / "m.onnx")
