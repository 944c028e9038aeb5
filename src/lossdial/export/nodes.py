"""A graph of ONNX under construction: operators are added one by one, and each gives the name of its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx

__all__ = ["OPSET", "Nodes"]

#: of ONNX's own operators, and of those for machine learning, among which is the dictionary of texts
OPSET: Final = 18
ML_OPSET: Final = 2


class Nodes:
    """Operators, constants, inputs and outputs, in the order in which they were asked for."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def add(self, operator: str, *inputs: str, domain: str = "", result: str | None = None, **attributes: Any) -> str:
        """One operator; the name of what it gives."""
        from onnx import helper

        name = result or f"dial.{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def constant(self, value: NDArray[Any], name: str | None = None) -> str:
        """Numbers or texts (an array of objects) that are part of the graph; or, under an input's name, its default."""
        from onnx import numpy_helper

        name = name or f"dial.c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def input(self, name: str, kind: Any, shape: Sequence[str | int], text: str) -> str:
        """What a caller gives: kind as NumPy's, object for texts."""
        from onnx import helper

        self.inputs.append(helper.make_tensor_value_info(name, _element(kind), list(shape), doc_string=text))
        return name

    def output(self, name: str, kind: Any, shape: Sequence[str | int], text: str) -> str:
        """What a caller gets; an operator must give a result of that name."""
        from onnx import helper

        self.outputs.append(helper.make_tensor_value_info(name, _element(kind), list(shape), doc_string=text))
        return name

    def cast(self, value: str, kind: Any) -> str:
        """The same numbers in another type."""
        return self.add("Cast", value, to=_element(kind))

    def axes(self, *axes: int) -> str:
        """Axes, as operators take them since opset 13."""
        return self.constant(np.array(axes, dtype=np.int64))

    def take(self, network: onnx.ModelProto, given: dict[str, str], wanted: dict[str, str]) -> None:
        """All of another graph: its inputs are values that are here, its outputs get the names that are wanted."""
        from onnx import compose

        renamed = compose.add_prefix(network, "network.")
        names = {f"network.{there}": here for there, here in {**given, **wanted}.items()}
        for node in renamed.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        self.nodes.extend(renamed.graph.node)
        self.constants.extend(renamed.graph.initializer)


def _element(kind: Any) -> int:
    from onnx import TensorProto, helper

    return int(TensorProto.STRING if kind is object else helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
