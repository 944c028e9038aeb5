"""Count the modules that a question passes through: `clf.predict(frame)` and a certified `clf.tune(frame, y)`.

Run with `python benchmarks/walks.py`. It takes a few seconds and prints, for both walks, the distinct modules of
lossdial in which a function was called, and the deepest stack of modules.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

from lossdial import LCTClassifier

#: modules that a walk may pass through at most
BOUNDS = {"predict": 20, "certified tune": 35}


@dataclass(frozen=True)
class Walk:
    """The modules in which a call ran functions, in the order of the first one, and how many were open at once."""

    modules: tuple[str, ...]
    deepest: int


def walk(call: Callable[[], object]) -> Walk:
    """Trace one call."""
    modules: dict[str, None] = {}
    deepest = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest
        name = str(frame.f_globals.get("__name__", ""))
        if event != "call" or not name.startswith("lossdial") or frame.f_code.co_name == "<module>":
            return
        modules.setdefault(name)
        stack, outer = set(), frame
        while outer is not None:
            stack.add(str(outer.f_globals.get("__name__", "")))
            outer = outer.f_back  # type: ignore[assignment]
        deepest = max(deepest, sum(each.startswith("lossdial") for each in stack))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Walk(tuple(modules), deepest)


def rows(n: int, seed: int) -> tuple[pd.DataFrame, Any]:
    """Rows with a number, a text and a gap, and labels of which a fifth is positive."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int)
    amount = rng.normal(1.5 * y, 1.0)
    amount[rng.random(n) < 0.05] = np.nan
    town = np.where(rng.random(n) + 0.3 * y > 0.6, "Ulm", "Bern")
    return pd.DataFrame({"amount": amount, "age": rng.normal(50 + 5 * y, 9), "town": town}), y


def walks() -> dict[str, Walk]:
    """Both walks of one model on a table; each call is made once before, so that nothing is imported on the way."""
    classifier = LCTClassifier(random_state=0).fit(*rows(900, 0))
    fresh, new = rows(900, 1), rows(100, 2)[0]
    terms: dict[str, Any] = {"maximize": "precision", "subject_to": {"recall": 0.8}, "confidence": 0.9}
    calls: dict[str, Callable[[], object]] = {
        "predict": lambda: classifier.predict(new),
        "certified tune": lambda: classifier.tune(*fresh, **terms),
    }
    with warnings.catch_warnings(action="ignore"):
        for call in calls.values():
            call()
        return {name: walk(call) for name, call in calls.items()}


def main() -> None:
    """Print both walks beside their bounds."""
    for name, found in walks().items():
        print(f"{name}: {len(found.modules)} modules (at most {BOUNDS[name]}), {found.deepest} deep")
        print("  " + "\n  ".join(found.modules))


if __name__ == "__main__":
    main()
