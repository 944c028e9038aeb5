import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from sklearn.metrics import brier_score_loss, f1_score, roc_auc_score

from lossdial import LCTClassifier
from lossdial.cli import main


@pytest.fixture(scope="module")
def evaluated(run: Path, tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = Path(shutil.copytree(run, tmp_path_factory.mktemp("evaluated") / "run"))
    assert main(["tune", str(own), "--maximize", "f1"]) == 0
    assert main(["tune", str(own), "--minimize", "brier", "--calibration", "platt", "--name", "risk"]) == 0
    assert main(["evaluate", str(own), "--data", str(tables / "val.csv")]) == 0
    return own


def test_figures_are_scikit_learn_s(evaluated: Path, tables: Path) -> None:
    (file,) = evaluated.glob("evaluation/val-*/evaluation.json")
    found = json.loads(file.read_text())
    frame = pd.read_csv(tables / "val.csv")
    y = (frame.state == "failing").to_numpy()
    classifier, rows = LCTClassifier.load(evaluated), frame[["heat", "wear", "kind"]]
    assert set(found["points"]) == {"default", "risk"}
    for name, point in found["points"].items():
        figures = point["figures"]
        probability = classifier.predict_proba(rows, point=name)[:, list(classifier.classes_).index("failing")]
        predicted = classifier.predict(rows, point=name) == "failing"
        own = classifier.points[name]
        told = (point["threshold"], point["model_probability"], point["threshold_probability"])
        assert told == (own.threshold, own.model_probability, own.threshold_probability)
        assert figures["f1"][0] == pytest.approx(f1_score(y, predicted))
        assert figures["auc"][0] == pytest.approx(roc_auc_score(y, probability), abs=1e-6)
        assert figures["brier"][0] == pytest.approx(brier_score_loss(y, probability), abs=1e-6)
        assert all(low <= value <= high for value, low, high in figures.values())
    assert found["n_positive"] == int(y.sum())
    assert "λ" in found["verdict"]


def test_pictures_and_page(evaluated: Path) -> None:
    (folder,) = evaluated.glob("evaluation/val-*")
    for name in ("precision_recall", "roc", "heat_map", "reliability", "decision_curve"):
        picture = imread(folder / f"{name}.png")
        assert picture.shape[0] > 400
        assert np.ptp(picture[..., :3]) > 0.5  # something is drawn
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 5
    assert "<td>average_precision</td>" in page
    assert "http" not in page  # it needs nothing from elsewhere


def test_held_out_rows_are_labelled_as_such(
    evaluated: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["evaluate", str(evaluated), "--out", str(tmp_path / "e"), "--heat-map", "max_f1"]) == 0
    assert "may have been tuned on" in capsys.readouterr().out
    assert main(["evaluate", str(evaluated), "--heat-map", "auk"]) == 2
    assert "Did you mean 'auc'?" in capsys.readouterr().err.replace("\n", " ")


def test_a_point_that_was_chosen_on_these_samples_is_told(
    evaluated: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Path(shutil.copytree(evaluated, tmp_path / "run"))
    data = ["--data", str(tables / "val.csv")]
    assert main(["tune", str(own), *data, "--maximize", "f1", "--name", "here"]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(own), *data]) == 0
    told = capsys.readouterr().out.replace("\n", " ")
    assert "here was chosen on these samples, or some of them: its figures flatter." in told
    assert "risk was chosen on these samples" not in told  # on those held out in training
