"""Do certificates hold? Shares of broken ones over thousands of draws, what they cost, and MAPIE on the same draws.

    python benchmarks/certificates.py                 # about ten minutes on one core; goes on where it was stopped
    python benchmarks/certificates.py --draws 100 --rows /tmp/rows.jsonl --page /tmp/certificates.md

Every block of draws is a line of `results/certificates.jsonl`; `docs/certificates.md` is written from those lines.
Exits with 1 when a bar is missed. MAPIE is in the extra `bench`; the money needs LOSSDIAL_DATA.
"""

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from certificate_choice import FINDING, LAMS, NOISES, PRECISE, SIZES, five_floors, given_up, near_copies, spanning
from certificate_fresh import chosen, trained
from certificate_laws import LAWS, SHAPES
from certificate_money import COSTS, costs_covered, money
from certificate_page import page
from certificate_trials import (
    MAPIE,
    ORDERS,
    answers,
    busy,
    capped,
    costs,
    crossfit_covers,
    estimated,
    estimated_in_groups,
    gain_claimed,
    monitored,
    monitored_by_mapie,
    shift_refused,
    sorted_alarm,
    trial,
    twin_beaten,
)

from lossdial.dial import Dial, Objective

HERE = Path(__file__).resolve().parent.parent
BLOCK = 100
PRECISION = Objective(maximize="precision", subject_to={"recall": 0.95})
RECALL = Objective(maximize="recall", subject_to={"fpr": 0.05})


def law_block(
    one: Callable[..., Iterator[tuple[str, str, float]]], number: int, start: int, draws: int
) -> dict[str, float]:
    """Sums of what happened in some draws of a law, by 'claim: what'."""
    sums: Counter[str] = Counter()
    for index in range(start, start + draws):
        for claim, what, amount in one(LAWS[number], number, index):
            sums[f"{claim}: {what}"] += amount  # type: ignore[assignment]
    return dict(sums)


def fresh_block(one: Callable[[int], Iterator[tuple[str, str, float]]], start: int, draws: int) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for index in range(start, start + draws):
        for rows, what, amount in one(index):
            sums[f"{rows}: {what}"] += amount  # type: ignore[assignment]
    return dict(sums)


def share_block(one: Callable[[int], bool], start: int, draws: int) -> dict[str, float]:
    return {"hits": float(sum(one(index) for index in range(start, start + draws)))}


def count_block(one: Callable[[int], Counter[str]], start: int, draws: int) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for index in range(start, start + draws):
        sums.update(one(index))
    return {name: float(amount) for name, amount in sums.items()}


def alarm_block(
    monitoring: Callable[..., int | None], recall: float, n: int, good: int, start: int, draws: int
) -> dict[str, float]:
    found = [monitoring(recall, n, index, good) for index in range(start, start + draws)]
    sums = {"alarms": float(sum(delay is not None and delay > 0 for delay in found))}
    return sums | {f"within {limit}": float(sum(d is not None and 0 < d <= limit for d in found)) for limit in DELAYS}


def given_up_block(objective: Objective, n: int, m: int, noise: float, start: int, draws: int) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for index in range(start, start + draws):
        sums.update(given_up(objective, n, m, noise, index))  # type: ignore[arg-type]
    return dict(sums)


DELAYS = (50, 100, 200, 500, 1000, 2000)


def jobs(draws: int) -> dict[str, tuple[Callable[[int, int], dict[str, float]], int]]:
    """Everything to be tried: name -> block of draws, and how many draws."""
    few = max(draws // 2, 1)
    found: dict[str, tuple[Callable[[int, int], dict[str, float]], int]] = {
        f"law: {law.name}": (partial(law_block, trial, number), draws) for number, law in enumerate(LAWS)
    }
    for number, law in enumerate(LAWS):
        if law.columns == 1 and "patients" not in law.name:
            found[f"answers: {law.name}"] = (partial(law_block, answers, number), few)
    for share in (0.001, 0.1, 0.5):
        found[f"shift: share {share:g}"] = (_shares(partial(shift_refused, share, 0.0, 1.0)), 2 * draws)
    for moved in (-0.6, -0.4, -0.2, 0.2, 0.4, 0.6, 0.8):
        found[f"shift: moved {moved:g}"] = (_shares(partial(shift_refused, 0.1, moved, 1.0)), max(draws // 10, 1))
    for spread in (0.7, 0.85, 1.2, 1.5):
        found[f"shift: spread {spread:g}"] = (_shares(partial(shift_refused, 0.1, 0.0, spread)), max(draws // 10, 1))
    for shape in SHAPES:
        found[f"share: {shape}, 0.02"] = (partial(count_block, partial(estimated, shape, 0.02)), max(draws // 8, 1))
    for share in (0.001, 0.1, 0.5):
        found[f"share: binormal, 2 apart, {share:g}"] = (
            partial(count_block, partial(estimated, "binormal, 2 apart", share)),
            max(draws // 8, 1),
        )
    for sicker, told in ((False, "patients of 1 to 8 rows"), (True, "the ill of 5 to 8 rows, others 1 to 3")):
        for n_new in (100, 400):
            block = partial(count_block, partial(estimated_in_groups, sicker, n_new))
            found[f"share: {told}, {n_new} new"] = (block, max(draws // 4, 1))
        found[f"budget: {told}"] = (_shares(partial(capped, sicker)), draws)
    for spread in (0.0, 0.3, 0.6):
        for in_groups, told in ((False, ""), (True, ", in patients")):
            found[f"busy: volume varies by {spread:g}{told}"] = (_shares(partial(busy, spread, in_groups)), few)
    for shape in SHAPES:
        for n_positive in (20, 100, 500):
            block = partial(count_block, partial(costs, shape, n_positive))
            found[f"cost: {shape}; {n_positive} positives"] = (block, max(draws // 40, 1))
    found["watch: 0.95 for 100000"] = (partial(alarm_block, monitored, 0.95, 100_000, 0), max(draws // 4, 1))
    watchers = {"watch": monitored} | ({"watch by MAPIE": monitored_by_mapie} if MAPIE else {})
    for who, monitoring in watchers.items():
        for recall in (0.93, 0.9, 0.85, 0.8):
            for good in (0, 2000):
                block = partial(alarm_block, monitoring, recall, 2000, good)
                found[f"{who}: {recall:g} after {good}"] = (block, max(draws // (10 if who == "watch" else 40), 1))
    found["fresh: chose λ and threshold, continuous scores"] = (partial(fresh_block, partial(chosen, 0)), few // 2)
    found["fresh: chose λ and threshold, 30 levels"] = (partial(fresh_block, partial(chosen, 30)), few // 2)
    found["fresh: trained a tree"] = (partial(fresh_block, trained), max(draws // 10, 1))
    for order in ORDERS:
        found[f"sorted: {order}"] = (_shares(partial(sorted_alarm, order)), max(draws // 4, 1))
    for n_positive, m, noise in ((50, 20, 0.3), (100, 60, 0.3), (100, 20, 1.0)):
        claim = partial(gain_claimed, n_positive, m, noise)
        found[f"verdict: {n_positive} positives, {m} λ, noise {noise:g}"] = (_shares(claim), few)
    for n_positive, m, noise in ((50, 1, 0.5), (200, 1, 0.3), (200, 1, 1.0), (100, 20, 0.5)):
        beaten = partial(twin_beaten, n_positive, m, noise)
        found[f"twins: {n_positive} positives, {m} λ, noise {noise:g}"] = (_shares(beaten), few)
    for objective in (PRECISION, RECALL):
        for n_positive, m in ((50, 1), (50, 21), (200, 21)):
            covers = partial(count_block, partial(crossfit_covers, objective, n_positive, m))
            found[f"crossfit: {objective}; {n_positive} positives, {m} λ"] = (covers, few)
    found["parts: a floor in each of two, patients spanning both"] = (_shares(spanning), few)
    found["parts: 60 groups of four near-copies, interval of recall"] = (_shares(near_copies), few)
    found["joint: five floors, each by itself"] = (_shares(partial(five_floors, 1)), few)
    found["joint: five floors, jointly=5"] = (_shares(partial(five_floors, 5)), few)
    for objective in (PRECISE, FINDING):
        for n in SIZES:
            for m in LAMS:
                for noise in NOISES if m > 1 else (0.0,):
                    block = partial(given_up_block, objective, n, m, noise)
                    found[f"given up: {objective}; {n}; {m}; {noise:g}"] = (block, max(draws // 10, 1))
    for law in COSTS:
        for n_positive in (50, 200, 1000):
            covers = partial(count_block, partial(costs_covered, law, n_positive))
            found[f"costs: {law}; {n_positive} positives"] = (covers, max(draws // 4, 1))
    return found


def _shares(one: Callable[[int], bool]) -> Callable[[int, int], dict[str, float]]:
    return partial(share_block, one)


def run(rows: Path, draws: int, only: str, before: bool = False) -> list[dict[str, Any]]:
    """Try what has not been tried yet, a line per block; `before` names what an earlier version gave."""
    done = [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []
    known = {(row["what"], row["start"]) for row in done}
    rows.parent.mkdir(parents=True, exist_ok=True)
    for what, (block, count) in jobs(draws).items():
        if (only and only not in what) or (before and not what.startswith("given up")):
            continue
        what = f"before, {what}" if before else what
        began = time.monotonic()
        for start in range(0, count, BLOCK):
            if (what, start) in known:
                continue
            size = min(BLOCK, count - start)
            row = {"what": what, "start": start, "draws": size, "sums": block(start, size)}
            with rows.open("a") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            done.append(row)
        if time.monotonic() - began > 1:
            print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)
    return done


def timed(n: int = 13_335, m: int = 121, repeats: int = 7) -> tuple[float, float]:
    """Median seconds of a certified and of an uncertified tune, figures and all, taken in turn."""
    rng = np.random.default_rng(0)
    y = np.zeros(n, dtype=np.int64)
    y[: n // 100] = 1
    own = rng.standard_normal((n, 1)) + 2.5 * y[:, None]
    scores = (own + 0.3 * rng.standard_normal((n, m))).astype(np.float32)
    lams = [{"tau": float(k)} for k in range(m)]
    seconds: dict[float | None, list[float]] = {0.95: [], None: []}
    for _ in range(repeats):
        for confidence, taken in seconds.items():
            dial = Dial(y, scores, lams)
            began = time.perf_counter()
            len(dial.tune(objective=PRECISION, confidence=confidence).metrics)
            taken.append(time.perf_counter() - began)
    return float(np.median(seconds[0.95])), float(np.median(seconds[None]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--rows", type=Path, default=HERE / "results" / "certificates.jsonl")
    parser.add_argument("--page", type=Path, default=HERE / "docs" / "certificates.md")
    parser.add_argument("--only", default="", help="what has this in its name")
    parser.add_argument("--before", action="store_true", help="'given up' alone, of an earlier version")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    done = run(given.rows, given.draws, given.only, given.before)
    text, missed = page(done, LAWS, DELAYS, money(), None if given.only else timed())
    given.page.write_text(text)
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
