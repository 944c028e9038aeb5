"""Measuring operating points: evaluate and its pages, certify, compare."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from sklearn.metrics import brier_score_loss, f1_score, roc_auc_score

from lossdial import Bundle, LCTClassifier
from lossdial.cli import main
from lossdial.dial.uncertainty.intervals import rounded
from tests.cli.conftest import INPUTS

FLOOR = ["--maximize", "precision", "--subject-to", "recall=0.85"]
COSTS = ["--cost-fn", "amount", "--cost-fp", "5"]


@pytest.fixture(scope="module")
def evaluated(run: Path, tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with three points, one certified, evaluated on the test table with all that can be asked."""
    folder = Path(shutil.copytree(run, tmp_path_factory.mktemp("evaluated") / "run"))
    val, test = str(tables / "val.csv"), str(tables / "test.csv")
    asked = [
        ["tune", "--maximize", "f1"],
        ["tune", "--minimize", "brier", "--calibration", "platt", "--name", "risk"],
        ["tune", "--data", val, *FLOOR, "--confidence", "0.95", "--name", "screening"],
        ["refer", "--data", val, "--npv", "0.97", "--precision", "0.5", "--prevalence", "0.1", "--name", "triage"],
        ["evaluate", "--data", test, "--purpose", "Warns of <failing> machines.", "--by", "site", *COSTS],
    ]
    for command, *words in asked:
        assert main([command, str(folder), *words]) == 0
    return folder


def results(folder: Path) -> tuple[Path, dict[str, Any]]:
    (file,) = folder.glob("evaluation/test-*/evaluation.json")
    return file.parent, json.loads(file.read_text())


def test_figures_are_scikit_learn_s(evaluated: Path, tables: Path) -> None:
    _, content = results(evaluated)
    frame = pd.read_csv(tables / "test.csv")
    y = (frame.state == "failing").to_numpy()
    classifier = LCTClassifier.load(evaluated)
    assert set(content["points"]) == {"default", "risk", "screening", "triage"}
    for name in ("default", "risk", "screening"):
        point, figures = content["points"][name], content["points"][name]["figures"]
        probability = classifier.predict_proba(frame[INPUTS], point=name)[:, list(classifier.classes_).index("failing")]
        predicted = classifier.predict(frame[INPUTS], point=name) == "failing"
        own = classifier.points[name]
        assert point["threshold"] == own.threshold
        assert point["model_probability"] == own.model_probability
        assert point["threshold_probability"] == own.threshold_probability
        assert figures["f1"][0] == pytest.approx(f1_score(y, predicted))
        assert figures["auc"][0] == pytest.approx(roc_auc_score(y, probability), abs=1e-6)
        assert figures["brier"][0] == pytest.approx(brier_score_loss(y, probability), abs=1e-6)
        assert all(low <= value <= high for value, low, high in figures.values())
    assert content["n_positive"] == int(y.sum())
    assert "λ" in content["verdict"]
    actions = content["points"]["triage"]["actions"]
    assert sum(map(sum, actions.values())) == len(frame)


def test_the_page_says_what_is_certified_and_shows_pictures(evaluated: Path) -> None:
    folder, content = results(evaluated)
    for name in ("precision_recall", "roc", "heat_map", "reliability", "decision_curve"):
        picture = imread(folder / f"{name}.png")
        assert picture.shape[0] > 400
        assert np.ptp(picture[..., :3]) > 0.5  # something is drawn
    page = (folder / "report.html").read_text()
    point = Bundle.load(evaluated).points["screening"]
    referred = content["points"]["triage"]["figures"]["referred"]
    for part in (
        "<td>average_precision</td>",
        "Warns of &lt;failing&gt; machines.",
        f"data <code>{point.certificate.data[:16]}</code>",
        'recall is at least</td><td class="n">0.85',
        f"at least {rounded(point.at(0.01).precision)}",
        "Not certified.",  # the default point
        "{} [{}, {}]".format(*(rounded(1000 * share, 1, 1000) for share in referred)),
        "screening by site",
        "a threshold per case costs",
        "the model&#x27;s own probability",
    ):
        assert part in page, part
    assert page.count("data:image/png;base64,") == 5
    assert not re.search(r"(?:src|href)=[\"'](?!data:)|url\(|https?:", page)  # nothing from elsewhere
    assert re.search("<h2>In short</h2>.*nothing is certified for new cases; here it flags", page, re.DOTALL)
    assert re.search(r"Of [\d,]+ cases at a share of \S+ % there are [\d,]+ failing: about [\d,]+ are flagged", page)
    assert not re.search("patient|hospital", re.sub('base64,[^"]*', "", page))


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1366)])
def test_a_page_fits_the_screen_and_follows_the_readers_theme(browser, evaluated, scheme, width):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    page.goto(next(evaluated.rglob("report.html")).as_uri())
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.locator("table").count() == page.locator(".scroll > table").count() > 0
    paper, ink = (
        sum(map(int, re.findall(r"\d+", page.evaluate(f"() => getComputedStyle(document.body).{key}"))[:3]))
        for key in ("backgroundColor", "color")
    )
    assert (paper > 600 > 200 > ink) if scheme == "light" else (paper < 120 < 600 < ink)
    context.close()


def test_samples_that_may_have_chosen_a_point_are_labelled_as_such(evaluated, tables, tmp_path, output):
    own = Path(shutil.copytree(evaluated, tmp_path / "run"))
    assert "may have been tuned on" in output("evaluate", own, "--out", tmp_path / "e")
    text = output("evaluate", own, "--data", tables / "val.csv")
    assert "screening was chosen on these samples, or some of them: its figures flatter." in text
    assert "risk was chosen on these samples" not in text  # but on those held out in training


def test_subgroups_count_groups_and_one_cost_is_for_all(own: Path, tables: Path, tmp_path: Path, output) -> None:
    words = ["evaluate", own, "--data", tables / "test.csv", "--out", tmp_path / "e"]
    assert "Exact 95 % intervals" in output(*words, "--by", "site")
    text = output(*words, "--by", "site", "--group", "patient")
    assert "Shares are over rows; their 95 % intervals count groups" in text
    assert "positives in" in text
    frame, loaded = pd.read_csv(tables / "test.csv"), LCTClassifier.load(own)
    expected = loaded.dial(frame[INPUTS], frame.state).case_costs(500, 2)
    assert f"cost, at the λ of default: {expected}." in output(*words, "--cost-fn", "500", "--cost-fp", "2")


def test_certify_on_fresh_data_and_not_on_data_that_chose(own, tables, tmp_path, output, refusal):
    output("tune", own, "--data", tables / "val.csv", "--maximize", "f1")
    assert "they cannot certify it" in refusal("certify", own, "--data", tables / "val.csv").line
    text = output("certify", own, "--data", tables / "test.csv", "--confidence", "0.9")
    certificate = Bundle.load(own).points["default"].certificate
    assert certificate.n_positive == (pd.read_csv(tables / "test.csv").state == "failing").sum()
    assert certificate.confidence == 0.9
    assert f"default: {certificate}" in text
    output("tune", own, "--data", tables / "val.csv", *FLOOR, "--confidence", "0.95")
    before = Bundle.load(own).points["default"].certificate
    pd.read_csv(tables / "test.csv").head(200).to_csv(tmp_path / "few.csv", index=False)
    text = output("certify", own, "--point", "default", "--data", tmp_path / "few.csv")
    certificate = Bundle.load(own).points["default"].certificate
    assert f"default: {certificate} In place of: {before}" in text
    assert certificate.recall < 0.85  # so few certify less
    short = f"only recall >= {certificate.recall:.4g} is."
    assert f"default: its objective, recall >= 0.85, is NOT certified here: {short}" in text


def test_compare_two_models(own: Path, run: Path, tables: Path, output) -> None:
    text = output("compare", own, run, "--data", tables / "test.csv")
    assert text.startswith("No measurable gain for any of 5")
    assert "over run; the largest" in text  # the same network
