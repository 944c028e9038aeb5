"""Who plays: every rival by name, with the family it is ranked in and the kinds of sets it plays on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from lossdial.base.errors import closest
from lossdial_studies.scoreboard import networks, shallow
from lossdial_studies.scoreboard.objectives import Scored
from lossdial_studies.scoreboard.sets import Cell, Kind

Family = Literal["ours", "linear", "neural", "trees"]
#: families that are ranked apart from boosting and forests too
LEARNED: Final[tuple[Family, ...]] = ("ours", "linear", "neural")
_SHIFTS: Final = (0.5, 1.0, 2.0)
_SEARCHED: Final[Mapping[Kind, int]] = {"images": 2}  # at three learning rates; the path over C up to 1
_REFITTED: Final[Mapping[Kind, int]] = {"table": 2}  # fitted again on validation rows, too


@dataclass(frozen=True)
class Rival:
    """A way to get scores."""

    name: str
    title: str
    family: Family
    run: Callable[[Cell, int], Scored]
    kinds: tuple[Kind, ...] = ("table", "images")
    versions: Mapping[Kind, int] = field(default_factory=dict)  # a raised version has the rows of such sets made again

    def version(self, kind: Kind) -> int:
        return self.versions.get(kind, 1)


def _network(which: str, shifts: tuple[float, ...] = (0.0,)) -> Callable[[Cell, int], Scored]:
    return partial(networks.searched, which=which, shifts=shifts)


RIVALS: Final[dict[str, Rival]] = {
    r.name: r
    for r in (
        Rival("ridge", "ridge, 4 C × 2", "linear", shallow.ridge, versions=_REFITTED),
        Rival("cross_entropy", "cross entropy", "neural", _network("cross_entropy"), versions=_SEARCHED),
        Rival("class_weighted", "class-weighted", "neural", _network("class_weighted"), versions=_SEARCHED),
        Rival("logit_adjustment", "logit adjustment", "neural", _network("cross_entropy", _SHIFTS), versions=_SEARCHED),
        Rival("vs", "VS search", "neural", _network("vs"), versions=_SEARCHED),
        Rival("focal", "Focal search", "neural", _network("focal"), versions=_SEARCHED),
        Rival("libauc", "LibAUC", "neural", networks.libauc),
        Rival("tabm", "TabM", "neural", networks.tabm, ("table",)),
        Rival("lightgbm", "LightGBM", "trees", shallow.lightgbm, versions=_REFITTED),
        Rival("xgboost", "XGBoost", "trees", shallow.xgboost, versions=_REFITTED),
        Rival("dialed", "DialedClassifier(LightGBM)", "trees", shallow.dialed, ("table",)),
        Rival("tuned_threshold", "TunedThresholdClassifierCV", "trees", shallow.tuned_threshold, versions=_REFITTED),
        Rival("balanced_forest", "BalancedRandomForest", "trees", shallow.balanced_forest, versions=_REFITTED),
        Rival("easy_ensemble", "EasyEnsemble", "trees", shallow.easy_ensemble, versions=_REFITTED),
        Rival("smote", "SMOTE + model", "trees", shallow.smote, versions=_REFITTED),
        Rival("exact", "exact path, one fit", "ours", networks.exact, ("images",), _SEARCHED),
        Rival("exact_ridge", "exact path, ridge alone", "ours", networks.exact_ridge, ("images",), _SEARCHED),
        Rival("polynomial", "LCT, polynomial head", "ours", networks.polynomial, ("images",)),
        Rival("film", "LCT, FiLM", "ours", networks.film, ("images",)),
        Rival("lct", "LCTClassifier()", "ours", networks.default, ("table",), _REFITTED),
    )
}

#: whose wins and losses are counted
OURS: Final[dict[Kind, str]] = {"table": "lct", "images": "exact"}


def rival(name: str) -> Rival:
    if name not in RIVALS:
        raise ValueError(f"no rival is called {name!r}; {closest(name, RIVALS)}")
    return RIVALS[name]
