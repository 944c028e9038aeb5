"""What is solved on features that do not move, against scikit-learn, and as rows of a store."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lossdial_studies import Store, trials
from lossdial_studies.running import Outcome, Workplace, _load, _model, run_trial


def run(small: Any, store: Path, *methods: str) -> Store:
    place = Workplace(store, small.features, Path("nowhere"))
    for trial in trials(small.experiments(methods, seeds=1)):
        assert run_trial(trial, place) == Outcome("finished")
    return Store.open(store)


def reference(small: Any, method: str, C: float, weights: str | None = None) -> np.ndarray:
    """Margins of the evaluation data by LogisticRegression on the features as the runs see them."""
    (first, *_) = small.experiments((method,), seeds=1)
    data = _load(first, Workplace(small.features, small.features, Path("nowhere")))
    model = _model(first, data.x)
    x, x_test = (model.embed(part, progress=False).double().numpy() for part in (data.x, data.x_test))
    found = LogisticRegression(C=C, class_weight=weights, tol=1e-9, max_iter=10_000).fit(x, data.y)
    return np.asarray(found.decision_function(x_test))


def test_the_path_is_one_run_at_many_ridges_each_a_logistic_regression(small: Any, tmp_path: Path) -> None:
    store = run(small, tmp_path, "vs:exact")
    frame = store.frame()
    assert frame["ridge"].tolist() == [-5 + k / 2 for k in range(11)]
    assert frame["key"].nunique() == 1
    _, scores = store.scores(frame["key"][0])
    for ridge in (-3.0, -2.0, 0.0):  # nodes of the path
        at = frame["ridge"].tolist().index(ridge)
        assert scores[:, at] == pytest.approx(reference(small, "vs:exact", 10**ridge), abs=2e-3)


def test_focal_adds_the_class_weight(small: Any, tmp_path: Path) -> None:
    store = run(small, tmp_path, "focal:exact")
    frame = store.frame()
    assert len(frame) == 55
    assert frame["alpha"].nunique() == 5
    even = frame[(frame["alpha"].round(6) == 0.5) & (frame["ridge"] == -2)]
    _, scores = store.scores(frame["key"][0])
    assert scores[:, even.index[0]] == pytest.approx(reference(small, "focal:exact", 0.01), abs=5e-2)  # between nodes


@pytest.mark.parametrize(("setting", "C", "weights"), [(1, 1e-3, None), (6, 1e-2, "balanced")])
def test_the_ridge_is_scikit_learn_s(small: Any, tmp_path: Path, setting: int, C: float, weights: str | None) -> None:
    store = run(small, tmp_path, "ridge")
    frame = store.frame()
    assert sorted(frame["setting"]) == list(range(8))
    (key,) = frame.loc[frame["setting"] == setting, "key"]
    _, scores = store.scores(key)
    assert scores[:, 0] == pytest.approx(reference(small, "ridge", C, weights), abs=2e-3)


def test_rows_say_what_of_the_processor_they_took(small: Any, tmp_path: Path) -> None:
    frame = run(small, tmp_path, "ridge", "vs", "vs:exact").frame()
    assert (frame["processor"] > 0).all()
    assert (frame["processor"] < 60).all()
