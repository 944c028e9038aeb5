"""A real browser, without a network, for pages opened from the disk."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossdial.dial import Dial
from lossdial.dial.points import Estimate
from lossdial.dial.uncertainty.intervals import rounded
from lossdial.explorer import Unlabelled, explore
from lossdial.explorer.page import joined_modules
from lossdial.explorer.people import adding_up
from tests.explorer.figures import Setting, Sizes, figures, people_at, printed

Open = Callable[..., "Opened"]


def dial_of(
    n: int = 400, positives: int = 60, shape: tuple[int, int] = (3, 4), seed: int = 0, decimals: int = 2, **options: Any
) -> Dial:
    """Scores that differ from λ to λ, rounded so that some are tied."""
    rng = np.random.default_rng(seed)
    y = (rng.permutation(n) < positives).astype(int)
    x = rng.normal(size=(n, 3)) + y[:, None] * np.array([1.3, 0.6, 0.2])
    lams = [{"gamma": g, "tau": t} for g in np.linspace(0, 0.5, shape[0]) for t in np.linspace(0, 3, shape[1])]
    weights = np.array([[1 + lam["gamma"], 0.6 - 0.3 * lam["tau"], 0.5 * lam["gamma"]] for lam in lams])
    scores = np.round(x @ weights.T - 2 + np.array([lam["tau"] for lam in lams]) / 3, decimals).astype(np.float32)
    return Dial(y, scores, lams, **options)


def sizes_of(dial: Dial) -> Sizes:
    samples = dial.surface.samples
    return Sizes(*samples.totals, *samples.effective)


def counts_at(dial: Dial, column: int, threshold: float) -> tuple[float, float]:
    """How much weight of positives and of negatives scores above a threshold."""
    surface = dial.surface
    accepted = surface.score(column).astype(np.float64) > threshold
    weight = np.ones(accepted.size) if surface.weight is None else surface.weight
    return float(weight[accepted & surface.labels].sum()), float(weight[accepted & ~surface.labels].sum())


@dataclass
class Opened:
    """A page in the browser, what it asked for and what went wrong."""

    page: Any
    path: Path
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def settle(self) -> None:
        """Wait until what was asked for is drawn and in the address."""
        self.page.wait_for_timeout(40)
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def click(self, selector: str) -> None:
        self.page.click(selector)
        self.settle()

    def go(self, address: str) -> None:
        """Another view of the same page, by its address."""
        self.page.evaluate("address => { location.hash = address }", address)
        self.settle()

    def state(self, name: str) -> Any:
        return self.page.evaluate(f"() => explorer.store.state.{name}")

    def slide(self, selector: str, value: int) -> None:
        """Move a slider as a hand would."""
        self.page.locator(selector).evaluate(
            "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', { bubbles: true })) }",
            str(value),
        )
        self.settle()

    def shown(self) -> tuple[int, float, Setting]:
        """λ, threshold and setting of the page, as its state has them."""
        found = self.page.evaluate(
            "() => { const { state, model } = explorer.store; return [state.column,"
            " String(state.exact ?? model.threshold(state.column, state.cut)),"
            " state.prevalence, state.costFn, state.costFp] }"
        )
        return found[0], float(found[1].replace("Infinity", "inf")), Setting(*found[2:])

    @staticmethod
    def expected(dial: Dial, column: int, threshold: float, setting: Setting) -> dict[str, Estimate]:
        """Python's figures there."""
        return figures(*counts_at(dial, column, threshold), sizes_of(dial), setting)

    def check(self, dial: Dial) -> None:
        """Every figure of the table, the keys, the people and the sentence against Python's, as text."""
        column, threshold, setting = self.shown()
        found = self.expected(dial, column, threshold, setting)
        for name, figure in found.items():
            assert self.figure(name).strip() == printed(figure), name
        digits = 2 if setting.prevalence < 0.01 or setting.prevalence > 0.99 else 1
        parts = people_at(*counts_at(dial, column, threshold), sizes_of(dial), setting.prevalence)
        counts, digits = adding_up(parts, digits)
        said = {kind: f"{count / 10**digits:.{digits}f}" for kind, count in counts.items()}
        for kind, text in said.items():
            assert self.page.locator(f'[data-people="{kind}"]').text_content() == text
            assert (float(text) > 0) == (parts[kind] > 1e-9)
        keys = (
            ("recall", "recall", 1, 3, 1),
            ("alerts", "alert_rate", 1000, 1, 1000),
            ("cost", "expected_cost", 1000, 1, math.inf),
        )
        for key, name, scale, places, whole in keys:
            estimate = found[name]
            value, low, high = (
                rounded(scale * x, places, whole) for x in (estimate.value, estimate.low, estimate.high)
            )
            assert self.page.locator(f'[data-key="{key}"]').text_content() == f"{value}[{low}, {high}]"
        sentence = self.page.locator("#sentence").text_content()
        assert (
            f"rightly for {said['caught']}, wrongly for {said['false_alarms']}; {said['missed']} are missed" in sentence
        )
        if found["precision"].value > 0:
            assert f"One alarm in {1 / found['precision'].value:.1f} is right" in sentence
        text = "above all" if threshold == math.inf else f"{threshold:.6g}"
        assert self.page.locator("#threshold-value").text_content() == text

    def figure(self, name: str, point: str = "") -> str:
        return str(self.page.locator(f'td[data-figure="{name}"][data-point="{point}"]').text_content())


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Write a page, open it from the disk with the network blocked; nothing goes wrong on it to the end."""
    contexts, pages = [], []

    def open_it(
        dial: Dial | Unlabelled, address: str = "", width: int = 1280, scheme: str = "light", **options: Any
    ) -> Opened:
        path = tmp_path / f"page{len(contexts)}.html"
        explore(dial, path, **options)
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        found = Opened(page, path)
        pages.append(found)
        page.on("request", lambda request: found.requests.append(request.url))
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        page.on("console", lambda message: found.errors.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri() + address)
        page.wait_for_selector("html[data-ready]", timeout=20_000)
        found.settle()
        return found

    yield open_it
    for context in contexts:
        context.close()
    assert [error for each in pages for error in each.errors] == []


@pytest.fixture
def javascript(browser: Any) -> Iterator[Callable[..., Any]]:
    """Evaluate an expression over one of the page's modules (and those it imports) on a blank page."""
    context = browser.new_context(offline=True)
    page = context.new_page()

    def run(module: str, expression: str, argument: Any = None) -> Any:
        return page.evaluate(f"(given) => {{ {joined_modules(module)}\nreturn {expression}; }}", argument)

    yield run
    context.close()
