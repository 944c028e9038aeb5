"""The network as ONNX: from what the schema gives to z₊ − z₋ at one λ."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

from lossdial.export.nodes import OPSET
from lossdial.models import ConditionalClassifier
from lossdial.models.network import evaluating

if TYPE_CHECKING:
    import onnx

__all__ = ["ExportError", "network_graph"]

_ROWS: Final = 7  # of the example that is traced; a number that no layer is likely to have
_REMEDY: Final = (
    "Write that part of the network's forward in other operators, or serve the model as it is: `lossdial serve`."
)


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
    with evaluating(model), torch.no_grad(), _quietly():
        traced = _traced(_Margin(model).eval(), (rows, torch.zeros(model.space.dim)), type(model.backbone).__name__)
        try:
            program = torch.onnx.export(
                traced,
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=["x", "code"],
                output_names=["score"],
            )
        except Exception as error:  # the exporter's own kinds are private
            raise _refusal(error, type(model.backbone).__name__) from error
    if program is None:
        raise ExportError(f"torch gave no graph for the network {type(model.backbone).__name__}.")
    return program.model_proto


def _traced(module: nn.Module, arguments: tuple[Tensor, ...], name: str) -> torch.export.ExportedProgram:
    n = torch.export.Dim("n", min=2)  # the graph holds for one row too: no operator asks
    failures: list[Exception] = []
    for strict in (False, True):  # the second follows Python itself, such as len(x), where the first cannot
        try:
            return torch.export.export(module, arguments, dynamic_shapes=({0: n}, None), strict=strict)
        except Exception as error:  # of many kinds
            failures.append(error)
    raise _refusal(failures[0], name) from failures[0]


def _refusal(error: BaseException, name: str) -> ExportError:
    """What could not be exported, in a line: the operator, where one is to blame."""
    said = []
    link: BaseException | None = error
    while link is not None:
        said.append(str(link))
        link = link.__cause__ or link.__context__
    text = "\n".join(said)
    found = re.search(r"OpOverload\(op='([\w.:]+)'", text) or re.search(r"No ONNX function found for <?([\w.:]+)", text)
    if found:
        return ExportError(f"the network {name} uses {found[1]}, for which ONNX has no operator. {_REMEDY}")
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
