"""A graph of ONNX under construction, and the network as one."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lossdial.models import ConditionalClassifier
from lossdial.models.network import evaluating

if TYPE_CHECKING:
    import onnx

#: of ONNX's own operators, and of those for machine learning, among which is the dictionary of texts
OPSET: Final = 18
ML_OPSET: Final = 2

_ROWS: Final = 7  # of the example that is traced; a number that no layer is likely to have
_REMEDY: Final = (
    "Write that part of the network's forward in other operators, or serve the model as it is: `lossdial serve`."
)


class GraphNodes:
    """Operators, constants, inputs and outputs, in the order in which they are added."""

    def __init__(self) -> None:
        import onnx

        self._onnx = onnx
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def add(self, operator: str, *inputs: str, domain: str = "", result: str | None = None, **attributes: Any) -> str:
        """Add an operator; the name of its result."""
        name = result or f"dial.{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def constant(self, value: NDArray[Any], name: str | None = None) -> str:
        """Add numbers or texts (an array of objects); under the name of an input they are its default."""
        name = name or f"dial.c{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(value, name))
        return name

    def input(self, name: str, kind: Any, shape: Sequence[str | int], text: str) -> str:
        """Add what a caller gives; `kind` is as in NumPy, object for texts."""
        self.inputs.append(self._value(name, kind, shape, text))
        return name

    def output(self, name: str, kind: Any, shape: Sequence[str | int], text: str) -> None:
        """Add what a caller gets; an operator must have a result of that name."""
        self.outputs.append(self._value(name, kind, shape, text))

    def _value(self, name: str, kind: Any, shape: Sequence[str | int], text: str) -> onnx.ValueInfoProto:
        return self._onnx.helper.make_tensor_value_info(name, self._element(kind), list(shape), doc_string=text)

    def _element(self, kind: Any) -> int:
        if kind is object:
            return int(self._onnx.TensorProto.STRING)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def cast(self, value: str, kind: Any) -> str:
        """The same numbers in another type."""
        return self.add("Cast", value, to=self._element(kind))

    def axes(self, *axes: int) -> str:
        """Axes, as operators take them since opset 13."""
        return self.constant(np.array(axes, dtype=np.int64))

    def take(self, network: onnx.ModelProto, names: dict[str, str]) -> None:
        """Add all of another graph; `names` are those that its inputs and outputs have in this one."""
        renamed = self._onnx.compose.add_prefix(network, "network.")
        names = {f"network.{theirs}": ours for theirs, ours in names.items()}
        for node in renamed.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        self.nodes.extend(renamed.graph.node)
        self.constants.extend(renamed.graph.initializer)


class ExportError(ValueError):
    """A model that cannot be written as ONNX, and what to do about it."""


class _Margin(nn.Module):
    """x (n, …) and the code of one λ (d,) -> z₊ − z₋ (n,), as the predictor computes it: float64 from λ on."""

    def __init__(self, model: ConditionalClassifier) -> None:
        super().__init__()
        self.model, self.head = model, deepcopy(model.head).double()

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        return self.head.margin(self.model.features(x).double(), code.double()).float()


def network_graph(model: ConditionalClassifier, example: Tensor) -> onnx.ModelProto:
    """A graph with the inputs ``x`` (n, …) and ``code`` (d,) and the output ``score`` (n,), for any n.

    example: one sample or more, as the schema encodes them.
    """
    rows = example[:1].expand(_ROWS, *example.shape[1:]).contiguous()
    arguments = rows, torch.zeros(model.space.dim)
    with evaluating(model), torch.no_grad(), _quietly():
        try:
            traced = _traced(_Margin(model).eval(), arguments)
            program = torch.onnx.export(
                traced,
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=["x", "code"],
                output_names=["score"],
            )
        except Exception as error:  # of many kinds, some of them private
            raise _refusal(error, type(model.backbone).__name__) from error
    if program is None:
        raise ExportError(f"torch gave no graph for the network {type(model.backbone).__name__}.")
    return program.model_proto


def _traced(module: nn.Module, arguments: tuple[Tensor, ...]) -> torch.export.ExportedProgram:
    n = torch.export.Dim("n", min=2)  # the graph holds for one row too: no operator asks
    shapes = ({0: n}, None)
    try:
        return torch.export.export(module, arguments, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # of many kinds
        with suppress(Exception):  # it follows Python itself, such as len(x), where the other cannot
            return torch.export.export(module, arguments, dynamic_shapes=shapes, strict=True)
        raise error


def _refusal(error: BaseException, name: str) -> ExportError:
    """Why the network cannot be exported, in a line; names the operator where one is the reason."""
    messages = []
    link: BaseException | None = error
    while link is not None:
        messages.append(str(link))
        link = link.__cause__ or link.__context__
    text = "\n".join(messages)
    match = re.search(r"OpOverload\(op='([\w.:]+)'", text) or re.search(r"No ONNX function found for <?([\w.:]+)", text)
    if match:
        return ExportError(f"the network {name} uses {match[1]}, for which ONNX has no operator. {_REMEDY}")
    if "specialized it to be a constant" in text:
        reason = "its forward ties the number of rows to a constant"
    else:
        reason = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return ExportError(f"the network {name} cannot be traced ({reason.rstrip('.')[:200]}). {_REMEDY}")


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the exporter's own notes, which are about itself."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "torch.export")]
    levels: list[Any] = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
