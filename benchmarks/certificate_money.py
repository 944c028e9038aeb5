"""Money per case on the credit data: a threshold per case against the best fixed one and scikit-learn's tuned one."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split

from lossdial.dial.calibrating import calibrate
from lossdial.dial.cases import CaseRule, best_fixed, case_costs, mean_cost
from lossdial.dial.classifiers import margins_of

ALARM = 20_000.0
"""What a false alarm costs, in the currency of LIMIT_BAL (whose mean is 167,484)."""


def _paid(y: np.ndarray, alert: np.ndarray, amount: np.ndarray) -> np.ndarray:
    return np.where(y == 1, np.where(alert, 0.0, amount), np.where(alert, ALARM, 0.0))


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
    rule = CaseRule(calibrate(y[choose], margin[choose], "beta"))
    cut = best_fixed(y[choose] == 1, margin[choose], amount[choose], np.full(choose.size, ALARM))
    alerts = {
        "a threshold per case": rule.predict(margin[pay], amount[pay], ALARM),
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
