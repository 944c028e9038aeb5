"""The encoder as operators writes the matrix that the encoder itself writes."""

from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from onnx import helper

from lossdial.data.encoder.table import TableCoder
from lossdial.data.schema import TableSchema
from lossdial.export.nodes import ML_OPSET, OPSET, GraphNodes
from lossdial.export.operators import encode, graph_columns

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def by_graph(encoder: TableCoder, rows: pd.DataFrame | dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """What the graph makes of a frame, or of its own inputs."""
    graph = GraphNodes()
    columns = graph_columns(TableSchema(encoder), ["gamma"])
    matrix, broken = encode(graph, columns)
    outputs = [helper.make_tensor_value_info(matrix, 1, None), helper.make_tensor_value_info(broken, 9, None)]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "encoder", graph.inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        ir_version=9,
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    if isinstance(rows, pd.DataFrame):
        rows = {c.input: c.feed(rows[c.column.name].infer_objects()) for c in columns}
    return tuple(session.run(None, rows))


COLUMNS: dict[str, tuple[Any, Any]] = {
    "numbers": ([1.5, 2.5, None, 1e30], [None, -0.0, 1e-30, 16777217.0]),
    "no gap in training": ([1.0, 2.0, 3.0], [None, 5.0, 1.0]),
    "booleans": ([True, False, None, True], [False, None, True]),
    "text": (["a", "b", None, "a"], ["a", "c", None, "b"]),
    "text without gaps": (["a", "b", "a"], [None, "b", "x"]),
    "text that is empty": (["", "b", None, ""], ["", None, "b"]),
    "words for gaps as text": (["", "<missing>", "<gap>", None], ["", None, "<missing>", "<gap>"]),
    "rare text": ([*"aaabbbccd", None], ["a", "b", "c", "d", "e", None]),
    "decimal commas": (["1,5", "2,25", "unknown"], ["3,75", None, "n/a"]),
    "money": (["$1,234.50", "$2.00", "$3.25"], ["$7.00", None, "$1,000.00"]),
    "dates": (["2024-01-31", "2023-05-01", None], ["1969-12-31", "2024-02-29 12:30", None]),
    "German dates": (["31.12.1999", "1.1.2000", "2.3.2001"], ["29.2.2000", None, "2000-01-05"]),
    "times": (["2023-03-01 03:20", "2024-02-29 23:59:59", "2024-07-01", None], ["1969-12-31 01:01", None]),
    "free text": ([f"parcel {'late broken'[i % 2 :]} order {i}" for i in range(50)], ["late order", "xyz", None, ""]),
    "durations": (pd.to_timedelta([1, 2.5, None], "D"), pd.to_timedelta([36, None, 1], "h")),
    "whole numbers": ([1, 2, 3], [4, 5, 6]),
    "Größe in cm/µ": ([1, 2, 3], [4.5, None, 6]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_one_column(name: str) -> None:
    train, new = (pd.DataFrame({name: cells}) for cells in COLUMNS[name])
    encoder = TableCoder(max_categories=2 if name == "rare text" else 100).fit(train)
    for frame in (train, new):
        assert_array_equal(by_graph(encoder, frame)[0], encoder.transform(frame))


def test_categories_and_numbers_that_are_none() -> None:
    frame = pd.DataFrame({"code": pd.Categorical([1, 2, 1, None]), "text": ["x", "y", "x", "y"]})
    encoder = TableCoder().fit(frame)
    for rows in (frame, pd.DataFrame({"code": [1.0, np.nan, 3.0], "text": ["y", "z", None]})):
        assert_array_equal(by_graph(encoder, rows)[0], encoder.transform(rows))
    encoder = TableCoder().fit(pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 3.0]}))
    numbers = {"a": np.array([1.0, np.inf, 1e300]), "b": np.array([1.0, 2.0, 3.0])}
    assert by_graph(encoder, numbers)[1].tolist() == [False, True, True]  # such a number marks its row


@pytest.mark.parametrize("names", [["point", "column.point"], ["", "lam.gamma"], ["dial.0", "network.x"]])
def test_names_that_the_graph_needs_are_given_others(names: list[str]) -> None:
    frame = pd.DataFrame({name: [1.0, 2.0 + i] for i, name in enumerate(names)})
    encoder = TableCoder().fit(frame)
    inputs = [c.input for c in graph_columns(TableSchema(encoder), ["gamma"])]
    assert len(set(inputs)) == 2
    assert not {"", "point", "lam.gamma", "dial.0", "network.x"} & set(inputs)
    assert_array_equal(by_graph(encoder, frame)[0], encoder.transform(frame))
