"""Reasons add up to the score, belong to raw columns, and follow a known law; importances drop where they must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import average_precision_score

from lossdial import FiLMConfig, LCTClassifier, Recipe
from lossdial.base.errors import InputError
from lossdial.bundle import Explanation, explanation
from lossdial.bundle.explanation import permutation_importances
from lossdial.models import CifarResNet, FeaturesConfig, TableConfig
from tests.test_faces_of_a_model import rows

SMALL = TableConfig(boosted=20, forest=10)
EFFECTS = {"strong": 2.0, "less": -1.0, "weak": 0.5, "none": 0.0}


def law(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose log-odds are 2 strong − less + weak / 2 − 2."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, len(EFFECTS))), columns=[*EFFECTS])
    return X, (rng.random(n) < 1 / (1 + np.exp(2 - X.to_numpy() @ [*EFFECTS.values()]))).astype(int)


def real(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    table = np.load(folder / "tables" / "wilt.npz")
    return table["X"][::3], table["y"][::3]


def mixed() -> tuple[pd.DataFrame, np.ndarray]:
    frame = rows(900, 0)
    return frame.drop(columns="state"), frame["state"].to_numpy()


@pytest.mark.filterwarnings("ignore:(1 column.* into numbers|only .* positives to tune on).*:UserWarning")
@pytest.mark.parametrize("source", ["real", "mixed"])
@pytest.mark.parametrize(
    "settings",
    [{"network": SMALL}, {"network": "features"}, {"network": "features", "head": "film", "recipe": Recipe(2)}],
    ids=["table", "features", "trained head"],
)
def test_contributions_and_base_sum_up_to_the_margin(source: str, settings: dict[str, Any], request) -> None:
    X, y = real(request.getfixturevalue("data_dir")) if source == "real" else mixed()
    clf = LCTClassifier(**settings, random_state=0).fit(X, y)
    clf.adapt(prevalence=0.01, cost_fn=100.0, cost_fp=1.0, name="clinic")
    for point in ("default", "clinic"):
        reasons = clf.explain(X, point)
        assert_array_equal(reasons.margin, clf.margin(X, point))
        assert_allclose(reasons.base + reasons.contributions.sum(1), reasons.margin, rtol=1e-6)
    names = [*X.columns] if source == "mixed" else [f"x{i}" for i in range(X.shape[1])]
    assert list(reasons.columns) == names
    predictor = clf.bundle_.predictor  # what the sums get from rounding alone is small before it is shared out
    weight = predictor._head.fold(predictor.fold(clf.points["clinic"].lam).codes)[0][0, 0].detach()
    encoded = torch.from_numpy(predictor.schema.encode(X))
    each, _ = predictor.model.backbone.contributions(encoded, weight)
    scale = 1e-6 * (abs(reasons.base) + each.abs().sum(1).numpy())
    assert (np.abs(each.sum(1).numpy() - reasons.contributions.sum(1)) <= scale).all()


@pytest.mark.filterwarnings("ignore:1 column.* into numbers:UserWarning")
def test_a_linear_model_is_explained_exactly_and_categories_sum_to_their_column() -> None:
    X, y = mixed()
    clf = LCTClassifier(network="features").fit(X, y)
    predictor, lam = clf.bundle_.predictor, clf.points["default"].lam
    features = predictor.features(X).numpy().astype(np.float64)
    weight, bias = predictor.model.double().fold(predictor.lam(lam)[None])
    added = features * weight[0, 0].detach().numpy()
    encoded = pd.Index(predictor.schema.encoder.get_feature_names_out()).str.partition("=").get_level_values(0)
    expected = pd.DataFrame(added.T, index=encoded).groupby(level=0, sort=False).sum().T
    reasons = clf.explain(X)
    assert list(reasons.columns) == list(expected.columns)
    assert {"town", "since", "note"} <= {name for name in encoded if (encoded == name).sum() > 1}
    assert_allclose(reasons.contributions, expected.to_numpy(), rtol=1e-4, atol=1e-5)
    assert reasons.base == pytest.approx(float(bias[0, 0]), rel=1e-5)


@pytest.mark.parametrize("network", [SMALL, "features"], ids=["table", "features"])
def test_a_known_law_is_found(network: Any) -> None:
    clf = LCTClassifier(network=network, random_state=0).fit(*law(3000, 0))
    X, y = law(2000, 1)
    reasons = clf.explain(X)
    assert [reasons.columns[i] for i in reasons.order] == [*EFFECTS]
    assert reasons.share.sum() == pytest.approx(1)
    signs = [np.sign(np.corrcoef(X[name], reasons.contributions[:, i])[0, 1]) for i, name in enumerate(X)]
    assert signs[:3] == [1, -1, 1]
    whole, drops = permutation_importances(clf.bundle_.predictor, X, y, clf.points["default"].lam)
    assert whole == pytest.approx(average_precision_score(y, clf.margin(X)))
    assert drops.shape == (5, 4)
    assert (np.diff(drops.mean(0)) < 0).all()
    assert abs(drops[:, 3]).max() < 0.02


def test_importances_of_many_rows_are_those_of_a_sample_that_counts_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    clf = LCTClassifier(network="features").fit(*law(3000, 0))
    X, y = law(20_000, 1)
    asked = clf.bundle_.predictor, X, y, clf.points["default"].lam
    monkeypatch.setattr(explanation, "_ROWS", 20_000)
    whole, drops = permutation_importances(*asked)
    monkeypatch.setattr(explanation, "_ROWS", 4000)
    sampled, few = permutation_importances(*asked)
    assert sampled != whole
    assert sampled == pytest.approx(whole, abs=0.03)  # its deviation is some .008
    assert_allclose(few.mean(0), drops.mean(0), atol=0.03)


def test_text_shows_a_row_or_a_summary() -> None:
    columns = tuple("abcdefghijkl")
    each = np.array([[3.0, -1.0, *[0.125] * 10], [1.0, 0.0, *[0.125] * 10]])
    reasons = Explanation(columns, each, -2.0, np.array([1.25, 0.25], np.float32))
    lines = str(reasons[0]).splitlines()
    assert lines[0] == "score +1.250 = base -2.000 and, of each column:"
    assert lines[1].split() == ["+3.000", "a", "+" * 24]
    assert lines[2].split() == ["-1.000", "b", "-" * 8]
    assert lines[-1].split() == ["+0.250", "2", "other", "columns", "together"]
    summary = str(reasons).splitlines()
    assert summary[0].startswith("2 rows; the mean absolute contribution")
    assert summary[1].split()[:3] == ["2.000", "53%", "a"]
    assert len(reasons[1:]) == 1
    assert str(reasons[-1]) == str(reasons[1])


@pytest.mark.filterwarnings("ignore:.* held-out images are exact copies:UserWarning")
@pytest.mark.parametrize(
    "classifier",
    [
        LCTClassifier(network="mlp", recipe=Recipe(1)),
        LCTClassifier(network=FeaturesConfig(), head=FiLMConfig(members=3), recipe=Recipe(1)),
        LCTClassifier(network=FeaturesConfig(), head=FiLMConfig(widths=(8,)), recipe=Recipe(1)),
        LCTClassifier(network=CifarResNet(8, 4), recipe=Recipe(1)),
    ],
    ids=["network", "members", "hidden layers", "images"],
)
def test_other_models_are_refused_in_a_line(classifier: LCTClassifier) -> None:
    X, y = law(200, 0)
    if isinstance(classifier.network, CifarResNet):
        X = np.zeros((200, 3, 16, 16), np.float32)
    fitted = classifier.set_params(random_state=0).fit(X, y)
    with pytest.raises(InputError, match="is no sum over columns and cannot be explained; that of the default for"):
        fitted.explain(X)
    with pytest.raises(InputError, match=r"point must name an operating point.*got 'clinc'"):
        fitted.explain(X, "clinc")
