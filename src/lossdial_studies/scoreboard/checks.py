"""What the scoreboard was asked to show, each with its number: reached, or missed by how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lossdial_studies.scoreboard.objectives import OBJECTIVES
from lossdial_studies.scoreboard.ranks import Floats
from lossdial_studies.scoreboard.rivals import OURS, RIVALS
from lossdial_studies.scoreboard.table import Field

__all__ = ["Check", "checks"]

_BELOW_RIDGE = 0.003
_SETTINGS = 16  # of the VS loss, which train side by side at each learning rate
_RANKING = ("auc", "average_precision")


@dataclass(frozen=True)
class Check:
    """A claim, whether it holds, and the number it hangs on."""

    claim: str
    reached: bool
    number: str

    def __str__(self) -> str:
        return f"{'reached' if self.reached else 'MISSED'}: {self.claim}. {self.number}"


def checks(field: Field) -> tuple[Check, ...]:
    """Those for a kind of set, as far as their rivals have played."""
    if OURS[field.kind] not in field.rivals:
        return ()
    return _images(field) if field.kind == "images" else _tables(field)


def _images(field: Field) -> tuple[Check, ...]:
    """Of the exact path that counts, and of the one with the ridge alone."""
    return tuple(check for path in ("exact", "exact_ridge") if path in field.rivals for check in _of_path(field, path))


def _of_path(field: Field, path: str) -> list[Check]:
    found, who = [], f"the {RIVALS[path].title}," if path == "exact_ridge" else "the exact path"
    titles = {"auc": "AUC", "average_precision": "AP"}
    if "ridge" in field.rivals:
        for metric in _RANKING:
            sets, gain = _gain(field, metric, path, "ridge")
            worst = int(gain.argmin())
            below = max(0.0, -float(gain.min()) - _BELOW_RIDGE)
            where = f"The least is {gain.min():+.4f}, on {sets[worst]}; on average {gain.mean():+.4f}"
            missed = f"; {(gain < -_BELOW_RIDGE).sum()} of {len(gain)} sets miss it, the worst by {below:.4f}"
            claim = f"{who} is on no set below the ridge search by more than {_BELOW_RIDGE} {titles[metric]}"
            found.append(Check(claim, below == 0, where + (missed if below else "")))
    for other in ("vs", "focal", "cross_entropy"):
        if other in field.rivals:
            gains = [float(_gain(field, metric, path, other)[1].mean()) for metric in _RANKING]
            claim = f"{who} is on average above {RIVALS[other].title}"
            found.append(Check(claim, min(gains) > 0, f"AUC {gains[0]:+.4f}, AP {gains[1]:+.4f}"))
    if "vs" in field.rivals:
        share = field.seconds(path) / field.seconds("vs")
        rates = field.trainings("vs") / _SETTINGS
        claim = f"{who} takes at most half of the VS search's time, trained as stacks"
        number = f"It takes {share:.2f} of it, and {share * rates:.2f} of the same at one learning rate"
        found.append(Check(claim, share <= 0.5, number))
    return found


def _tables(field: Field) -> tuple[Check, ...]:
    ours, found = OURS["table"], []
    for rivals, who in ((field.rivals, "all rivals"), (field.learned, "the neural and linear rivals")):
        ranks = field.mean_ranks(rivals).mean(axis=0)
        own, best = ranks[rivals.index(ours)], int(ranks.argmin())
        place = int((ranks < own).sum()) + 1
        ahead = "" if place == 1 else f"; first is {RIVALS[rivals[best]].title} with {ranks[best]:.2f}"
        claim = f"LCTClassifier(), trained once, ranks first on average over all aims among {who}"
        found.append(Check(claim, place == 1, f"It is number {place} of {len(ranks)} with mean rank {own:.2f}{ahead}"))
    for other, names in (("lightgbm", ("average_precision", "log_loss", "cost")), ("dialed", ("cost",))):
        if other not in field.rivals:
            continue
        for aim in (aim for aim in OBJECTIVES if aim.name in names):
            gain = field.against(ours, other, aim).gain
            claim = f"it is better than {RIVALS[other].title} in {aim.title} by an interval that excludes zero"
            number = f"It is better by {gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"
            if other == "dialed":
                claim, held = f"it is level with {RIVALS[other].title} in {aim.title}, or better", gain.high >= 0
            else:
                held = gain.low > 0
            found.append(Check(claim, held, number))
    return tuple(found)


def _gain(field: Field, metric: str, ours: str, other: str) -> tuple[list[str], Floats]:
    """Sets, and what ours is better by on each, the mean over splits."""
    objective = next(objective for objective in OBJECTIVES if objective.name == metric)
    found = field.differences(ours, other, objective)
    return list(found), np.array([d.mean() for d in found.values()])
