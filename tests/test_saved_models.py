"""Saved models load to the scores, labels and points that they had (tests/saved): a table by 0.2, the others by 0.1.

One of a table with text, dates and gaps; one solved on features; a FiLM network with two members; one of images.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial import LCTClassifier

SAVED = Path(__file__).parent / "saved"


def _rows(name: str) -> object:
    if name == "table":
        frame = pd.read_csv(SAVED / "table_rows.csv")
        return frame.assign(when=pd.to_datetime(frame["when"]))
    if name == "image":
        return np.load(SAVED / "images.npz")["x"]
    return np.load(SAVED / "arrays.npz")["Z"]


@pytest.mark.parametrize("name", ["table", "exact", "film", "image"])
def test_a_saved_model_answers_as_it_did(name: str) -> None:
    expected = json.loads((SAVED / f"{name}.json").read_text())
    classifier, rows = LCTClassifier.load(SAVED / name), _rows(name)
    assert set(classifier.points) == set(expected["labels"])
    for lam, probabilities in zip([None, *expected["lams"]], expected["probabilities"], strict=True):
        # Another processor may round a float32 product differently; on the one that saved them not a bit differs.
        np.testing.assert_allclose(classifier.predict_proba(rows, lam=lam)[:, 1], probabilities, rtol=1e-5, atol=1e-7)
    for point, labels in expected["labels"].items():
        assert classifier.predict(rows, point=point).tolist() == labels
