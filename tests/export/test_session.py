"""What an exported file is asked in Python, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from lossdial import LCTClassifier, OnnxModel

Rows = Callable[[int, int], pd.DataFrame]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_points_and_ranges_are_those_of_the_model(table: LCTClassifier, exported: Path) -> None:
    model = OnnxModel(exported)
    assert {name: p.to_json() for name, p in model.points.items()} == {n: p.to_json() for n, p in table.points.items()}
    assert model.ranges == {"gamma": (0.0, 0.3), "tau": (0.0, 3.0)}
    assert OnnxModel(exported.read_bytes()).default == "default"


def test_an_array_in_the_order_of_the_columns(table: LCTClassifier, exported: Path, rows: Rows) -> None:
    X = rows(60, 4).drop(columns="state")
    assert_array_equal(OnnxModel(exported).decide(X.to_numpy(object)).label, table.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"point": "sur"}, "there is no operating point 'sur'; did you mean 'sure'\\? There are 'default'"),
        ({"lam": {"gamma": 0, "tau": 3.5}}, "tau must lie in the trained range \\[0, 3\\]; got 3.5."),
        ({"lam": {"gamma": 0, "tau": float("nan")}}, "tau must lie in the trained range"),
        ({"lam": {"gamma": 0, "tau": 1, "phi": 1}}, "λ has no 'phi' to vary; there are 'gamma', 'tau'."),
        ({"lam": {"tau": 1}}, "lam lacks 'gamma'; it has gamma, tau."),
        ({"lam": {"gamma": 0, "tau": 1}, "point": "sure"}, "give point or lam, not both"),
        ({"prevalence": 1.5}, "prevalence must lie strictly between 0 and 1; got 1.5."),
        ({"threshold": float("nan")}, "threshold must be a number"),
    ],
)
def test_mistakes_are_told_in_a_line(options: dict[str, Any], message: str, exported: Path, rows: Rows) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        OnnxModel(exported).decide(rows(5, 1), **options)
    assert "\n" not in str(caught.value)


def test_rows_that_python_refuses_are_refused(exported: Path, rows: Rows) -> None:
    X = rows(5, 1)
    with pytest.raises(ValueError, match="the data lack 1 column"):
        OnnxModel(exported).decide(X.drop(columns="age"))
    with pytest.raises(ValueError, match="column 'age' is infinite"):
        OnnxModel(exported).decide(X.assign(age=np.inf))


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        OnnxModel(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("no graph")
    with pytest.raises(ValueError, match="no graph that onnxruntime reads"):
        OnnxModel(tmp_path / "text.onnx")
    from onnx import helper

    same = helper.make_node("Identity", ["a"], ["b"])
    ends = [[helper.make_tensor_value_info(name, 1, [1])] for name in "ab"]
    model = helper.make_model(helper.make_graph([same], "g", *ends), ir_version=9)
    model.opset_import[0].version = 18
    with pytest.raises(ValueError, match="not written by lossdial"):
        OnnxModel(model.SerializeToString())
