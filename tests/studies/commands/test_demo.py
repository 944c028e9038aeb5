"""The demo: one fit against searches, on digits and on rows of a stated law."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lossdial.cli import main
from lossdial.sklearn import LCTClassifier
from lossdial_studies.commands.searches import DemoRows, Question, beside, search, words
from lossdial_studies.commands.two_kinds import KINDS_QUESTIONS, drawn, lines, one_solve, searches


@pytest.fixture(scope="module")
def parts() -> DemoRows:
    return drawn(0)


@pytest.fixture(scope="module")
def met(parts: DemoRows) -> Any:
    classifier, one = one_solve(parts, 0)
    return classifier, one, searches(parts)


def test_the_law_is_as_it_is_stated(parts: DemoRows) -> None:
    positives = parts.train[parts.y_train == 1]
    near = np.hypot(*(positives - (3.0, 0.0)).T) < np.hypot(*(positives - (-1.0, 3.0)).T)
    assert parts.y_train.mean() == pytest.approx(0.02, abs=0.004)
    assert near.mean() == pytest.approx(0.8, abs=0.07)
    assert positives[near].std(0) == pytest.approx([0.6, 0.6], abs=0.08)
    assert parts.train[parts.y_train == 0].std(0) == pytest.approx([1, 1], abs=0.03)


def test_a_search_is_a_dial_over_the_settings_it_tried(parts: DemoRows) -> None:
    def ridge(values: tuple[float, ...]) -> Any:
        return LogisticRegression(C=10 ** values[0]).fit(parts.train, parts.y_train).decision_function

    found = search("ridges", ("ridge",), [(-3.0,), (0.0,)], ridge, parts)
    assert found.trainings == 2
    assert list(found.test.lams) == [{"ridge": -3.0}, {"ridge": 0.0}]
    np.testing.assert_allclose(found.test.surface.score(1), ridge((0.0,))(parts.test))
    assert len(found.both.y) == len(parts.y_tuning) + len(parts.y_test)


def test_lam_gains_there_what_a_threshold_cannot(met: Any) -> None:
    _, one, others = met
    told = words(one, KINDS_QUESTIONS, others)
    assert re.search(r"Against logistic regression: better in [34] of 4 aims, worse in 0", told[0])
    assert "Against boosting: better in 0 of 4 aims, worse in 4" in told[2]  # which bends, and is said to
    assert "Moving λ beats moving only the threshold" in told[-1]
    sheet = beside("title", one, (Question("F1", {"maximize": "f1"}, "f1"),), others)
    assert [row[0] for row in sheet.rows] == ["F1", "trainings", "seconds"]
    assert float(sheet.rows[0][1]) > float(sheet.rows[0][2])


def test_the_two_lines_of_the_picture_are_where_the_model_decides(met: Any, parts: DemoRows) -> None:
    classifier, _, _ = met
    figure = lines(classifier, parts)
    for line, name in zip(figure.axes[0].lines, ("F1", "balanced accuracy"), strict=True):
        point = classifier.points[name]
        (x, y), (dx, dy) = line.get_xy1(), np.subtract(line.get_xy2(), line.get_xy1())
        along = np.array([(x, y) + s / np.hypot(dx, dy) * np.array([dx, dy]) for s in (-1.0, 0.0, 2.0)])
        np.testing.assert_allclose(classifier.decision_function(along, lam=point.lam), point.threshold, atol=1e-3)


def test_the_demo_writes_a_model_pictures_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path / "demo"), "--epochs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "Against VS search" in printed
    assert "Is moving λ worth it here?" in printed
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<table>") == 3
    assert page.count("<img") == 2
    assert "AUC" in LCTClassifier.load(tmp_path / "demo" / "model").points
