"""Money per case on the credit data: a threshold per case against the best fixed one and scikit-learn's tuned one."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split

from lossdial.dial.calibration import calibrate
from lossdial.dial.choice.cases import _halves, best_fixed, case_costs, mean_cost, pays
from lossdial.dial.classifiers import margins_of

ALARM = 20_000.0
"""What a false alarm costs, in the currency of LIMIT_BAL (whose mean is 167,484)."""


def _paid(y: np.ndarray, alert: np.ndarray, amount: np.ndarray) -> np.ndarray:
    return np.where(y == 1, np.where(alert, 0.0, amount), np.where(alert, ALARM, 0.0))


COSTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "lognormal, σ 1": lambda rng, n: 20 * rng.lognormal(0, 1, n),
    "lognormal, σ 1.5": lambda rng, n: 20 * rng.lognormal(0, 1.5, n),
    "Pareto, 2.5": lambda rng, n: 20 * (1 + rng.pareto(2.5, n)),
}


def costs_covered(law: str, n_positive: int, index: int) -> Counter[str]:
    """Which intervals of `case_costs` cover the mean true cost of the two half-chosen rules, on 200,000 fresh cases."""
    rng = np.random.default_rng([31, list(COSTS).index(law), n_positive, index])

    def drawn(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        y = rng.random(n) < 0.1
        return y, rng.standard_normal(n) + 2 * y - np.log(9), COSTS[law](rng, n)

    (y, score, amount), (fresh_y, fresh, fresh_amount) = drawn(10 * n_positive), drawn(200_000)
    found = case_costs(y, score, amount, 5.0)
    side = _halves(y, np.arange(y.size), 0)
    truth = np.zeros(2)
    for fit in (side, ~side):
        calibration = calibrate(y[fit], score[fit])
        cut = best_fixed(y[fit], score[fit], amount[fit], np.full(fit.sum(), 5.0))
        for k, alert in enumerate((pays(calibration.apply(fresh), fresh_amount, 5.0), fresh > cut)):
            truth[k] += np.where(fresh_y, np.where(alert, 0.0, fresh_amount), np.where(alert, 5.0, 0.0)).mean() / 2
    told = {"a threshold per case": found.per_case, "the best fixed one": found.fixed, "the saving": found.saving}
    truths = (*truth, truth[1] - truth[0])
    return Counter({name: int(e.low <= value <= e.high) for (name, e), value in zip(told.items(), truths, strict=True)})


def money(path: Path | None = None) -> list[str] | None:
    """Lines of the table: fitted on half, chosen on a quarter, paid on a quarter; None where the data are not there."""
    root = os.environ.get("LOSSDIAL_DATA", "")
    file = Path(root) / "tables" / "credit_default.csv" if path is None else path
    if (not root and path is None) or not file.exists():
        return None
    table = pd.read_csv(file).drop(columns="ID")
    y = table.pop("default.payment.next.month").to_numpy()
    amount = table["LIMIT_BAL"].to_numpy(dtype=np.float64)
    x = table.to_numpy(dtype=np.float64)
    fit, rest = train_test_split(np.arange(y.size), test_size=0.5, stratify=y, random_state=0)
    choose, pay = train_test_split(rest, test_size=0.5, stratify=y[rest], random_state=0)
    model = HistGradientBoostingClassifier(random_state=0, early_stopping=True).fit(x[fit], y[fit])
    margin = margins_of(model, x)
    calibration = calibrate(y[choose], margin[choose], "beta")
    cut = best_fixed(y[choose] == 1, margin[choose], amount[choose], np.full(choose.size, ALARM))
    alerts = {
        "a threshold per case": pays(calibration.apply(margin[pay]), amount[pay], ALARM),
        "the best fixed threshold": margin[pay] > cut,
        "scikit-learn's `TunedThresholdClassifierCV`": _tuned(model, x, y, amount, choose, pay),
        "alert on no case": np.zeros(pay.size, dtype=np.bool_),
        "alert on every case": np.ones(pay.size, dtype=np.bool_),
    }
    costs = {who: _paid(y[pay], alert, amount[pay]) for who, alert in alerts.items()}
    first = next(iter(costs.values()))
    lines = []
    for who, cost in costs.items():
        saved = mean_cost(cost - first, np.arange(pay.size), 0)
        gap = "" if cost is first else f"{saved.value:,.0f} [{saved.low:,.0f}, {saved.high:,.0f}]"
        lines.append(f"| {who} | {cost.mean():,.0f} | {gap} |")
    both = np.concatenate([choose, pay])
    found = case_costs(y[both], margin[both], amount[both], ALARM, "beta")
    lines.append("")
    lines.append(f"Cross-fitted on all {both.size:,} rows that did not fit the model: {found}.")
    return lines


def _tuned(
    model: HistGradientBoostingClassifier,
    x: np.ndarray,
    y: np.ndarray,
    amount: np.ndarray,
    choose: np.ndarray,
    pay: np.ndarray,
) -> np.ndarray:
    def gain(truth: np.ndarray, predicted: np.ndarray, amount: np.ndarray) -> float:
        return -float(_paid(truth, predicted == 1, amount).sum())

    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(gain).set_score_request(amount=True)
        tuned = TunedThresholdClassifierCV(model, scoring=scorer, cv="prefit", refit=False)
        tuned.fit(x[choose], y[choose], amount=amount[choose])
        return np.asarray(tuned.predict(x[pay]) == 1)
