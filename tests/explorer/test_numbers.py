"""Every control moved in a real browser, every printed figure against Python's."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lossdial.dial import Objective
from lossdial.dial.choice.selection import select
from lossdial.dial.uncertainty.intervals import rounded
from lossdial.explorer.people import adding_up
from tests.explorer.conftest import Open, dial_of
from tests.explorer.figures import Setting, Sizes, figures, people_at


def test_numbers_print_as_pythons(javascript: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    values = [0.0, -0.0, 0.0625, 0.1875, 0.5, 1.5, 2.5, 0.0005, 0.0015, 1e-9, -0.0004, 0.9999999, 1e16]
    values += [123456.5, 999999.5]
    values += [k / 64 for k in range(-70, 70)] + [k / 1000 for k in range(50)] + [k / 2000 for k in range(50)]
    values += (rng.normal(size=1500) * 10.0 ** rng.integers(-8, 8, 1500)).tolist()
    for digits in (0, 1, 3):
        found = javascript("format", "given[0].map((x) => fixed(x, given[1]))", [values, digits])
        assert found == [f"{x:.{digits}f}" for x in values]
    for digits in (1, 4, 6):
        found = javascript("format", "given[0].map((x) => general(x, given[1]))", [values, digits])
        assert found == [f"{x:.{digits}g}" for x in values]
    for digits, limit in ((3, 1), (1, 100), (1, 1e308)):
        found = javascript("format", "given[0].map((x) => rounded(x, given[1], given[2]))", [values, digits, limit])
        assert found == [rounded(x, digits, limit) for x in values]
    whole = [0, 7, 999, 1000, 13335, 1234567]
    assert javascript("format", "given.map(grouped)", whole) == [f"{n:,}" for n in whole]
    assert javascript("format", "[fixed(NaN, 2), fixed(Infinity, 1), general(-Infinity, 3)]") == ["nan", "inf", "-inf"]


def test_figures_are_pythons_to_the_last_bit(javascript: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    costs = rng.uniform(0.1, 500, (400, 2)).tolist()
    counts = zip(rng.integers(0, 61, 400).tolist(), rng.integers(0, 341, 400).tolist(), strict=True)
    asked = [[*pair, float(rng.random() * 0.9 + 0.001), *cost] for pair, cost in zip(counts, costs, strict=True)]
    asked += [[tp, fp, share, 10.0, 1.0] for tp in (0, 1, 60) for fp in (0, 1, 340) for share in (0.15, 0.002)]
    sizes = Sizes(60, 340, 47.5, 300.25)
    call = (
        "given.map(([tp, fp, prevalence, costFn, costFp]) => Object.values(figuresAt(tp, fp, { positive: 60,"
        " negative: 340, effective_positive: 47.5, effective_negative: 300.25 }, { prevalence, costFn, costFp }))"
        ".map(({ value, low, high }) => [value, low, high].map(String)))"
    )
    for (tp, fp, share, fn_cost, fp_cost), found in zip(asked, javascript("figures", call, asked), strict=True):
        expected = figures(tp, fp, sizes, Setting(share, fn_cost, fp_cost)).values()
        for texts, e in zip(found, expected, strict=True):
            got = [float(text.replace("NaN", "nan")) for text in texts]
            np.testing.assert_array_equal(got, [e.value, e.low, e.high])


def test_counts_of_people_add_up_and_round_nobody_away(javascript: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    sizes = Sizes(1000, 10**6, 1000, 10**6)
    asked = [
        people_at(float(rng.integers(0, 1001)), float(rng.integers(0, 10**6)), sizes, 10.0 ** rng.uniform(-5, -0.1))
        for _ in range(500)
    ]
    asked += [people_at(tp, fp, sizes, 0.002) for tp in (0, 1, 500, 873, 1000) for fp in (0, 3, 10**6)]
    call = "given.map((parts) => { const { text, ...counts } = addingUp(parts, 0); return [counts, text(1)] })"
    for parts, (counts, unit) in zip(asked, javascript("figures", call, asked), strict=True):
        expected, digits = adding_up(parts)
        assert (counts, unit) == (expected, f"{10.0**-digits:.{digits}f}")
        assert sum(counts.values()) == 1000 * 10**digits
        alarms = 10**digits * (parts["caught"] + parts["false_alarms"])  # as the tile beside the sentence rounds them
        assert counts["caught"] + counts["false_alarms"] == int(alarms + 0.5)
        for kind, value in parts.items():
            assert abs(counts[kind] - value * 10**digits) <= 1.5, kind
            assert (counts[kind] > 0) == (value > 0 and (digits == 6 or value * 10**digits >= 1)) or digits == 6


def test_it_opens_from_the_disk_asks_for_nothing_and_agrees(opened: Open) -> None:
    dial = dial_of()
    found = opened(dial)
    found.check(dial)
    assert found.requests == [found.path.as_uri()]


def test_every_control_moves_the_numbers(opened: Open) -> None:
    dial = dial_of()
    found = opened(dial)
    page = found.page
    for selector, value, key, expected in (
        ("#prevalence-slider", 8, "prevalence", 0.0015),
        ("#cost-fn-slider", 15, "costFn", 100),
        ("#cost-fp-slider", 8, "costFp", 5),
        ("#floor-slider", 16, "floor", 0.8),
        ("#budget-slider", 12, "budget", 40),
    ):
        found.slide(selector, value)
        assert found.state(key) == expected, selector
        found.check(dial)
    for selector, text, key, expected in (
        ("#prevalence", "7.1", "prevalence", 0.071),
        ("#cost-fn", "12.5", "costFn", 12.5),
        ("#cost-fp", "0.3", "costFp", 0.3),
        ("#floor", "93.5", "floor", 0.935),
        ("#budget", "33", "budget", 33),
    ):
        page.fill(selector, text)
        found.settle()
        assert found.state(key) == expected, selector
        found.check(dial)
    for follow in ("recall", "budget", "cost", "hand"):
        page.check(f'input[name="follow"][value="{follow}"]')
        for position, value in ((0, 2), (1, 3), (0, 0), (1, 1)):
            found.slide(f"#lam-{position}", value)
            name = ("gamma", "tau")[position]
            assert dial.lams[found.state("column")][name] == sorted({lam[name] for lam in dial.lams})[value]
            found.check(dial)
        assert found.state("follow") == follow
    for cut in (0, 5, 17, int(page.get_attribute("#threshold", "max"))):
        found.slide("#threshold", cut)
        assert found.state("follow") == "hand"
        found.check(dial)
    page.select_option("#confidence", "0.99")
    assert found.state("confidence") == 0.99
    for metric in page.locator("#metric option").evaluate_all("all => all.map(option => option.value)"):
        page.select_option("#metric", metric)
        found.settle()
        assert page.locator("#map .cell").count() == 12
    found.click("#reset")
    assert found.state("costFn") == 10
    found.check(dial)


def test_a_threshold_follows_what_it_is_told_to(opened: Open) -> None:
    dial = dial_of()
    found = opened(dial, "#hold=recall&recall=0.9")
    for value in range(4):
        found.slide("#lam-1", value)
        column, threshold, _ = found.shown()
        score = dial.surface.score(column)[dial.surface.labels]
        assert np.mean(score > threshold) >= 0.9
        higher = np.unique(score[score > threshold])
        best = Objective(maximize="precision", subject_to={"recall": 0.9})
        assert select(dial.surface.at(column), best).threshold == threshold
        assert higher.size
    found = opened(dial, "#hold=hand&threshold=-0.5")
    before = found.figure("recall")
    found.slide("#lam-1", 3)
    kept, was = float(found.figure("recall").split()[0]), float(before.split()[0])
    assert was <= kept <= was + 0.1  # the number of positives caught stays, but for ties


def test_weights_and_groups_enter_the_figures(opened: Open) -> None:
    rng = np.random.default_rng(0)
    for options in (
        {"sample_weight": rng.integers(0, 4, 400).astype(float)},
        {"groups": rng.integers(0, 150, 400)},
        {"sample_weight": rng.random(400) + 0.5, "groups": rng.integers(0, 150, 400)},
    ):
        dial = dial_of(**options)
        found = opened(dial)
        found.check(dial)
        for cut in (3, 20):
            found.slide("#threshold", cut)
            found.check(dial)
        found.click("#jump-cost")
        found.check(dial)


REFUSED = {"prevalence": ("0", "100", ""), "cost-fn": ("-3",), "floor": ("101",), "budget": ("2000",)}


def test_a_number_that_cannot_be_is_refused_on_the_spot(opened: Open) -> None:
    found = opened(dial_of())
    before = found.shown()
    for field, text in [(field, text) for field, texts in REFUSED.items() for text in texts]:
        found.page.fill(f"#{field}", text)
        assert found.page.get_attribute(f"#{field}", "aria-invalid") == "true"
        assert "This must be" in found.page.locator(f"#{field}-hint").text_content()
        assert found.shown() == before
