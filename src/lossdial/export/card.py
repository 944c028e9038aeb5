"""A model card: what a bundle knows of its model, in Markdown with the front matter that Hugging Face reads."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import yaml

from lossdial.base.report import Block, Items, Report, Section, Sheet, Text
from lossdial.bundle import Bundle
from lossdial.data.schema import ArraySchema, ImageSchema, TableSchema
from lossdial.dial import OperatingPoint


def model_card(bundle: Bundle, title: str = "A model of lossdial", onnx: str | None = None) -> str:
    """The model card. It uses the bundle alone, and leaves open what the bundle does not know.

    Parameters
    ----------
    bundle : Bundle
        The model.
    title : str
        What to call it.
    onnx : str, optional
        The name of the exported file, if there is one.

    Returns
    -------
    str
        Markdown, with front matter in YAML.

    Examples
    --------
    >>> model_card(Bundle.load("RUN"), "patients").splitlines()[:2]  # doctest: +SKIP
    ['---', 'license: unknown']
    """
    blocks: list[Block] = [
        *_about(bundle, onnx),
        Section("Data", [*_data(bundle)]),
        Section("Training", [Items([*_training(bundle)])]),
        Section("Operating points", [_point(point) for point in bundle.points.values()]),
        Section("Limits", [Items([*_limits(bundle)])]),
    ]
    image = isinstance(bundle.predictor.schema, ImageSchema)
    front = {
        "license": "unknown",
        "library_name": "lossdial",
        "pipeline_tag": "image-classification" if image else "tabular-classification",
        "tags": ["lossdial", "imbalanced-classification", "binary-classification", *(["onnx"] if onnx else [])],
    }
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n{Report(title, blocks).markdown()}"


def _about(bundle: Bundle, onnx: str | None) -> Iterator[Block]:
    negative, positive = bundle.predictor.classes
    yield Text(
        f"It tells `{positive}` from `{negative}`. One network was trained over a distribution of losses; λ and the "
        "threshold are chosen afterwards, and each choice is an operating point below."
    )
    if onnx:
        yield Text(
            f"`{onnx}` holds it as ONNX: raw rows in; label, probability and score out. Its inputs `point`, `lam.…`, "
            "`threshold` and `prevalence` have defaults; its metadata has the points, their certificates and the "
            "digests below."
        )


def _data(bundle: Bundle) -> Iterator[Block]:
    training, schema = bundle.training, bundle.predictor.schema
    share = training.prevalence
    odds = f", 1 to {(1 - share) / share:.4g}" if 0 < share < 1 else ""
    lines = [f"positives in training: {100 * share:.4g} %{odds}"]
    if training.target is not None:
        lines.append(f"labels: the column `{training.target}`")
    if bundle.evidence is not None:
        positives = int(bundle.evidence.y.sum())
        lines.append(f"{bundle.evidence.origin}: {positives} positives, {len(bundle.evidence.y) - positives} negatives")
    lines += [f"sha256 of the {kind}: `{digest}`" for kind, digest in bundle.digests().items()]
    if isinstance(schema, ImageSchema):
        lines.append(f"inputs: images of {schema.height} × {schema.width} px, {schema.channels} channels")
    elif isinstance(schema, ArraySchema):
        lines.append(f"inputs: numbers of shape {schema.shape}")
    yield Items(lines)
    if isinstance(schema, TableSchema):
        rows = [(column.name, column.role, column.note) for column in schema.encoder.report_]
        yield Sheet("", ("column", "role", "how it is read"), rows)


def _training(bundle: Bundle) -> Iterator[str]:
    training, model = bundle.training, bundle.predictor.model
    symbols = {"beta": "β"}
    constants = [f", {symbols.get(k, k)} = {v:.6g}" for k, v in training.loss.items() if isinstance(v, float)]
    yield f"loss: {training.loss.get('name', 'unknown')}{''.join(constants)}"
    for name in model.space.names:
        low, high = model.space.bounds(name)
        yield f"λ: {name} " + (f"from {low:g} to {high:g}" if low < high else f"fixed at {low:g}")
    size = sum(p.numel() for p in model.parameters())
    members = f", {model.members} members" if model.members > 1 else ""
    yield f"network: {type(model.backbone).__name__}, head {model.head.config.name}{members}, {size:,} numbers"
    yield f"{training.steps:,} steps in {training.seconds:.3g} s; lossdial {version('lossdial')}"


def _point(point: OperatingPoint) -> Section:
    lam = ", ".join(f"{name} {value:.4g}" for name, value in point.lam.items())
    lines = [
        *([f"λ: {lam}"] if lam else []),
        f"threshold{'' if point.lower is None else 's'} on the score: {point.spelled_threshold}",
        f"calibration: {point.calibration.kind if point.calibration else 'none'}",
        *([f"made for a prevalence of {point.prevalence:g}"] if point.prevalence is not None else []),
        f"{point.certificate or point.holding or 'not certified'}",
        *([f"NOT MET: {point.note}"] if not point.feasible else []),
        *([f"not met where it was not chosen: {', '.join(point.missed)}"] if point.missed else []),
    ]
    blocks: list[Block] = [Text(f"{point.description.rstrip('.')}."), Items(lines)]
    names = list(dict.fromkeys([*point.crossfit, *point.metrics]))
    if names:
        rows = [(name, str(point.crossfit.get(name, "")), str(point.metrics.get(name, ""))) for name in names]
        counts = f"On {point.n_positive} positives and {point.n_negative} negatives, with 95 % intervals:"
        blocks += [Text(counts), Sheet("", ("metric", "cross-fitted", "where it was chosen"), rows)]
    return Section(point.name, blocks)


def _limits(bundle: Bundle) -> Iterator[str]:
    points = bundle.points.values()
    uncertified = [point.name for point in points if point.certificate is None]
    unmeasured = [point.name for point in points if not point.metrics and not point.crossfit]
    if uncertified:
        yield f"Without a certificate nothing holds for sure on new data: {', '.join(uncertified)}."
    if any(point.certificate is not None for point in points):
        yield "A certificate holds for new samples drawn as its own were, and for no others."
    if unmeasured:
        yield f"Nobody has measured {', '.join(unmeasured)}: no figure is known."
    if any(point.metrics for point in points):
        yield "Figures on the data that a point was chosen on flatter it; the cross-fitted ones do not."
    if bundle.evidence is None:
        yield "It was kept without held-out samples: it cannot be tuned again without data."
    if bundle.predictor.space.dim:
        yield "Outside the ranges of λ above the network extrapolates."
    if isinstance(bundle.predictor.schema, TableSchema):
        yield "Text that training has not seen says nothing to the model, and a gap is filled with the median."
    yield "The model does not know its license, its intended use, or the population that its samples were drawn from."
