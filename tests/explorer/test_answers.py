"""Jumps, certificates and points of the page against what Python chooses."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lossdial.dial import Dial, Objective
from lossdial.dial.choice.selection import select
from lossdial.explorer import read_points
from tests.explorer.conftest import Open, dial_of
from tests.explorer.figures import printed


@pytest.mark.parametrize("share", [None, 0.01, 0.6])
def test_jumps_land_where_tuning_does(opened: Open, share: float | None) -> None:
    dial = dial_of(decimals=3)
    where = "" if share is None else f"&prevalence={share}"
    found = opened(dial, f"#fn=7&fp=2&recall=0.85&alerts=120{where}")
    for button, objective in (
        ("cost", Objective(minimize="expected_cost", cost_fn=7, cost_fp=2, prevalence=share)),
        ("recall", Objective(maximize="precision", subject_to={"recall": 0.85}, prevalence=share)),
        ("budget", Objective(maximize="recall", subject_to={"alert_rate": 0.12}, prevalence=share)),
    ):
        found.click(f"#jump-{button}")
        chosen = select(dial.surface, objective)
        column, threshold, _ = found.shown()
        assert (column, threshold) == (chosen.index, chosen.threshold), button
        assert found.state("origin") == str(objective)
        found.check(dial)
        assert found.page.locator("#said").text_content()


def test_a_jump_among_equals_lands_where_tuning_does(opened: Open) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [200, 40])
    lams = [{"gamma": g, "tau": t} for g in (0.0, 0.5) for t in (0.0, 1.0, 2.0)]
    # Every λ finds all positives; the first and the last of them raise no false alarm for it.
    lowest = [300.0, 190.0, 180.0, 170.0, 185.0, 300.0]
    scores = np.stack([np.r_[rng.permutation(200), low + np.arange(40) / 64] for low in lowest], axis=1) / 64
    for plain, wanted in ((None, 0), (lams[5], 5)):
        dial = Dial(y, scores, lams, plain=plain)
        found = opened(dial, "#recall=0.95&alerts=400")
        objectives = (
            ("recall", Objective(maximize="precision", subject_to={"recall": 0.95})),
            ("budget", Objective(maximize="recall", subject_to={"alert_rate": 0.4})),
        )
        for button, objective in objectives:
            found.click(f"#jump-{button}")
            chosen = select(dial.surface, objective)
            assert chosen.index == wanted
            assert found.shown()[:2] == (chosen.index, chosen.threshold), button


def test_what_a_jump_says_is_in_pythons_figures(opened: Open) -> None:
    dial = dial_of()
    found = opened(dial, "#fn=7&fp=2&recall=0.85")
    found.click("#jump-cost")
    column, threshold, setting = found.shown()
    cost = found.expected(dial, column, threshold, setting)["expected_cost"].value
    for part in (f"{1000 * cost:.1f} per 1,000 people", f"{1000 * setting.prevalence * 7:.1f} if nobody is alarmed"):
        assert part in found.page.locator("#said").text_content()
    found.click("#jump-recall")
    assert f"at least {100 * 0.85:.1f} %" in found.page.locator("#said").text_content()


@pytest.mark.parametrize("lams", [1, 12])
def test_the_certified_point_is_pythons(opened: Open, lams: int, tmp_path: Path) -> None:
    dial = dial_of(n=1600, positives=300, decimals=4)
    if lams == 1:
        dial = Dial(dial.y, np.asarray(dial.scores)[:, 5])
    found = opened(dial, "#recall=0.95")
    found.click("#jump-certified")
    point = dial.tune(maximize="precision", subject_to={"recall": 0.95}, confidence=0.95)
    column, threshold, setting = found.shown()
    assert dict(dial.lams[column]) == dict(point.lam)
    score = dial.surface.score(column)
    np.testing.assert_array_equal(score > threshold, point.predict(score))
    assert threshold == point.threshold
    assert found.page.locator("#threshold-value").text_content() == f"{point.threshold:.6g}"
    certificate = found.state("certificate")
    assert certificate == "at 95 %: " + ", ".join(str(bound) for bound in point.certificate.bounds)
    precise = point.at(prevalence=setting.prevalence).precision
    said = found.page.locator("#said").text_content()
    assert said.startswith("Certified: with 95 % confidence this point catches at least 95.0 %")
    assert f"at least {100 * precise:.1f} % of the alarms are right" in said
    found.page.fill("#point-name", "sure")
    found.page.click("#adding button[type=submit]")
    found.slide("#threshold", 3)
    assert found.state("exact") is None
    found.click('button[aria-label="Show sure"]')
    assert found.shown()[:2] == (column, point.threshold)
    with found.page.expect_download() as download:
        found.page.click("#save")
    download.value.save_as(tmp_path / "points.json")
    (saved,) = read_points(tmp_path / "points.json")
    assert saved.threshold == point.threshold
    assert f"{saved.threshold_probability:.4g}" == f"{point.threshold_probability:.4g}"


def test_what_cannot_be_certified_says_the_price(opened: Open) -> None:
    found = opened(dial_of(n=200, positives=25))
    before = found.shown()
    found.page.click("#jump-certified")
    said = found.page.locator("#said").text_content()
    assert "takes 59 positives held back" in said
    assert "there are 13" in said
    assert f"{100 * math.floor(0.05 ** (1 / 13) * 1000) / 1000:.1f} % can be certified now" in said
    assert found.shown() == before
    weighted = dial_of(sample_weight=np.linspace(1, 2, 400))
    found = opened(weighted)
    found.page.click("#jump-certified")
    assert "Rows with weights cannot certify" in found.page.locator("#said").text_content()
    found.check(weighted)


def test_points_are_compared_and_saved_as_python_reads_them(opened: Open, tmp_path: Path) -> None:
    dial = dial_of()
    tuned = dial.tune(maximize="f1", name="from Python")
    sure = dial.tune(maximize="precision", subject_to={"recall": 0.7}, confidence=0.8, name="sure")
    found = opened(dial)
    page = found.page
    page.fill("#prevalence", "2")
    found.click("#jump-cost")
    column, threshold, setting = found.shown()
    page.fill("#point-name", "clinic")
    page.click("#adding button[type=submit]")
    page.fill("#point-name", "clinic")
    page.click("#adding button[type=submit]")
    assert "already a point named clinic" in page.locator("#points-said").text_content()
    for name, (at, cut) in {
        "from Python": (dial.surface.column(tuned.lam), tuned.threshold),
        "sure": (dial.surface.column(sure.lam), sure.threshold),
        "clinic": (column, threshold),
    }.items():
        for key, figure in found.expected(dial, at, cut, setting).items():
            assert found.figure(key, name).strip() == printed(figure), (name, key)
    assert str(sure.certificate) in page.locator("#compare").text_content()
    with page.expect_download() as download:
        page.click("#save")
    path = tmp_path / "points.json"
    download.value.save_as(path)
    read = {point.name: point for point in read_points(path)}
    assert list(read) == ["from Python", "sure", "clinic"]
    assert read["from Python"].to_json() == tuned.to_json()
    clinic = read["clinic"]
    assert clinic.lam == dial.lams[column]
    assert clinic.threshold == threshold
    assert clinic.objective == Objective(minimize="expected_cost", cost_fn=10, cost_fp=1, prevalence=0.02)
    assert clinic.description == str(clinic.objective)
    assert clinic.certificate is None
    adapted = dial.tune(objective=clinic.objective, name="clinic")
    score = dial.surface.score(column)
    np.testing.assert_allclose(clinic.probability(score), adapted.probability(score), rtol=1e-12)
    np.testing.assert_array_equal(clinic.predict(score), adapted.predict(score))
    expected = found.expected(dial, column, threshold, setting)
    for key, estimate in clinic.metrics.items():
        assert estimate == expected[key]
    assert json.loads(path.read_text())["evidence"]
    page.click('button[aria-label="Remove clinic"]')
    assert page.locator('[data-point="clinic"]').count() == 0
    found.click('button[aria-label="Show from Python"]')
    assert found.figure("recall") == found.figure("recall", "from Python")
