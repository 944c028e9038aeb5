"""`lossdial export`."""

from pathlib import Path

import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lossdial.cli import main

pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")


def test_a_model_and_its_card(run: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lossdial import OnnxModel

    words = ["--onnx", str(tmp_path / "deep/m.onnx"), "--card", str(tmp_path / "MODEL_CARD.md")]
    assert main(["export", str(run), *words, "--data", str(tables / "val.csv")]) == 0
    said = capsys.readouterr().out
    assert "the same as Python on 1,803 rows, in batches of 1, 2, 1,000" in said
    assert "inputs: heat, wear, kind, point, lam.gamma, lam.tau, threshold, prevalence" in said
    assert (tmp_path / "MODEL_CARD.md").read_text().startswith("---\nlicense: unknown\nlibrary_name: lossdial\n")
    out = tmp_path / "out.parquet"
    assert main(["predict", str(run), "--data", str(tables / "new.parquet"), "--out", str(out)]) == 0
    expected = pd.read_parquet(out)
    found = OnnxModel(tmp_path / "deep/m.onnx").decide(pd.read_parquet(tables / "new.parquet"))
    assert_array_equal(found.label, expected["prediction"])
    assert_allclose(found.probability, expected["probability"], atol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{run}"], "give --onnx FILE for the model, --card FILE for its card, or both."),
        (["{run}x", "--onnx", "{tmp}/m.onnx"], "{run}x does not exist; a model is the folder that"),
        (
            ["{run}", "--onnx", "{tmp}/file/m.onnx"],
            "must lie in a folder that can be made (File exists)",
        ),
        (["{run}", "--onnx", "{tmp}/m.pb"], "--onnx must be a file that ends in .onnx"),
        (["{run}", "--card", "{tmp}/card.txt"], "--card must end in .md"),
        (["{run}", "--onnx", "{tmp}/m.onnx", "--point", "clinc"], "no operating point 'clinc'; there are 'default'."),
    ],
)
def test_mistakes_are_told_in_a_line(
    words: list[str], message: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    places = {"run": run, "tmp": tmp_path}
    assert main(["export", *(word.format(**places) for word in words)]) == 2
    said = capsys.readouterr().err
    assert message.format(**places) in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
