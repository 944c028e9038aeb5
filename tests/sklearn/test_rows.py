"""Frames of other libraries, sparse matrices, labels in a column or as text; and which of the rows are held out."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from lightgbm import LGBMClassifier
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import nn

from lossdial import Dial, DialedClassifier, LCTClassifier, Recipe
from lossdial.data import schema

N = 300
rng = np.random.default_rng(0)
TOWNS = rng.choice(["Ulm", "Bern", "Genf"], N)
FRAME = pd.DataFrame(
    {
        "age": rng.integers(20, 80, N).astype(float),
        "town": pd.Series(TOWNS).where(rng.random(N) > 0.1),
        "kind": pd.Categorical(rng.choice(["a", "b"], N)),
        "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, N), unit="D"),
    }
)
FRAME.loc[::9, "age"] = np.nan
NUMBERS = pd.DataFrame({"age": FRAME["age"].fillna(50), "ulm": (TOWNS == "Ulm").astype(int)})
ILL = NUMBERS["age"] + 30 * NUMBERS["ulm"] + rng.normal(0, 9, N) > 85
LABELS = np.where(ILL, "ill", "well")


def small() -> LCTClassifier:
    return LCTClassifier(recipe=Recipe(epochs=1), random_state=0)


def polars(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("polars", reason="polars is not installed").from_pandas(frame)


def lazy(frame: pd.DataFrame) -> Any:
    return polars(frame).lazy()


MODELS = {
    "LCT": (small, FRAME),
    "LightGBM": (lambda: DialedClassifier(LGBMClassifier(n_estimators=5, verbose=-1)), NUMBERS),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("convert", [polars, lazy, pa.Table.from_pandas])
@pytest.mark.parametrize("name", MODELS)
def test_a_frame_of_another_library_is_one_of_pandas(name: str, convert: Any) -> None:
    make, frame = MODELS[name]
    expected, other = make().fit(frame, LABELS), make().fit(convert(frame), LABELS)
    assert expected.tune(maximize="f1") == other.tune(maximize="f1")
    X, y = convert(frame), convert(pd.DataFrame({"target": LABELS}))
    assert_array_equal(expected.predict_proba(frame), expected.predict_proba(X))
    assert_array_equal(expected.predict(frame), other.predict(X))
    assert other.dial(X, y).tune(maximize="f1") == expected.dial(frame, LABELS).tune(maximize="f1")
    if name == "LCT":
        assert_array_equal(other.bundle_.predictor.features(X), expected.bundle_.predictor.features(frame))


@pytest.mark.parametrize("name", MODELS)
def test_labels_in_a_column_are_taken_flat_with_scikit_learns_warning(name: str) -> None:
    make, frame = MODELS[name]
    column = pd.DataFrame({"target": LABELS})
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed") as caught:
        clf = make().fit(frame, column)
    assert {w.filename for w in caught if w.category is DataConversionWarning} == {__file__}
    assert_array_equal(clf.predict_proba(frame), make().fit(frame, LABELS).predict_proba(frame))
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        clf.tune(frame, column, maximize="f1")
    with pytest.warns(UserWarning, match="A column-vector y was passed"):
        Dial.of(LogisticRegression().fit(NUMBERS, LABELS), NUMBERS, column)
    if name == "LCT":
        assert clf.bundle_.training.target == "target"


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_a_sparse_matrix_is_an_array(kind: Any) -> None:
    X = NUMBERS.to_numpy(dtype=np.float32)
    for make in (small, lambda: DialedClassifier(LogisticRegression())):
        clf = make().fit(kind(X), LABELS)
        np.testing.assert_allclose(clf.predict_proba(kind(X)), make().fit(X, LABELS).predict_proba(X), rtol=1e-4)


def test_a_sparse_matrix_that_does_not_fit_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "machine_memory", lambda: 16e9)
    huge = sparse.csr_matrix((1_000_000, 30_000))
    with pytest.raises(ValueError, match=r"shape \(1000000, 30000\).* takes 120.0 GB, more than half of the 16.0 GB"):
        small().fit(huge, np.arange(1_000_000) % 2)


def test_a_list_in_a_cell_is_named() -> None:
    wrong = {r"a list in row 8; got \[1, 2\]": [1, 2], "a dict in row 8": {"a": 1}, "a ndarray": np.ones(2)}
    for told, cell in wrong.items():
        cells = pd.Series([None] * 7 + [cell] + [None] * (N - 8), dtype=object)
        with pytest.raises(
            ValueError, match=rf"column 'tags' holds {told}.*give each of its values a column of its own"
        ):
            small().fit(FRAME.assign(tags=cells), LABELS)
    clf = small().fit(FRAME.assign(tags=LABELS), LABELS)
    with pytest.raises(ValueError, match="column 'tags' holds a list in row 1"):
        clf.predict(FRAME.assign(tags=[[1]] * N))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("labels", [("well", "ill"), ("a", "b"), (-1, 1), (2, 1)])  # the rare one second
def test_labels_that_the_classifier_does_not_take_are_coded_for_it(labels: tuple[Any, Any]) -> None:
    inner = pytest.importorskip("xgboost", reason="xgboost is not installed").XGBClassifier(n_estimators=5)
    y = np.array(labels)[ILL.astype(int)]
    clf = DialedClassifier(inner, random_state=0).fit(NUMBERS, y)
    plain = DialedClassifier(inner, pos_label=1, random_state=0).fit(NUMBERS, ILL.astype(int))
    assert clf.pos_label_ == labels[1]
    assert_array_equal(clf.classes_, np.unique(y))
    assert_array_equal(clf.predict(NUMBERS) == labels[1], plain.predict(NUMBERS) == 1)
    column = clf.classes_.tolist().index(labels[1])
    assert_array_equal(clf.predict_proba(NUMBERS)[:, column], plain.predict_proba(NUMBERS)[:, 1])
    assert clf.tune(maximize="f1") == plain.tune(maximize="f1")
    assert clf.tune(NUMBERS, y, maximize="f1") == plain.tune(NUMBERS, ILL.astype(int), maximize="f1")
    assert_array_equal(clf.predict(NUMBERS) == labels[1], plain.predict(NUMBERS) == 1)
    assert 0.5 < clf.score(NUMBERS, y) <= 1
    with pytest.raises(ValueError, match=r"y holds ('other'|7)"):
        clf.dial(NUMBERS, np.where(np.arange(N), y, "other" if isinstance(labels[0], str) else 7))


def test_what_is_wrong_with_the_rows_is_not_blamed_on_the_labels() -> None:
    with pytest.raises(ValueError, match="Input X contains NaN"):
        DialedClassifier(LogisticRegression()).fit(FRAME[["age"]], LABELS)


@pytest.mark.parametrize("columns", [range(2), [3, 7], ["age", 3], ["age", "ulm"]])
def test_nothing_is_said_of_valid_feature_names(columns: Any) -> None:
    X = NUMBERS.set_axis(list(columns), axis=1)
    for clf in (small(), DialedClassifier(LGBMClassifier(n_estimators=5, verbose=-1)), DialedClassifier(small(), cv=2)):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*feature names")
            clf.fit(X, LABELS)
            clf.predict_proba(X)
            if columns == range(2) and isinstance(clf, LCTClassifier):
                clf.predict(NUMBERS.to_numpy())


# held out


def table(n: int = 240, share: float = 0.25, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.standard_normal((n, 4)) + y[:, None], y


def quick(**changes: Any) -> LCTClassifier:
    small = {"recipe__epochs": 3, "recipe__batch_size": 32, "random_state": 0, "recipe__optimizer__lr": 1e-6}
    return LCTClassifier().set_params(**small | changes)


class Recorder(nn.Module):
    """The identity, keeping the first column of all it is shown in training."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen.append(x[:, 0].clone())
        return x


def trained_rows(clf: LCTClassifier) -> np.ndarray:
    """The rows that the recorder was shown, whose numbers are the first column."""
    return np.unique(torch.cat(clf.bundle_.predictor.model.backbone.seen).int().numpy())


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_held_out_rows_are_never_trained_on(share: float) -> None:
    X, y = table()
    X[:, 0] = np.arange(len(X))  # a row's number, which the recorder's features still hold
    clf = quick(network=Recorder(), validation_fraction=share).fit(X, y)
    held = np.setdiff1d(np.arange(len(X)), trained_rows(clf))
    assert len(held) == pytest.approx(share * len(X), abs=1)
    assert y[held].mean() == pytest.approx(y.mean(), abs=0.01)  # stratified
    dial = clf.dial()
    assert_array_equal(dial.y, y[held])
    k = 5
    assert_array_equal(dial.surface.score(k), clf.decision_function(X[held], lam=dial.lams[k]))


def test_validation_data_of_ones_own() -> None:
    X, y = table()
    X_val, y_val = table(100, seed=1)
    X[:, 0] = np.arange(len(X))
    clf = quick(network=Recorder()).fit(X, y, X_val, y_val)
    assert len(trained_rows(clf)) == len(X)  # nothing is held out
    assert_array_equal(clf.bundle_.evidence.y, y_val)
    assert_array_equal(clf.dial().surface.score(7), clf.decision_function(X_val, lam=clf.dial().lams[7]))
    score = clf.decision_function(X_val)
    assert clf.history_[-1]["auc"] == pytest.approx(roc_auc_score(y_val, score), abs=1e-6)
    with pytest.raises(ValueError, match="X_val and y_val go together"):
        quick().fit(X, y, X)
    with pytest.raises(ValueError, match="y holds 7, which was not seen in training"):
        quick().fit(X, y, X, np.full(len(y), 7))


@pytest.mark.parametrize(("positives", "share"), [(4, 0.2), (60, 0.0)])
def test_nothing_is_held_out_where_there_is_nothing_to_share(positives: int, share: float) -> None:
    X, y = table(share=0)
    y[:positives] = 1
    few = f"{positives} positives among 240 rows: too few to hold any out at validation_fraction=0.2, so no figure"
    with pytest.warns(UserWarning, match=few) if share else nullcontext():
        clf = quick(validation_fraction=share, recipe__batch_size=240).fit(X, y)
    assert clf.bundle_.evidence is None
    assert "auc" not in clf.history_[0]
    with pytest.raises(ValueError, match="there are no held-out data"):
        clf.tune(maximize="f1")


def test_groups_and_copies_of_a_row_stay_on_one_side() -> None:
    X, y = table(300)
    patients = np.repeat(np.arange(100), 3)
    X[:, 0] = np.arange(300)
    clf = quick(network=Recorder()).fit(X, y, groups=patients)
    held = np.setdiff1d(np.arange(300), trained_rows(clf))
    assert len(held) > 40
    assert not set(patients[trained_rows(clf)]) & set(patients[held])
    assert len(np.unique(clf.bundle_.evidence.groups)) == len(set(patients[held]))
    copied = quick(network=Recorder()).fit(np.concatenate([X, X]), np.concatenate([y, y]))
    trained = trained_rows(copied)
    assert len(trained) == pytest.approx(240, abs=2)  # the others were held out with both copies
    assert len(copied.bundle_.evidence.y) == 2 * (300 - len(trained))
