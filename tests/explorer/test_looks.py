"""What people see: no serious accessibility fault, nothing wider than the screen, and pictures for a person to look at.

The pictures are written to `build/explorer`, or to the folder that LOSSDIAL_SCREENSHOTS names.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossdial.dial import Dial
from lossdial.explorer import Unlabelled
from tests.explorer.conftest import Open, dial_of

FOLDER = Path(os.environ.get("LOSSDIAL_SCREENSHOTS", "build/explorer"))
SCREENS = [(name, width, scheme) for name, width in (("desktop", 1440), ("phone", 390)) for scheme in ("light", "dark")]


def faults(page: Any) -> list[str]:
    """What axe calls serious or critical."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs axe: pip install axe-playwright-python"
    )
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:120]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.fixture
def clinic() -> Dial:
    """As much as a page can show: points, a certificate, many λ."""
    dial = dial_of(n=4000, positives=400, shape=(11, 11), decimals=5)
    dial.tune(maximize="f1", name="Best F1")
    dial.tune(maximize="precision", subject_to={"recall": 0.9}, confidence=0.95, name="Certified")
    return dial


@pytest.mark.parametrize(("name", "width", "scheme"), SCREENS)
def test_a_page_is_accessible_and_fits_the_screen(opened, clinic, name, width, scheme):
    named = {"title": "Melanoma, validation 2025", "classes": ("benign", "melanoma")}
    found = opened(clinic, "#recall=0.9", width=width, scheme=scheme, **named)
    page = found.page
    page.fill("#point-name", "Screening at 2 %")
    page.fill("#prevalence", "2")
    page.click("#jump-cost")
    page.click("#adding button[type=submit]")
    found.click("#jump-certified")
    assert faults(page) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    FOLDER.mkdir(parents=True, exist_ok=True)
    page.evaluate("() => document.activeElement.blur()")
    page.wait_for_timeout(200)
    page.screenshot(path=FOLDER / f"{name}-{scheme}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_without_labels_or_with_pictures_are_accessible(opened: Open, scheme: str) -> None:
    dial = dial_of(n=200, positives=20)
    FOLDER.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    pictures = [np.kron(rng.integers(60, 255, (8, 8, 3)), np.ones((8, 8, 1))).astype(np.uint8) for _ in range(200)]
    scores, ridges = np.asarray(dial.scores), [{"ridge": 10.0**k} for k in range(-3, 1)]
    for name, options in (
        ("unlabelled", {"dial": Unlabelled(scores, dial.lams)}),
        ("pictures", {"dial": dial, "images": pictures, "address": "#recall=0.8&hold=recall"}),
        ("one-score", {"dial": Dial(dial.y, scores[:, 0])}),
        ("one-axis", {"dial": Dial(dial.y, scores[:, :4], ridges)}),
    ):
        found = opened(scheme=scheme, **options)
        assert faults(found.page) == [], name
        found.page.screenshot(path=FOLDER / f"{name}-{scheme}.png", full_page=True)


def test_what_is_said_and_what_is_drawn_has_a_text_in_the_readers_theme(opened: Open, clinic: Dial) -> None:
    found = opened(clinic, scheme="dark")
    page = found.page
    assert page.get_attribute("#said", "role") == "status"
    for name in ("people", "pr", "roc", "cost", "scores", "reliability", "decision"):
        assert len(page.locator(f"#{name} svg[role=img]").get_attribute("aria-label")) > 40, name
    for slider in page.locator("input[type=range]").all():
        assert "recall" in slider.get_attribute("aria-valuetext") or slider.get_attribute("id") == "threshold"
    before = page.get_attribute("#lam-0", "aria-valuetext")
    found.slide("#threshold", 3)
    assert page.get_attribute("#lam-0", "aria-valuetext") != before
    assert page.get_attribute("html", "data-theme") == "dark"
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "light"
    assert page.locator("#theme").text_content() == "Dark"


def test_numbers_on_an_axis_keep_clear_of_its_title(opened: Open) -> None:
    found = opened(dial_of(), "#fn=1000000")
    boxes = found.page.locator("#cost svg text").evaluate_all(
        "all => all.map(t => [t.classList.contains('title'), t.getBoundingClientRect().toJSON()])"
    )
    title = next(box for is_title, box in boxes if is_title and box["height"] > box["width"])
    numbers = [box for is_title, box in boxes if not is_title and box["right"] < title["left"] + 120]
    assert numbers
    assert all(box["left"] >= title["right"] for box in numbers)
