"""The card says what the bundle knows, and nothing else."""

from dataclasses import replace

import pytest
import yaml

from lossdial import LCTClassifier
from lossdial.export import model_card
from lossdial.models import MLP
from tests.export.conftest import bundle_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def parts(card: str) -> tuple[dict[str, object], str]:
    _, front, text = card.split("---\n", 2)
    return yaml.safe_load(front), text


def test_a_card_says_what_is_known(table: LCTClassifier) -> None:
    bundle = table.bundle_
    front, text = parts(model_card(bundle, "patients", "model.onnx"))
    told = [front[name] for name in ("library_name", "license", "pipeline_tag")]
    assert told == ["lossdial", "unknown", "tabular-classification"]
    assert "onnx" in front["tags"]
    measured = {name: point for name, point in table.points.items() if point.crossfit}
    assert {"default", "steps", "clinic"} <= set(measured)
    for point in measured.values():
        for metric, estimate in point.metrics.items():
            assert f"| {metric} | {point.crossfit.get(metric, '')} | {estimate} |" in text
    _, text = parts(model_card(bundle))
    for part in (
        str(table.points["sure"].certificate),
        f"β = {bundle.training.loss['beta']:.6g}",
        "- λ: tau from 0 to 3",
        "| price | coerced | text as numbers (the unit '$')",
        *(f"`{digest}`" for digest in bundle.digests().values()),
        "nothing holds for sure on new data: default, steps, clinic.",
    ):
        assert part in text
    assert "as ONNX" not in text


def test_what_is_not_known_is_left_out() -> None:
    bundle = replace(bundle_of(MLP(4, (8,))), points={})
    _, text = parts(model_card(bundle))
    assert "kept without held-out samples" in text
    assert "labels: the column" not in text


def test_a_column_may_be_called_anything(table: LCTClassifier) -> None:
    encoder = table.bundle_.predictor.schema.encoder  # type: ignore[attr-defined]
    report = encoder.report_
    try:
        encoder.report_ = (replace(report[0], name="a | b\n# c"),)
        assert "| a \\| b # c | used |" in model_card(table.bundle_)
    finally:
        encoder.report_ = report
