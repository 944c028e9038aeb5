"""Rivals without a network: a ridge, thresholds of scikit-learn, boosting, and imbalanced-learn.

Each takes a cell and a seed, trains on its training rows, and hands in margins of validation and test rows. On tables
the margins of test rows are those of the same model fitted again on training and validation rows.
Packages are imported where they are used: the scoreboard leaves out what is not installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from lossdial.dial import Objective
from lossdial.dial.metrics.ranking import Counts
from lossdial.sklearn import DialedClassifier
from lossdial_studies.scoreboard.objectives import Scored, margins, objectives
from lossdial_studies.scoreboard.sets import Cell

#: of the ridge; features of a network are many and want a smaller C
_C: Final = {"table": (1e-2, 1e-1, 1.0, 10.0), "images": (1e-4, 1e-3, 1e-2, 1e-1)}
_ITERATIONS: Final = 500


def ridge(cell: Cell, seed: int) -> Scored:
    """scikit-learn's LogisticRegression at four C, plain and balanced."""
    models = [
        LogisticRegression(C=c, class_weight=weight, max_iter=_ITERATIONS, random_state=seed)
        for c in _C[cell.set.kind]
        for weight in (None, "balanced")
    ]
    return _scored(cell, models, lambda model, x: model.decision_function(x))


def tuned_threshold(cell: Cell, seed: int) -> Scored:
    """TunedThresholdClassifierCV, a threshold for each objective, around histogram boosting or logistic regression."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.frozen import FrozenEstimator
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV

    table = cell.set.kind == "table"
    model = (
        HistGradientBoostingClassifier(random_state=seed) if table else LogisticRegression(C=1e-2, max_iter=_ITERATIONS)
    )
    with warnings.catch_warnings(action="ignore"):
        model.fit(cell.train.x, cell.train.y)
    x, y = cell.validation.x, cell.validation.y
    thresholds = {}
    for name, objective in objectives().items():
        if name in ("auc", "average_precision", "brier", "log_loss"):  # which have no threshold
            continue
        tuner = TunedThresholdClassifierCV(
            FrozenEstimator(model),
            scoring=make_scorer(_at_predictions(objective, float(y.mean()))),
            cv="prefit",
            refit=False,
            response_method="predict_proba",
        ).fit(x, y)
        # It calls positive what reaches the threshold, the dial what exceeds it.
        thresholds[name] = float(np.nextafter(margins(np.array(tuner.best_threshold_)), -np.inf))
    return replace(_tested(cell, [model], _log_odds), thresholds=thresholds)


def _at_predictions(objective: Objective, prevalence: float) -> Callable[[NDArray[Any], NDArray[Any]], float]:
    """The objective as a function of labels and predictions, greater where it is better."""
    metric, bounds = objective.unfolded(prevalence)
    sign = 1.0 if metric.greater_is_better else -1.0

    def value(y: NDArray[Any], predicted: NDArray[Any]) -> float:
        hit, positive = float((predicted * y).sum()), float(y.sum())
        counts = Counts(np.array([hit]), np.array([predicted.sum() - hit]), positive, len(y) - positive)
        missing = sum(max(0.0, bound - float(m.function(counts)[0])) for m, bound in bounds)
        return -1.0 - missing if missing > 0 else sign * float(metric.function(counts)[0])

    return value


def lightgbm(cell: Cell, seed: int) -> Scored:
    """LightGBM at three weights of the positives, on tables with two sizes of trees each, stopped by validation AP."""
    import lightgbm as lgb

    def fit(settings: dict[str, Any]) -> Any:
        model = lgb.LGBMClassifier(**settings, subsample_freq=0, random_state=seed, n_jobs=1, verbose=-1)
        with warnings.catch_warnings(action="ignore"):  # eval_set is called otherwise from 4.7 on
            return model.fit(
                cell.train.x,
                cell.train.y,
                eval_set=[(cell.validation.x, cell.validation.y)],
                eval_metric="average_precision",
                callbacks=[lgb.early_stopping(_patience(cell), first_metric_only=True, verbose=False)],
            )

    sizes = [{"num_leaves": leaves} for leaves in (31, 7)] if cell.set.kind == "table" else [{}]
    models = [fit({**_boosting(cell), **size, "scale_pos_weight": w}) for size in sizes for w in _weights(cell)]
    return _tested(
        cell,
        models,
        lambda model, x: np.asarray(model.predict(x, raw_score=True)),
        again=lambda model: clone(model).set_params(n_estimators=max(1, model.best_iteration_)),
    )


def xgboost(cell: Cell, seed: int) -> Scored:
    """XGBoost at three weights of the positives, on tables with two depths each, stopped by validation AP."""
    xgb = import_module("xgboost")

    def fit(settings: dict[str, Any]) -> Any:
        model = xgb.XGBClassifier(
            **settings,
            tree_method="hist",
            eval_metric="aucpr",
            early_stopping_rounds=_patience(cell),
            random_state=seed,
            n_jobs=1,
        )
        return model.fit(cell.train.x, cell.train.y, eval_set=[(cell.validation.x, cell.validation.y)], verbose=False)

    depths = (6, 3) if cell.set.kind == "table" else (6,)
    models = [
        fit({**_boosting(cell), "max_depth": depth, "scale_pos_weight": w}) for depth in depths for w in _weights(cell)
    ]
    return _tested(
        cell,
        models,
        lambda model, x: np.asarray(model.predict(x, output_margin=True)),
        again=lambda model: clone(model).set_params(n_estimators=model.best_iteration + 1, early_stopping_rounds=None),
    )


def dialed(cell: Cell, seed: int) -> Scored:
    """DialedClassifier around LightGBM, on training and validation rows; thresholds are chosen on held-out scores."""
    known = cell.known
    with warnings.catch_warnings(action="ignore"):  # names of columns, which arrays have none of
        clf = DialedClassifier(_lightgbm(seed), pos_label=1, random_state=seed).fit(
            known.x, known.y, groups=known.groups
        )
        test = clf.decision_function(cell.test.x)
    if clf.dial_ is None:
        raise RuntimeError("too few positives to leave any out")
    return Scored(np.asarray(clf.dial_.scores), test[:, None], trainings=6, y=np.asarray(clf.dial_.y, dtype=np.int64))


def balanced_forest(cell: Cell, seed: int) -> Scored:
    """imbalanced-learn's BalancedRandomForest."""
    model = import_module("imblearn.ensemble").BalancedRandomForestClassifier(
        100, sampling_strategy="all", replacement=True, bootstrap=False, random_state=seed, n_jobs=1
    )
    return _scored(cell, [model], _log_odds)


def easy_ensemble(cell: Cell, seed: int) -> Scored:
    """imbalanced-learn's EasyEnsemble: ten times AdaBoost on balanced samples."""
    model = import_module("imblearn.ensemble").EasyEnsembleClassifier(10, random_state=seed, n_jobs=1)
    return _scored(cell, [model], _log_odds)


def smote(cell: Cell, seed: int) -> Scored:
    """SMOTE, then LightGBM (tables) or logistic regression (images)."""
    model = LogisticRegression(C=1e-2, max_iter=_ITERATIONS) if cell.set.kind == "images" else _lightgbm(seed)
    sampler = import_module("imblearn.over_sampling").SMOTE(
        k_neighbors=min(5, int(cell.train.y.sum()) - 1), random_state=seed
    )
    return _scored(cell, [import_module("imblearn.pipeline").make_pipeline(sampler, model)], _log_odds)


def _lightgbm(seed: int) -> Any:
    import lightgbm as lgb

    return lgb.LGBMClassifier(n_estimators=150, learning_rate=0.05, random_state=seed, n_jobs=1, verbose=-1)


def _weights(cell: Cell) -> tuple[float, float, float]:
    return 1.0, cell.beta**0.5, cell.beta


def _boosting(cell: Cell) -> dict[str, Any]:
    """Slow and careful on tables; on a thousand features of a network a tenth of them for each tree."""
    if cell.set.kind == "table":
        return {"n_estimators": 600, "learning_rate": 0.05}
    return {"n_estimators": 150, "learning_rate": 0.1, "colsample_bytree": 0.1, "max_bin": 63}


def _patience(cell: Cell) -> int:
    return 50 if cell.set.kind == "table" else 20


def _log_odds(model: Any, x: NDArray[Any]) -> NDArray[Any]:
    return margins(model.predict_proba(x)[:, 1])


def _scored(cell: Cell, models: list[Any], score: Callable[[Any, NDArray[Any]], NDArray[Any]]) -> Scored:
    with warnings.catch_warnings(action="ignore"):  # of a solver that stopped at its limit, of labels as arrays
        return _tested(cell, [model.fit(cell.train.x, cell.train.y) for model in models], score)


def _tested(
    cell: Cell,
    models: list[Any],
    score: Callable[[Any, NDArray[Any]], NDArray[Any]],
    again: Callable[[Any], Any] = clone,
) -> Scored:
    """Margins of validation rows by fitted models; of test rows, on tables, by these fitted again on all rows."""
    tested = models
    with warnings.catch_warnings(action="ignore"):
        validation = np.stack([score(model, cell.validation.x) for model in models], axis=1)
        if cell.set.kind == "table":
            tested = [again(model).fit(cell.known.x, cell.known.y) for model in models]
        test = np.stack([score(model, cell.test.x) for model in tested], axis=1)
    return Scored(validation, test, trainings=len(models) + (len(models) if tested is not models else 0))
