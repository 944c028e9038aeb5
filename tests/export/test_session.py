"""What an exported file is asked in Python, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lossdial import LCTClassifier, OnnxModel
from lossdial.base.errors import InputError
from tests.export.conftest import patients

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_points_and_ranges_are_those_of_the_model(table: LCTClassifier, exported: Path) -> None:
    model, X = OnnxModel(exported), patients(60, 4).drop(columns="state")
    assert {name: p.to_json() for name, p in model.points.items()} == {n: p.to_json() for n, p in table.points.items()}
    assert model.ranges == {"gamma": (0.0, 0.3), "tau": (0.0, 3.0)}
    assert OnnxModel(exported.read_bytes()).default == "default"
    assert_array_equal(model.decide(X.to_numpy(object)).label, table.predict(X))  # an array, in the columns' order
    for rows, message in (
        (X.drop(columns="age"), "the data lack 1 column"),
        (X.assign(age=np.inf), "'age' is infinite"),
    ):
        with pytest.raises(ValueError, match=message):
            model.decide(rows)


@pytest.mark.parametrize(
    ("options", "argument", "got"),
    [
        ({"point": "sur"}, "point", None),
        ({"lam": {"gamma": 0, "tau": 3.5}}, "lam", "3.5"),
        ({"lam": {"gamma": 0, "tau": float("nan")}}, "lam", "nan"),
        ({"lam": {"gamma": 0, "phi": 1, "tau": 1}}, "lam", "('gamma': 0, 'phi': 1, 'tau': 1)"),
        ({"lam": {"tau": 1}}, "lam", "('tau': 1)"),
        ({"lam": {"gamma": 0, "tau": 1}, "point": "sure"}, "lam", None),
        ({"threshold": float("nan")}, "threshold", "nan"),
    ],
)
def test_a_mistake_names_its_argument(options: dict[str, Any], argument: str, got: str | None, exported: Path) -> None:
    with pytest.raises(InputError) as raised:
        OnnxModel(exported).decide(patients(5, 1), **options)
    assert (raised.value.argument, raised.value.got) == (argument, got)


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        OnnxModel(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("no graph")
    with pytest.raises(ValueError, match="a graph that onnxruntime reads"):
        OnnxModel(tmp_path / "text.onnx")
    from onnx import helper

    same = helper.make_node("Identity", ["a"], ["b"])
    ends = [[helper.make_tensor_value_info(name, 1, [1])] for name in "ab"]
    model = helper.make_model(helper.make_graph([same], "g", *ends), ir_version=9)
    model.opset_import[0].version = 18
    with pytest.raises(ValueError, match="a graph that lossdial wrote"):
        OnnxModel(model.SerializeToString())
