"""Examples, and the blocks of README and the tutorials, run; an example says something sensible, and is short."""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from lossdial import LCTClassifier, Recipe
from lossdial.cli import main
from lossdial.dial import OperatingPoint

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/fraud.md", "docs/tutorials/moles.md"])
def test_the_python_of_a_page_runs_in_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "moles" in page:
        pytest.importorskip("efficientnet_lite_pytorch", reason="the extra vision is not installed")
    own: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, page, "exec"), own)
    assert isinstance(own["point"], OperatingPoint)
    if page == "README.md":
        assert own["point"].metrics["f1"].value > 0.5
    else:
        assert own["point"].certificate is not None


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_tested(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60
    assert f'"{path.stem}"' in Path(__file__).read_text()


def test_lightning_module(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")
    assert example("lightning_module").main() >= 0.8
    assert "maximise precision subject to recall >= 0.8" in capsys.readouterr().out


def test_image_folder(tmp_path: Path) -> None:
    module = example("image_folder")
    root = module.paint(tmp_path / "images")
    files, labels = module.read(root / "train")
    assert all(file.is_file() for file in files)
    assert set(labels) == {"lesion", "clear"}
    assert module.main(root) > 0.8
    words = ["train", "--data", str(root / "train/metadata.csv"), "--path-column", "file_name", "--target", "label"]
    assert main([*words, "--out", str(tmp_path / "run"), "--epochs", "1"]) == 0  # the command reads it, too


def test_lightgbm_pipeline() -> None:
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    flagged = example("lightgbm_pipeline").main()
    assert 0.01 < flagged["default"] < 0.2
    assert 0 < flagged["next year"] < flagged["default"]


@pytest.fixture
def served(tmp_path: Path) -> tuple[LCTClassifier, pd.DataFrame]:
    rng = np.random.default_rng(0)
    ill = rng.random(900) < 0.2
    towns = np.where(rng.random(900) < 0.5, "Ulm", "Bern")
    X = pd.DataFrame({"age": (rng.normal(50, 9, 900) + 12 * ill).round(1), "town": towns})
    clf = LCTClassifier(recipe=Recipe(4), random_state=0).fit(X, np.where(ill, "ill", "well"))
    clf.tune(maximize="f1")
    clf.adapt(prevalence=0.01, cost_fn=50, cost_fp=1, name="clinic")
    clf.save(tmp_path / "run")
    return clf, X


def test_serving_client(served, tmp_path, capsys):
    serving = pytest.importorskip("lossdial.serve", reason="the server is not there")
    clf, X = served
    no_page: Callable[..., Any] = lambda *_: ""  # noqa: E731 (the client asks for none)
    server = serving.Server(tmp_path / "run", no_page, port=0)
    thread = server.in_background()
    try:
        module = example("serving_client")
        client, rows = module.Client(server.address), X[:20].to_dict("records")
        for point in ("default", "clinic"):
            answer = client.predict(rows, point=point)
            assert_array_equal(answer["prediction"], clf.predict(X[:20], point=point))
            assert_array_equal(answer["probability"], clf.predict_proba(X[:20], point=point)[:, 0])
        assert "clinic" in str(client.points())
        with pytest.raises(ValueError, match=r"404: .*no operating point 'klinic'"):
            client.predict(rows, point="klinic")
        module.main(server.address, '[{"age": 61, "town": "Ulm"}]', "clinic")
        assert "not certified" in capsys.readouterr().out
    finally:
        server.stop()
        thread.join(10)
