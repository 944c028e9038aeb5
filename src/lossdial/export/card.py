"""A model card: what a bundle knows of its model, in Markdown with the front matter that Hugging Face reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import yaml

from lossdial.bundle import Bundle
from lossdial.data.schema import ArraySchema, ImageSchema, Schema, TableSchema
from lossdial.dial import OperatingPoint, rounded

__all__ = ["model_card"]


def model_card(bundle: Bundle, title: str = "A model of lossdial", onnx: str | None = None) -> str:
    """The card, from the bundle alone: what it does not know, the card leaves open.

    onnx: the name of the exported file, where there is one.
    """
    parts = [
        f"---\n{yaml.safe_dump(_front(bundle, title, onnx), sort_keys=False, allow_unicode=True)}---",
        f"# {title}",
        _what(bundle, onnx),
        "## Data\n" + _data(bundle),
        "## Training\n" + _training(bundle),
        "## Operating points\n" + "\n\n".join(_point(p) for p in bundle.points.values()),
        *(["## Referral bands\n" + _bands(bundle, onnx)] if bundle.bands else []),
        "## Limits\n" + "\n".join(f"- {line}" for line in _limits(bundle)),
    ]
    return "\n\n".join(parts) + "\n"


def _front(bundle: Bundle, title: str, onnx: str | None) -> dict[str, Any]:
    task = _task(bundle.predictor.schema)
    measured = {name: p for name, p in bundle.points.items() if any(_finite(p.crossfit))}
    tags = ["lossdial", "imbalanced-classification", "binary-classification", *(["onnx"] if onnx else [])]
    front: dict[str, Any] = {
        "license": "unknown",
        "library_name": "lossdial",
        "pipeline_tag": task,
        "tags": tags,
    }
    metrics = sorted({metric for p in measured.values() for metric, _ in _finite(p.crossfit)})
    if metrics:
        front["metrics"] = metrics
        front["model-index"] = [{"name": title, "results": [_result(p, task) for p in measured.values()]}]
    return front


def _result(point: OperatingPoint, task: str) -> dict[str, Any]:
    figures = [
        {
            "type": name,
            "value": round(float(estimate.value), 6),
            "name": f"{name}, cross-fitted, 95 % interval {rounded(estimate.low)} to {rounded(estimate.high)}",
        }
        for name, estimate in _finite(point.crossfit)
    ]
    samples = f"{point.n_positive} positives and {point.n_negative} negatives that chose point {point.name}"
    return {"task": {"type": task}, "dataset": {"type": "private", "name": samples}, "metrics": figures}


def _finite(figures: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return [(name, e) for name, e in figures.items() if all(map(math.isfinite, (e.value, e.low, e.high)))]


def _task(schema: Schema) -> str:
    return "image-classification" if isinstance(schema, ImageSchema) else "tabular-classification"


def _what(bundle: Bundle, onnx: str | None) -> str:
    negative, positive = bundle.predictor.classes
    lines = [
        f"It tells `{positive}` from `{negative}`. One network was trained over a distribution of losses; λ and the "
        "threshold are chosen afterwards, and each choice is an operating point below.",
    ]
    if onnx:
        lines.append(
            f"`{onnx}` holds it as ONNX: raw rows in; label, probability and score out. Its inputs `point`, `lam.…`, "
            "`threshold` and `prevalence` have defaults; its metadata has the points, their certificates and the "
            "digests below."
        )
    return "\n\n".join(lines)


def _data(bundle: Bundle) -> str:
    training, schema = bundle.training, bundle.predictor.schema
    share = training.prevalence
    odds = f", 1 to {(1 - share) / share:.4g}" if 0 < share < 1 else ""
    lines = [f"- positives in training: {100 * share:.4g} %{odds}"]
    if training.target is not None:
        lines.append(f"- labels: the column `{training.target}`")
    if bundle.evidence is not None:
        positives = int(bundle.evidence.y.sum())
        lines.append(f"- held out in training: {positives} positives, {len(bundle.evidence.y) - positives} negatives")
    lines += [f"- sha256 of the {kind}: `{digest}`" for kind, digest in bundle.digests().items()]
    if isinstance(schema, ImageSchema):
        lines.append(f"- inputs: images of {schema.height} × {schema.width} px, {schema.channels} channels")
    elif isinstance(schema, ArraySchema):
        lines.append(f"- inputs: numbers of shape {schema.shape}")
    elif isinstance(schema, TableSchema):
        rows = [f"| {_cell(r.name)} | {r.role} | {_cell(r.note)} |" for r in schema.encoder.report_]
        lines += ["", "| column | role | how it is read |", "| --- | --- | --- |", *rows]
    return "\n".join(lines)


def _training(bundle: Bundle) -> str:
    training, model = bundle.training, bundle.predictor.model
    constants = [f"{key} = {value:.6g}" for key, value in training.loss.items() if isinstance(value, float)]
    beta = training.loss.get("beta")
    said = f", β = {beta:.6g}" if isinstance(beta, float) else ""
    rest = [text for text in constants if not text.startswith("beta")]
    lines = [f"- loss: {training.loss.get('name', 'unknown')}{said}{''.join(f', {text}' for text in rest)}"]
    for name in model.space.names:
        low, high = model.space.bounds(name)
        lines.append(f"- λ: {name} " + (f"from {low:g} to {high:g}" if low < high else f"fixed at {low:g}"))
    size = sum(p.numel() for p in model.parameters())
    members = f", {model.members} members" if model.members > 1 else ""
    lines.append(
        f"- network: {type(model.backbone).__name__}, head {model.head.config.name}{members}, {size:,} numbers"
    )
    lines.append(f"- {training.steps:,} steps in {training.seconds:.3g} s; lossdial {version('lossdial')}")
    return "\n".join(lines)


def _point(point: OperatingPoint) -> str:
    lam = ", ".join(f"{name} {value:.4g}" for name, value in point.lam.items())
    lines = [
        f"### {point.name}",
        f"{point.description}." if not point.description.endswith(".") else point.description,
        "",
        *([f"- λ: {lam}"] if lam else []),
        f"- threshold on the score: {point.spelled_threshold}",
        f"- calibration: {point.calibration.kind if point.calibration else 'none'}",
        *([f"- made for a prevalence of {point.prevalence:g}"] if point.prevalence is not None else []),
        f"- {point.certificate or point.holding or 'not certified'}",
        *([f"- NOT MET: {point.note}"] if not point.feasible else []),
        *([f"- not met where it was not chosen: {', '.join(point.missed)}"] if point.missed else []),
    ]
    names = list(dict.fromkeys([*point.crossfit, *point.metrics]))
    if names:
        lines += [
            "",
            f"On {point.n_positive} positives and {point.n_negative} negatives, with 95 % intervals:",
            "",
            "| metric | cross-fitted | where it was chosen |",
            "| --- | --- | --- |",
            *(f"| {name} | {point.crossfit.get(name, '')} | {point.metrics.get(name, '')} |" for name in names),
        ]
    return "\n".join(lines)


def _bands(bundle: Bundle, onnx: str | None) -> str:
    """Every band with its ends, its certificate and the workload that it leaves to people."""
    lines = ["Each has three answers: clear, refer to a person, act."]
    if onnx:
        lines[0] += f" `{onnx}` has them in its metadata (`lossdial.bands`); its graph does not answer by them."
    for band in bundle.bands.values():
        lam = ", ".join(f"{name} {value:.4g}" for name, value in band.lam.items())
        load = band.workload
        lines += [
            "",
            f"### {band.name}",
            *([f"- λ: {lam}"] if lam else []),
            f"- {band}",
            f"- workload: {100 * load.value:.3g} % of cases are referred "
            f"({100 * load.low:.3g} to {100 * load.high:.3g} %)",
        ]
    return "\n".join(lines)


def _limits(bundle: Bundle) -> list[str]:
    points = bundle.points.values()
    bare = [p.name for p in points if p.certificate is None]
    untuned = [p.name for p in points if not p.metrics and not p.crossfit]
    lines = []
    if bare:
        lines.append(f"Without a certificate nothing holds for sure on new data: {', '.join(bare)}.")
    if any(p.certificate is not None for p in points):
        lines.append("A certificate holds for new samples drawn as its own were, and for no others.")
    if untuned:
        lines.append(f"Nobody has measured {', '.join(untuned)}: no figure is known.")
    if any(p.metrics for p in points):
        lines.append("Figures where a point was chosen flatter it; the cross-fitted ones do not.")
    if bundle.evidence is None:
        lines.append("It was kept without held-out samples: it cannot be tuned anew without data.")
    if bundle.predictor.space.dim:
        lines.append("Outside the ranges of λ above the network extrapolates.")
    if isinstance(bundle.predictor.schema, TableSchema):
        lines.append("Text that training has not seen says nothing to the model, and a gap is filled with the median.")
    lines.append(
        "License, intended use and the population that the samples were drawn from are not known to the model."
    )
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
