"""Where a page opens, and how a threshold is told on it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lossdial.dial import Objective
from lossdial.dial.calibration import Beta, Isotonic, Platt, Temperature, calibration_to_json
from lossdial.explorer import Unlabelled
from tests.explorer.conftest import Open, dial_of


def test_a_page_opens_at_the_models_own_point(opened: Open) -> None:
    dial = dial_of(decimals=4)
    dial.tune(maximize="balanced_accuracy", name="other")
    point = dial.tune(maximize="f1", name="default")
    found = opened(dial)
    column, threshold, setting = found.shown()
    assert (dial.lams[column], threshold) == (point.lam, point.threshold)
    assert setting.prevalence == dial.surface.prevalence
    assert found.state("follow") == "hand"
    assert found.state("origin") == str(Objective(maximize="f1"))
    assert "the model's own point: maximise f1" in found.page.locator("#said").text_content()
    assert found.page.locator("#costs-note").is_visible()
    assert found.state("metric") == "auc"  # no figure of costs that nobody gave
    found.check(dial)
    found.page.wait_for_timeout(300)
    again = opened(dial, found.page.evaluate("() => location.hash"))
    assert again.shown() == found.shown()
    assert again.state("origin") == found.state("origin")
    found.page.fill("#cost-fn", "25")
    assert not found.page.locator("#costs-note").is_visible()
    found.slide("#threshold", 3)
    assert found.state("origin") == ""
    found.click("#reset")
    assert found.shown() == (column, threshold, setting)


def test_without_a_point_it_opens_at_the_untuned_models_threshold(opened: Open) -> None:
    dial = dial_of(decimals=4)
    found = opened(dial)
    column, threshold, _ = found.shown()
    assert column == dial.surface.by_plainness[0]
    score = dial.surface.score(column)[dial.surface.labels]
    assert abs(threshold) <= np.abs(np.diff(np.sort(score))).max()
    found = opened(Unlabelled(np.asarray(dial.scores), dial.lams))
    assert dial.lams[found.state("column")] == {"gamma": 0.25, "tau": 1.0}


def test_calibrated_probabilities_are_pythons(javascript: Callable[..., Any]) -> None:
    steps = Isotonic((-1.0, 0.0, 0.5, 2.0), (0.01, 0.2, 0.2, 0.9))
    maps = [None, Temperature(1.7), Platt(0.6, -1.1), Beta(0.8, 1.3, -0.4), steps]
    scores = [-30.0, -1.0, -0.4, 0.0, 0.3, 0.5, 1.1, 2.0, 7.0]
    asked = [None if each is None else calibration_to_json(each) for each in maps]
    call = "given[0].map((map) => given[1].map((score) => calibrated(map, score)))"
    for each, found in zip(maps, javascript("model", call, [asked, scores]), strict=True):
        expected = scores if each is None else each.apply(np.array(scores))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("share", [None, 0.02])
def test_a_point_of_least_cost_brings_its_setting_and_tells_its_threshold_in_two_units(opened, share):
    dial = dial_of(decimals=4)
    point = dial.tune(minimize="expected_cost", cost_fn=40, cost_fp=2, prevalence=share, name="clinic")
    assert abs(point.model_probability - point.threshold_probability) > 0.01
    found = opened(dial)
    column, threshold, setting = found.shown()
    assert (dial.lams[column], threshold) == (point.lam, point.threshold)
    assert (setting.prevalence, setting.cost_fn, setting.cost_fp) == (share or dial.surface.prevalence, 40, 2)
    assert not found.page.locator("#costs-note").is_visible()
    found.check(dial)
    told = f"the model's own probability {point.model_probability:.3g}, calibrated {point.threshold_probability:.3g}; "
    assert found.page.locator("#threshold-note").text_content().startswith(told)
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    rows = {name: row for name, *row in found.page.locator("#compare tbody tr").evaluate_all(cells)}
    assert rows["– as the model's own probability"] == [f"{point.model_probability:.3g}"] * 2
    assert rows["– as the calibrated probability"] == [f"{point.threshold_probability:.3g}"] * 2


@pytest.mark.parametrize("address", ["#hold=hand", "#hold=recall&recall=0.8", "#prevalence=0.05&hold=cost&fn=30"])
def test_the_dot_of_the_decision_curve_is_the_point(opened: Open, address: str) -> None:
    found = opened(dial_of(n=2000, positives=200, decimals=4), address)
    column, threshold, setting = found.shown()
    probability = found.page.evaluate(
        "given => explorer.model.probability(...given)", [column, threshold, setting.prevalence]
    )
    dial = dial_of(n=2000, positives=200, decimals=4)
    figure = found.expected(dial, column, threshold, setting)
    odds = probability / (1 - probability)
    weight = (1 - setting.prevalence) * odds
    benefit = setting.prevalence * figure["recall"].value - weight * (1 - figure["specificity"].value)
    drawn = found.page.evaluate(
        "() => { const { plot } = explorer.charts.find((c) => c.host?.id === 'decision');"
        " const dot = document.querySelector('#decision .plot circle.here');"
        " return [plot.x.invert(+dot.getAttribute('cx')), plot.y.invert(+dot.getAttribute('cy'))] }"
    )
    assert drawn == [pytest.approx(probability, abs=1e-6), pytest.approx(benefit, abs=1e-6)]


@pytest.mark.parametrize(("width", "count", "more"), [(1366, 4, False), (1366, 9, True), (390, 2, True)])
def test_a_table_that_is_wider_than_its_place_says_so(opened: Open, width: int, count: int, more: bool) -> None:
    dial = dial_of()
    for k in range(count):
        dial.tune(maximize="precision", subject_to={"recall": 0.5 + 0.05 * k}, name=f"at least {50 + 5 * k} % recall")
    found = opened(dial, width=width)
    place = found.page.locator("#points .scroll")
    assert place.evaluate("box => box.scrollWidth > box.clientWidth + 1") is more
    assert found.page.locator("#compare-more").is_visible() is more
    assert place.evaluate("box => getComputedStyle(box).backgroundAttachment") == "local, scroll"
