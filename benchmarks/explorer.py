"""The explorer page at the size of a real study: how large, how long to open, how soon a slider is answered.

    python benchmarks/explorer.py        about a minute on two cores; needs Chromium and playwright

13,335 samples, 1,035 of them positive, at 441 λ. The page is opened from the disk in headless Chromium, offline.
Opening is the time from the start of navigation until every plot is drawn; an answer is the time from a slider's event
until the frame that shows it is handed to the screen, the wait for that frame included.

The bars: under 4 MB (an empty page under 300 kB), open in under 2 s,
an answer in under 50 ms at every control (medians).
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from lossdial.dial import Dial
from lossdial.explorer import explore

POSITIVES, NEGATIVES, PER_AXIS = 1_035, 12_300, 21
MEGABYTES, EMPTY_KILOBYTES, OPEN_SECONDS, ANSWER_MS = 4.0, 300.0, 2.0, 50.0
TURNS = 25
CONTROLS = {
    "λ: gamma": "#lam-0",
    "λ: tau": "#lam-1",
    "threshold": "#threshold",
    "recall floor": "#floor-slider",
    "alert budget": "#budget-slider",
    "prevalence": "#prevalence-slider",
    "cost of a miss": "#cost-fn-slider",
    "cost of an alarm": "#cost-fp-slider",
}
ANSWER = """async ([selector, turns]) => {
  const slider = document.querySelector(selector);
  const times = [];
  for (let turn = 0; turn < turns; turn++) {
    slider.value = String(Math.round((Number(slider.max) * ((turn * 7 + 3) % turns)) / turns));
    const start = performance.now();
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - start);
    await new Promise((done) => setTimeout(done, 30));
  }
  return times;
}"""


def surface(seed: int = 0) -> Dial:
    """Scores of a linear model whose weights move smoothly with two coordinates of λ."""
    rng = np.random.default_rng(seed)
    n, c = POSITIVES + NEGATIVES, 12
    y = rng.permutation(n) < POSITIVES
    direction = 0.75 * rng.normal(size=c)
    features = rng.normal(size=(n, c)) + y[:, None] * direction * rng.uniform(0.3, 1.7, size=(n, 1))
    grid = np.linspace(-1, 1, PER_AXIS)
    places = np.array([(a, b) for a in grid for b in grid])
    weights = 1.1 * direction + places @ rng.normal(size=(2, c)) * 0.18 + places**2 @ rng.normal(size=(2, c)) * 0.14
    scores = features @ weights.T * (1 + 0.3 * places[:, 0]) - 4.2 + 0.9 * places[:, 1]
    lams = [{"gamma": round((a + 1) / 4, 7), "tau": round(1.5 * (b + 1), 7)} for a, b in places.tolist()]
    return Dial(y, scores.astype(np.float32), lams)


def opening(browser: Any, path: Path) -> tuple[float, Any]:
    """Seconds from navigation until all is drawn, and the page."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True).new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    return float(page.evaluate("() => performance.getEntriesByName('ready')[0].startTime")) / 1000, page


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("There is no Chromium here; install it with: apt-get install -y chromium")
    from playwright.sync_api import sync_playwright

    console = Console(width=100)
    table = Table("", "median", "worst", "bar")
    failed = False

    def row(name: str, values: list[float], bar: float, unit: str) -> None:
        nonlocal failed
        failed |= median(values) >= bar
        table.add_row(name, f"{median(values):.3g} {unit}", f"{max(values):.3g} {unit}", f"< {bar:g} {unit}")

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        dial, path = surface(), Path(folder) / "explorer.html"
        started = time.perf_counter()
        page = explore(dial, path, title="Benchmark")
        console.print(f"made in {time.perf_counter() - started:.1f} s: {page}")
        row("file", [path.stat().st_size / 1e6], MEGABYTES, "MB")
        row("empty file", [len(explore(Dial([0, 1], [0.0, 1.0])).html.encode()) / 1e3], EMPTY_KILOBYTES, "kB")
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        opened = [opening(browser, path) for _ in range(5)]
        row("opens", [seconds for seconds, _ in opened], OPEN_SECONDS, "s")
        shown = opened[-1][1]
        for name, selector in CONTROLS.items():
            row(f"answers {name}", shown.evaluate(ANSWER, [selector, TURNS]), ANSWER_MS, "ms")
        browser.close()
    console.print(table)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
