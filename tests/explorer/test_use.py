"""Addresses, mouse, keyboard and notebooks."""

from pathlib import Path
from typing import Any

from lossdial.explorer import explore
from tests.explorer.conftest import Open, dial_of


def test_the_view_is_in_the_address(opened: Open) -> None:
    dial = dial_of()
    found = opened(dial)
    found.page.fill("#prevalence", "2.5")
    found.slide("#lam-0", 2)
    found.slide("#threshold", 11)
    found.page.fill("#point-name", "A & B = ü, #1")
    found.page.click("#adding button[type=submit]")
    found.page.select_option("#metric", "auc")
    found.page.click("#theme")
    found.page.wait_for_timeout(300)
    address = found.page.evaluate("() => location.hash")
    again = opened(dial, address)
    for key in ("column", "cut", "prevalence", "follow", "metric", "theme"):
        assert again.state(key) == found.state(key), key
    assert again.page.locator("#compare thead").text_content() == found.page.locator("#compare thead").text_content()
    again.check(dial)
    found.go("#lam.gamma=0.25&lam.tau=2&threshold=inf&prevalence=0.3")
    assert found.state("prevalence") == 0.3
    assert found.figure("precision").strip() == "–"
    found.check(dial)


def test_an_address_of_nonsense_opens_the_page(opened: Open) -> None:
    dial = dial_of()
    bad = (
        "#prevalence=2&fn=-1&fp=x&recall=nan&alerts=1e9&lam.tau=99&threshold=abc&map=evil&hold=no"
        "&point=99.9.9&point=x&theme=pink&confidence=2"
    )
    found = opened(dial, bad)
    plain = opened(dial)
    for key in ("column", "cut", "costFn", "floor", "budget", "metric", "points"):
        assert found.state(key) == plain.state(key), key
    found.check(dial)


def test_plots_and_cells_can_be_clicked(opened: Open) -> None:
    dial = dial_of()
    found = opened(dial, "#hold=recall&map=auc")
    cell = found.page.locator('#map .cell[data-column="7"]')
    assert f": {dial.surface.metric('auc')[7]:.4g}" in cell.get_attribute("aria-label")
    cell.click()
    found.settle()
    assert found.state("column") == 7
    found.check(dial)
    for name in ("pr", "roc", "cost", "scores"):
        before = found.state("cut")
        box = found.page.locator(f"#{name} svg").first.bounding_box()
        found.page.locator(f"#{name} svg").first.scroll_into_view_if_needed()
        box = found.page.locator(f"#{name} svg").first.bounding_box()
        found.page.mouse.click(box["x"] + 0.45 * box["width"], box["y"] + 0.3 * box["height"])
        found.settle()
        found.page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])
        found.settle()
        assert found.state("follow") == "hand", name
        assert found.state("cut") != before, name
        found.check(dial)


def test_the_keyboard_reaches_everything(opened: Open) -> None:
    dial = dial_of()
    found = opened(dial)
    page = found.page
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "() => { const at = document.activeElement; return at.id || at.getAttribute('role') || at.className }"
        )
        if name in reached and name == reached[0]:
            break
        reached.append(name)
    fields = "jump-cost jump-certified prevalence prevalence-slider lam-0 threshold metric gridcell point-name"
    assert not {*fields.split(), "save", "theme", "reset"} - {*reached}
    page.focus("#lam-1")
    page.keyboard.press("Home")
    found.settle()
    page.keyboard.press("ArrowRight")
    found.settle()
    assert dial.lams[found.state("column")]["tau"] == 1.0
    page.focus('#map [tabindex="0"]')
    for key in ("ArrowUp", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        found.settle()
        assert page.evaluate("() => document.activeElement.getAttribute('role')") == "gridcell"
        assert page.evaluate("() => document.activeElement.dataset.column") == str(found.state("column"))
    assert dial.lams[found.state("column")]["tau"] == 2.0


def test_it_works_inside_a_notebooks_frame(browser: Any, tmp_path: Path) -> None:

    dial = dial_of()
    outer = tmp_path / "notebook.html"
    outer.write_text(f"<!doctype html><body>{explore(dial)._repr_html_()}</body>")
    context = browser.new_context(offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(outer.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached")
    frame.locator("#jump-cost").click()
    assert "Cheapest" in frame.locator("#said").text_content()
    page.wait_for_timeout(300)
    assert errors == []
    context.close()
