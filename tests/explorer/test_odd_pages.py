"""Pages of unusual data: names that are markup, few rows, no labels, pictures."""

import numpy as np
import pytest

from lossdial.dial import Dial
from lossdial.dial.metrics.registry import as_metric, best, expected_cost
from lossdial.dial.points import spell_threshold
from lossdial.dial.uncertainty.intervals import noise_over_lam, rounded
from lossdial.explorer import Unlabelled
from tests.explorer.conftest import Open, counts_at, dial_of, sizes_of
from tests.explorer.figures import referred, wilson


def test_names_are_text(opened: Open) -> None:
    nasty = (
        "</script><script>document.title='hacked'</script><!-- <img src=x onerror=\"document.title='hacked'\"><b>bold"
    )
    nasty += " & \u2028 {{script}}"
    rng = np.random.default_rng(0)
    y = rng.random(200) < 0.4
    dial = Dial(y, rng.normal(size=(200, 4)) + y[:, None], [{nasty: a, "b": b} for a in (0.0, 1.0) for b in (0.0, 1.0)])
    dial.tune(maximize="f1", name=nasty)
    found = opened(dial, title=nasty, classes=(nasty, nasty), noun=nasty)
    found.page.fill("#point-name", nasty)
    found.click("#adding button[type=submit]")
    found.click("#jump-cost")
    assert "hacked" not in found.page.title().replace(nasty, "")
    assert found.page.locator("main b b, main img").count() == 0
    assert found.page.locator("h1").text_content() == nasty
    assert found.requests == [found.path.as_uri()]


@pytest.mark.parametrize("kind", ["one column", "one positive", "three axes", "scattered", "one axis", "two rows"])
def test_odd_surfaces_have_a_page(opened: Open, kind: str) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 10 == 0
    base = rng.normal(size=300) + 2 * y
    if kind == "one column":
        dial = Dial(y, base)
    elif kind == "one positive":
        dial = Dial(np.arange(300) == 7, base[:, None] + np.zeros(3), [{"C": c} for c in (0.01, 0.1, 1.0)])
    elif kind == "two rows":
        dial = Dial([0, 1], [0.0, 1.0])
    else:
        if kind == "three axes":
            lams = [{"tau": t, "ridge": r, "phi": p} for t in (0.0, 1.0) for r in (1e-4, 1e-2, 1.0) for p in (0.0, 2.0)]
        elif kind == "scattered":
            lams = [{"tau": t, "gamma": g} for t, g in zip(rng.random(9).tolist(), rng.random(9).tolist(), strict=True)]
        else:
            lams = [{"ridge": r, "tau": 1.0} for r in (1e-4, 1e-3, 1e-2, 1e-1)]
        dial = Dial(y, base[:, None] + 0.3 * rng.normal(size=(300, len(lams))), lams)
    found = opened(dial)
    found.check(dial)
    for button in ("cost", "recall", "budget", "certified"):
        found.click(f"#jump-{button}")
        found.check(dial)
    free = found.page.locator("#lam input").count()
    assert free == {"one positive": 1, "three axes": 3, "scattered": 2, "one axis": 1}.get(kind, 0)
    assert found.page.locator("#map").is_visible() == (free > 0)
    if kind == "three axes":
        found.page.select_option("#map-x", "phi")
        found.settle()
        assert found.page.locator("#map .cell").count() == 4
    if kind == "one positive":
        for plot in ("pr", "cost"):
            assert found.page.locator(f"#{plot} .plot circle.now").is_visible(), plot
        assert found.page.locator("#cost .plot path.dashed").bounding_box()["width"] > 100
        assert "There is 1 positive" in found.page.locator("#notes").text_content()
        assert "Not certified" in found.page.locator("#said").text_content()


def test_without_labels_it_shows_alerts(opened: Open) -> None:
    dial = dial_of()
    point = dial.tune(maximize="f1", name="ours")
    scores = np.asarray(dial.scores)
    found = opened(Unlabelled(scores, dial.lams), points=[point])
    page = found.page
    assert "have no labels" in page.locator("#notes").text_content()
    assert opened(Unlabelled(scores, dial.lams)).state("follow") == "budget"
    hidden = "#pr #roc #people #map #jump-cost #jump-certified #prevalence #floor #confidence"
    assert not [selector for selector in hidden.split() if page.locator(selector).is_visible()]
    for visible in ("#scores", "#budget", "#threshold", "#jump-budget", "#lam-0", "#compare"):
        assert page.locator(visible).is_visible(), visible
    column = dial.surface.column(point.lam)
    assert found.figure("alert_rate", "ours").strip() == str(
        wilson(float(np.mean(point.predict(scores[:, column]))), 400)
    )
    page.fill("#budget", "150")
    found.click("#jump-budget")
    for value in range(4):
        found.slide("#lam-1", value)
        at, threshold = page.evaluate(
            "() => { const { state: s, model } = explorer.store; return [s.column, model.threshold(s.column, s.cut)] }"
        )
        share = float(np.mean(scores[:, at].astype(float) > threshold))
        assert share <= 0.15
        assert found.figure("alert_rate").strip() == str(wilson(share, 400))


def test_pictures_follow_the_threshold(opened: Open) -> None:
    weight = np.ones(400)
    weight[:50] = 0  # rows that do not count keep their number
    dial = dial_of(sample_weight=weight)
    pictures = np.random.default_rng(0).integers(0, 255, (400, 20, 20), dtype=np.uint8)
    found = opened(dial, "#hold=recall&recall=0.8", images=pictures)
    column, threshold, _ = found.shown()
    y, score = dial.y[50:], dial.surface.score(column)
    alarms = np.flatnonzero((y == 0) & (score > threshold)) + 50
    missed = np.flatnonzero((y == 1) & (score <= threshold)) + 50
    for kind, rows, sign in (("alarms", alarms, -1), ("missed", missed, 1)):
        texts = found.page.locator(f"#{kind} li").all_text_contents()
        numbers = [int(text.split(",")[0].removeprefix("row ")) for text in texts]
        assert set(numbers) <= set(rows.tolist())
        assert len(numbers) == min(12, len(rows))
        assert (sign * score[np.array(numbers) - 50]).tolist() == sorted((sign * score[rows - 50]).tolist())[:12]
    assert found.page.locator("#alarms img").evaluate_all("all => all.every(i => i.complete && i.naturalWidth > 0)")
    found.slide("#threshold", 0)
    assert found.page.locator("#missed").text_content() == "None at this threshold."


def test_what_is_inside_the_noise_at_my_settings_is_what_resampling_finds(opened: Open) -> None:
    """The page's closed form against the bootstrap: they may part at the border, which is a matter of luck."""
    dial = dial_of(n=6000, positives=1500, shape=(9, 9), decimals=5)
    found = opened(dial, "#fn=5&recall=0.6")
    asked = {"cost": best(expected_cost(5, 1, dial.surface.prevalence)), "recall": as_metric("precision_at_recall@0.6")}
    for name, metric in asked.items():
        found.page.select_option("#metric", name)
        found.settle()
        cells = found.page.locator("#map .cell").evaluate_all(
            "all => all.map(c => [+c.dataset.column, c.matches('.same')])"
        )
        grey = np.array([same for _, same in sorted(cells)])
        (noise,) = noise_over_lam(dial.surface, [metric], resamples=150)
        expected = noise.inside
        grey[noise.best] = expected[noise.best]
        assert 0 < np.count_nonzero(expected) < 81, name
        assert np.mean(grey == expected) > 0.85, (name, np.mean(grey == expected))


@pytest.mark.parametrize("prevalence", [0.15, 0.004])
def test_a_referral_band_is_shown_by_class(opened: Open, prevalence: float) -> None:
    dial = dial_of(n=3000, positives=450)
    band = dial.refer(npv=0.95, precision=0.4, prevalence=0.15)
    assert -np.inf < band.lower < band.threshold < np.inf
    found = opened(dial, f"#prevalence={prevalence}", points=[band])
    page = found.page
    assert page.locator("#referral").is_visible()
    assert str(band) in page.locator("#referral .hint").first.text_content()
    found.click("#referral button")
    column = dial.surface.column(band.lam)
    assert found.state("column") == column
    assert page.locator("#scores .referred").count() >= 1
    assert not page.locator("#referral button").is_visible()
    labels = band.actions(dial.surface.score(column))
    digits = 2 if prevalence < 0.01 else 1
    cuts = (counts_at(dial, column, cut) for cut in (band.lower, band.threshold))
    for kind, (positive, negative) in referred(*cuts, sizes_of(dial), prevalence).items():
        shares = [np.mean(labels[dial.surface.y == value] == kind) for value in (1, 0)]
        assert (positive, negative) == pytest.approx(
            (1000 * prevalence * shares[0], 1000 * (1 - prevalence) * shares[1]), abs=1e-6
        )
        for side, value in (("positive", positive), ("negative", negative), ("all", positive + negative)):
            assert page.locator(f'[data-referral="{kind} {side}"]').text_content() == rounded(value, digits, np.inf)


def test_an_end_that_nothing_certifies_is_shown_as_none(opened: Open) -> None:
    dial = dial_of()
    band = dial.refer(npv=0.99, precision=0.999, prevalence=0.01)
    assert band.threshold == np.inf
    found = opened(dial, points=[band])
    rows = found.page.locator("#referral table tbody th").all_text_contents()
    assert rows == [f"clear: score up to {spell_threshold(band.lower)}", "refer: in between", "act: none"]
    assert found.page.locator('[data-referral="act all"]').text_content() == "0.0"


def test_a_lam_off_the_grid_takes_little_room_on_the_map(opened: Open) -> None:
    dial = dial_of()
    scores = np.column_stack([np.asarray(dial.scores), np.asarray(dial.scores)[:, 0]])
    found = opened(Dial(dial.y, scores, [*dial.lams, {"gamma": 0.1, "tau": 0.7}]), "#map=auc")
    box = {k: found.page.locator(f'#map .cell[data-column="{k}"]').bounding_box() for k in (0, 12)}
    assert box[12]["width"] < 0.5 * box[0]["width"]
    assert box[12]["height"] < 0.5 * box[0]["height"]
    ticks = found.page.locator("#map svg text").all_text_contents()
    assert {"0", "0.25", "0.5"} <= set(ticks)
    assert not {"0.1", "0.7"} & set(ticks)
    found.page.locator('#map .cell[data-column="12"]').click()
    found.settle()
    assert found.state("column") == 12
