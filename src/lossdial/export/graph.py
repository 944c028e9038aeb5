"""A bundle as one ONNX file: raw rows, a point and λ in; label, probability and score out."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from lossdial.base.errors import InputError, closest, warn
from lossdial.base.files import require_writable, write
from lossdial.bundle import Bundle
from lossdial.bundle.predictor import class_array
from lossdial.data.schema import ArraySchema, ImageSchema, Schema
from lossdial.export.comparison import Check, check, encoded
from lossdial.export.nodes import ML_OPSET, OPSET, ExportError, GraphNodes, network_graph
from lossdial.export.operators import GraphColumn, decisions, encode, graph_columns, lam_input, settings

if TYPE_CHECKING:
    import onnx

_LARGEST: Final = 2**31 - 1  # bytes of one protocol buffer


@dataclass(frozen=True)
class Exported:
    """What `to_onnx` wrote, and how it compares with Python.

    Parameters
    ----------
    path : Path
        The file.
    size : int
        Its bytes.
    inputs : tuple of str
        The names of the graph's inputs.
    prepared : tuple of (str, str)
        Inputs that the cells of a file must be converted to first, and what each of them holds.
    check : Check
        The comparison with Python: the sizes of the batches and the rows that were compared, the greatest differences
        of a score and of a probability, and how many labels differ because a score lies on the threshold to within
        rounding (`near`).

    Examples
    --------
    >>> to_onnx(clf.bundle_, "model.onnx").inputs  # doctest: +SKIP
    ('age', 'town', 'point', 'lam.gamma', 'lam.tau', 'threshold', 'prevalence')
    """

    path: Path
    size: int
    inputs: tuple[str, ...]
    prepared: tuple[tuple[str, str], ...]
    check: Check


def to_onnx(bundle: Bundle, path: str | os.PathLike[str], *, point: str = "default", rows: Any = None) -> Exported:
    """Write a trained model as one ONNX file that answers as Python does.

    Parameters
    ----------
    bundle : Bundle
        The model.
    path : str or path
        The file to write; it ends in .onnx.
    point : str
        The operating point that answers where none is named. Every other is in the file, too.
    rows : optional
        Raw rows to compare besides those that are made up.

    Returns
    -------
    Exported

    Raises
    ------
    ExportError
        Where the network has no form in ONNX, or the graph does not answer as Python does. Nothing is written then.

    Examples
    --------
    >>> exported = to_onnx(clf.bundle_, "model.onnx", rows=df)  # doctest: +SKIP
    >>> exported.check.near  # doctest: +SKIP
    0
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"this needs {package}: pip install 'lossdial[onnx]'", name=package)
    target = Path(path)
    if target.suffix.lower() != ".onnx":
        raise InputError("onnx", "must be a file that ends in .onnx", got=os.fspath(path))
    require_writable(target)
    if point not in bundle.points:
        raise InputError("point", f"{point!r} is unknown; {closest(point, bundle.points)}")
    if bundle.points[point].lower is not None:
        remedy = "Name a point with one cut."
        raise InputError("point", "must not be a referral band, by which no graph answers", got=point, remedy=remedy)
    for named in bundle.points.values():
        bundle.predictor.lam(named.lam)  # one of another model is an error, one outside the range a warning
    network = network_graph(bundle.predictor.model, torch.from_numpy(encoded(bundle.predictor, 1)))
    model, columns = _assembled(bundle, network, point)
    if model.ByteSize() > _LARGEST:
        size = f"{model.ByteSize() / 1e9:.1f} GB"
        raise ExportError(f"the graph has {size}; one ONNX file holds 2. Use `lossdial serve`.")
    data = model.SerializeToString()
    comparison = check(bundle, data, rows)
    write(target, data)
    if bands := [name for name, named in bundle.points.items() if named.lower is not None]:
        warn(
            f"the graph has no answer by a referral band: {', '.join(bands)}. OnnxModel(FILE).refer(rows, NAME) says "
            "clear, refer or act."
        )
    prepared = tuple((column.input, column.said) for column in columns if not column.raw)
    return Exported(target, len(data), tuple(i.name for i in model.graph.input), prepared, comparison)


def _assembled(bundle: Bundle, network: onnx.ModelProto, point: str) -> tuple[onnx.ModelProto, tuple[GraphColumn, ...]]:
    import onnx
    from onnx import helper

    predictor, graph = bundle.predictor, GraphNodes()
    answering = replace(bundle, points={name: p for name, p in bundle.points.items() if p.lower is None})
    columns = graph_columns(predictor.schema, predictor.space.free)
    x, broken = encode(graph, columns) if columns else (_input(graph, predictor.schema), None)
    set_to = settings(graph, answering.points, point, predictor.space)
    last = "score" if broken is None else "network.score"
    graph.take(network, {"x": x, "code": set_to.code, "score": last})
    if broken is not None:
        graph.add("Where", broken, graph.constant(np.array([np.nan], np.float32)), last, result="score")
    decisions(graph, "score", set_to, answering)
    graph.output("score", np.float32, ["n"], "z+ - z- at lambda, before calibration")
    opsets = {entry.domain: entry.version for entry in network.opset_import}
    opsets |= {"": max(OPSET, opsets.get("", OPSET)), "ai.onnx.ml": ML_OPSET}
    model = helper.make_model(
        helper.make_graph(graph.nodes, "lossdial", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid(domain, number) for domain, number in opsets.items()],
        functions=list(network.functions),
        ir_version=network.ir_version,
        producer_name="lossdial",
        producer_version=version("lossdial"),
    )
    for key, value in _metadata(bundle, point, columns).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        model.metadata_props.add(key=f"lossdial.{key}", value=text)
    onnx.checker.check_model(model)
    return model, columns


def _input(graph: GraphNodes, schema: Schema) -> str:
    """The network's input, of images or arrays."""
    if isinstance(schema, ImageSchema):
        sizes = (schema.channels, schema.height, schema.width)
        return graph.input("image", np.uint8, ["n", *sizes], "pixels, 0 to 255; channels are R, G, B")
    if isinstance(schema, ArraySchema):
        return graph.input("x", np.float32, ["n", *schema.shape], "numbers, as in training")
    raise ExportError(f"rows of the kind {schema.kind!r} have no form in ONNX yet.")


def _metadata(bundle: Bundle, point: str, columns: tuple[GraphColumn, ...]) -> dict[str, Any]:
    predictor, space, digests = bundle.predictor, bundle.predictor.space, bundle.digests()
    return {
        "point": point,
        "points": {name: p.to_json() for name, p in bundle.points.items()},
        "lambda": {name: {"input": lam_input(name), "range": list(space.bounds(name))} for name in space.free},
        "classes": class_array(predictor.classes).tolist(),
        "loss": dict(bundle.training.loss),
        "training_prevalence": bundle.training.prevalence,
        "columns": [column.to_json() for column in columns],
        "schema": predictor.schema.to_json(),
        "weights_sha256": digests["weights"],
        "evidence_sha256": digests.get("evidence", ""),
    }
