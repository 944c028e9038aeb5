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
from lossdial.base.files import write
from lossdial.base.progress import ProgressBar
from lossdial.bundle import Bundle
from lossdial.bundle.predictor import class_array
from lossdial.data.schema import ArraySchema, ImageSchema, Schema, TableSchema
from lossdial.export.columns import GraphColumn, encode, graph_columns
from lossdial.export.comparison import Check, check, encoded
from lossdial.export.decisions import RESERVED, decisions, lam_input, settings
from lossdial.export.nodes import ML_OPSET, OPSET, ExportError, GraphNodes, network_graph

if TYPE_CHECKING:
    import onnx

FORMAT: Final = "1"
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
        The comparison with Python.

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


def to_onnx(
    bundle: Bundle, path: str | os.PathLike[str], *, point: str = "default", rows: Any = None, progress: bool = True
) -> Exported:
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
    progress : bool
        Whether to show a bar, where it takes longer than two seconds.

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
    target = _place(path)
    if point not in bundle.points:
        raise InputError("point", f"{point!r} is unknown; {closest(point, bundle.points)}")
    if bundle.points[point].lower is not None:
        remedy = "Name a point with one cut."
        raise InputError("point", "must not be a referral band, by which no graph answers", got=point, remedy=remedy)
    for named in bundle.points.values():
        bundle.predictor.lam(named.lam)  # one of another model is an error, one outside the range a warning
    with ProgressBar("export", 4, progress, delay=2.0) as bar:
        network = network_graph(bundle.predictor.model, torch.from_numpy(encoded(bundle.predictor, 1)))
        bar.advance(1, {})
        model, columns = _assembled(bundle, network, point)
        bar.advance(2, {})
        if model.ByteSize() > _LARGEST:
            raise ExportError(
                f"the graph has {model.ByteSize() / 1e9:.1f} GB; one ONNX file holds 2. Use `lossdial serve`."
            )
        data = model.SerializeToString()
        comparison = check(bundle, data, rows)
        bar.advance(3, {})
        write(target, data)
        bar.advance(4, {})
    bands = [name for name, named in bundle.points.items() if named.lower is not None]
    if bands:
        warn(
            f"the graph has no answer by a referral band: {', '.join(bands)}. OnnxModel(FILE).refer(rows, NAME) says "
            "clear, refer or act."
        )
    prepared = tuple((column.input, column.said) for column in columns if not column.raw)
    return Exported(target, len(data), tuple(i.name for i in model.graph.input), prepared, comparison)


def _place(path: str | os.PathLike[str]) -> Path:
    """Where to write, found out before any work: a folder that cannot be made is told at once."""
    target = Path(path)
    if target.suffix.lower() != ".onnx":
        raise InputError("onnx", "must be a file that ends in .onnx", got=os.fspath(path))
    if target.is_dir():
        raise InputError("onnx", "must be a file, not a folder", got=os.fspath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"must lie in a folder that can be made ({error.strerror})"
        raise InputError("onnx", problem, got=os.fspath(path), remedy="Choose another place.") from error
    return target


def _assembled(bundle: Bundle, network: onnx.ModelProto, point: str) -> tuple[onnx.ModelProto, tuple[GraphColumn, ...]]:
    import onnx
    from onnx import helper

    predictor, graph = bundle.predictor, GraphNodes()
    answering = replace(bundle, points={name: p for name, p in bundle.points.items() if p.lower is None})
    x, broken, columns = _rows(graph, predictor.schema, [lam_input(name) for name in predictor.space.free])
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
    helper.set_model_props(model, {key: _json(value) for key, value in _metadata(bundle, point, columns).items()})
    onnx.checker.check_model(model)
    return model, columns


def _rows(graph: GraphNodes, schema: Schema, taken: list[str]) -> tuple[str, str | None, tuple[GraphColumn, ...]]:
    """The network's input, the mask of rows that have none (tables alone), and a table's columns."""
    if isinstance(schema, TableSchema):
        columns = graph_columns(schema.encoder, [*RESERVED, *taken])
        return *encode(graph, columns), columns
    if isinstance(schema, ImageSchema):
        sizes = (schema.channels, schema.height, schema.width)
        return graph.input("image", np.uint8, ["n", *sizes], "pixels, 0 to 255; channels are R, G, B"), None, ()
    if isinstance(schema, ArraySchema):
        return graph.input("x", np.float32, ["n", *schema.shape], "numbers, as in training"), None, ()
    raise ExportError(f"rows of the kind {schema.kind!r} have no form in ONNX yet.")


def _metadata(bundle: Bundle, point: str, columns: tuple[GraphColumn, ...]) -> dict[str, Any]:
    predictor, digests = bundle.predictor, bundle.digests()
    return {
        "lossdial.format": FORMAT,
        "lossdial.point": point,
        "lossdial.points": {name: p.to_json() for name, p in bundle.points.items()},
        "lossdial.certificates": {
            name: str(p.certificate) for name, p in bundle.points.items() if p.certificate is not None
        },
        "lossdial.lambda": {
            name: {"input": lam_input(name), "range": list(predictor.space.bounds(name))}
            for name in predictor.space.free
        },
        "lossdial.constants": {
            name: predictor.space.bounds(name)[0] for name in predictor.space.names if name not in predictor.space.free
        },
        "lossdial.classes": class_array(predictor.classes).tolist(),
        "lossdial.loss": dict(bundle.training.loss),
        "lossdial.training_prevalence": bundle.training.prevalence,
        "lossdial.columns": [column.to_json() for column in columns],
        "lossdial.schema": predictor.schema.to_json(),
        "lossdial.weights_sha256": digests["weights"],
        "lossdial.evidence_sha256": digests.get("evidence", ""),
    }


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
