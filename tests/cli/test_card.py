"""The pages of `evaluate`, read and looked at in a browser."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossdial.cli import main
from lossdial.cli.card import _people
from lossdial.dial import Estimate


@pytest.mark.parametrize(
    ("recall", "prevalence"), [(0.873, 0.002), (0.68, 0.0204), (0.9997, 0.05), (1.0, 0.01), (0.0, 0.3)]
)
def test_nobody_is_rounded_away(recall: float, prevalence: float) -> None:
    rates = {"recall": recall, "specificity": 0.93}
    text = _people({name: Estimate(value, 0, 1) for name, value in rates.items()}, prevalence, "fraud")
    all_cases, fraud, caught, missed, vain = (
        int(number.replace(",", "")) for number in re.findall(r"(?:Of|are|about|and) ([\d,]+) ", text)
    )
    assert caught + missed == fraud
    assert fraud == pytest.approx(all_cases * prevalence, abs=0.51)
    assert caught == pytest.approx(all_cases * prevalence * recall, abs=0.51)
    assert vain == pytest.approx(all_cases * (1 - prevalence) * 0.07, abs=1.01)
    assert ((caught > 0), (missed > 0)) == ((recall > 0), (recall < 1))


def test_the_recall_of_the_issue_is_told_with_its_misses() -> None:
    found = {"recall": Estimate(0.873, 0.8, 0.9), "specificity": Estimate(0.95, 0.9, 0.96)}
    text = _people(found, 0.002, "fraud")
    assert "Of 10,000 cases at a share of 0.2 % there are 20 fraud: about 17 are flagged and 3 missed" in text


@pytest.fixture(scope="module")
def pages(run: Path, tables: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    words = ["--data", str(tables / "val.csv"), "--out", str(folder), "--report", str(folder / "card.html")]
    assert main(["evaluate", str(run), *words]) == 0
    return {"card": folder / "card.html", "report": folder / "report.html"}


@pytest.mark.parametrize("name", ["card", "report"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1366])
def test_a_page_fits_the_screen_and_follows_the_readers_theme(
    browser: Any, pages: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    page.goto(pages[name].as_uri())
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.locator("table").count() == page.locator(".scroll > table").count() > 0
    paper, ink = (
        sum(map(int, re.findall(r"\d+", page.evaluate(f"() => getComputedStyle(document.body).{key}"))[:3]))
        for key in ("backgroundColor", "color")
    )
    assert (paper > 600 > 200 > ink) if scheme == "light" else (paper < 120 < 600 < ink)
    context.close()


def test_the_card_answers_and_knows_no_patient(pages: dict[str, Path]) -> None:
    text = pages["card"].read_text()
    assert "fit for use?" not in text
    assert re.search("<h2>In short</h2>.*nothing is certified for new cases; here it flags", text, re.DOTALL)
    assert not re.search("patient|hospital", re.sub('base64,[^"]*', "", text))
    assert "the model's own probability" in text.replace("&#x27;", "'")


def test_the_reliability_plot_uses_its_space() -> None:
    from lossdial.dial import Dial
    from lossdial.dial.plots import reliability_figure

    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.005).astype(int)
    dial = Dial(y, rng.normal(size=y.size) + 2.5 * y - 6)
    axes = reliability_figure(dial.surface, [dial.tune(maximize="f1")]).axes[0]
    bars = axes.containers[0]
    x = bars.lines[0].get_xydata()[:, 0]
    placed = (axes.transData.transform(np.c_[x, x])[:, 0] - axes.bbox.x0) / axes.bbox.width
    assert np.mean(x / axes.get_xlim()[1] > 0.1) <= 0.2  # where the bins would be on plain axes
    assert np.mean(placed > 0.1) >= 0.4
