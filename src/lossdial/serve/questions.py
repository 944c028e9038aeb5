"""Questions that a JSON object asks: decisions by scores, adapting, saving points, outcomes. No HTTP here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lossdial.bundle import own_share
from lossdial.explorer import points_from
from lossdial.serve.choosing import Chosen, described, moved, named, read_setting
from lossdial.serve.limits import Limits, Refused
from lossdial.serve.live import Live, require_own_lam
from lossdial.serve.outcomes import Monitors, as_outcomes, told
from lossdial.serve.reading import LARGEST, flag, number, numbers, text
from lossdial.serve.units import PROBABILITIES, above_by_probability, margins_of, require_probabilities, units_of

__all__ = ["Questions"]


@dataclass(frozen=True, eq=False)
class Questions:
    """Answers in JSON's own types; a mistake is `Refused`."""

    live: Live
    limits: Limits
    monitors: Monitors
    allow_save: bool

    def decide(self, given: dict[str, Any]) -> Any:
        served, others = self.live.now, self.live.others
        points = {**served.bundle.points, **others}
        setting = read_setting(given, ("point", "threshold", "prevalence"))
        name = setting.point or "default"
        if name in served.bundle.bands:
            return self._refer(given, served.choose(setting))
        point = named(points, name, served.bundle.bands)
        scores = numbers(required(given, "scores"), "scores", self.limits.rows)
        file_says = self.live.score_is.get(name)
        units = units_of(given.get("scores_are"), name, file_says)
        stated = units == PROBABILITIES and name not in others  # by this model: calibrated, and moved
        if stated:
            require_probabilities(scores, "scores_are says probabilities")
            if setting.threshold is not None:
                raise Refused(400, "a threshold by hand is a score, not a probability; post scores beside it.")
        else:
            scores = margins_of(scores, name, units, file_says)
            if setting.threshold is not None:  # in the units of the scores
                by_hand = margins_of(np.array([setting.threshold]), name, units, file_says, "threshold")
                setting = replace(setting, threshold=float(by_hand[0]))
        if setting.prevalence is not None:
            counts = point.n_positive, point.n_negative
            if name in others and min(counts) == 0 and point.prevalence is None:
                raise Refused(
                    409, f"point {point.name!r} does not tell the prevalence of its data; leave prevalence out."
                )
            own = counts[0] / max(1, sum(counts)) if name in others else own_share(served.bundle, point)
            point = moved(point, setting.prevalence, own)
        chosen = described(point, setting, None)
        if stated:
            positive, probability = above_by_probability(chosen.point, chosen.point.threshold, scores), scores
        else:
            positive, probability = chosen.point.predict(scores), np.asarray(chosen.point.probability(scores))
        return {"decision": positive.tolist(), "probability": probability.tolist(), **chosen.told}

    def _refer(self, given: dict[str, Any], chosen: Chosen) -> Any:
        """What a referral band of this model says of its scores."""
        scores, band = numbers(required(given, "scores"), "scores", self.limits.rows), chosen.band
        assert band is not None
        if units_of(given.get("scores_are"), band.name, None) == PROBABILITIES:
            raise Refused(400, f"{band.name!r} is a referral band, on scores; post the score that /predict answers.")
        said = {"decision": band.predict(scores).tolist(), "probability": np.asarray(band.probability(scores)).tolist()}
        return {**said, **chosen.told}

    def adapt(self, given: dict[str, Any]) -> Any:
        prevalence = read_setting({"prevalence": required(given, "prevalence")}).prevalence
        costs = {name: number(given.get(name, 1.0), name) for name in ("cost_fn", "cost_fp")}
        for side, cost in costs.items():
            if not 1 / LARGEST <= cost <= LARGEST:
                raise Refused(400, f"{side} must lie in [{1 / LARGEST:g}, {LARGEST:g}]; got {cost:g}.")
        name = text(given.get("name", "adapted"), "name")
        save = flag(given.get("save", False), "save")
        if save:
            self._require_saving()
        try:
            point = self.live.now.bundle.adapt(prevalence=prevalence or 0.5, name=name, **costs)
        except ValueError as error:
            raise Refused(409 if "held-out" in str(error) else 400, str(error)) from None
        if save:
            self.live.save((point,), flag(given.get("replace", False), "replace"))
        return {"saved": save, "certified": False, "point": point.to_json()}

    def save_points(self, given: dict[str, Any]) -> Any:
        self._require_saving()
        overwrite = given.pop("replace", "false")
        if overwrite not in ("true", "false"):
            raise Refused(400, f"replace must be true or false; got {overwrite!r:.60}.")
        if not isinstance(given.get("points"), list) or not 0 < len(given["points"]) <= 100:
            raise Refused(400, "points must be a list of 1 to 100 points, as a page saves them.")
        points = points_from(given, "the body")
        for point in points:
            require_own_lam(self.live.now.bundle, point)
            text(point.name, "name")
        taken = self.live.save(points, overwrite == "true")
        return {"saved": [*taken.new, *taken.replaced], "there_already": list(taken.known), "certified": False}

    def see(self, given: dict[str, Any]) -> Any:
        served = self.live.now
        name = text(given.get("point", "default"), "point")
        own = name in served.bundle.points
        if name in served.bundle.bands:
            raise Refused(409, f"{name!r} is a referral band; an operating point can be watched.")
        point = named({**served.bundle.points, **self.live.others}, name)
        scores = numbers(required(given, "scores"), "scores", self.limits.rows)
        outcomes = as_outcomes(required(given, "outcomes"), served.labels if own else (0, 1), len(scores))
        file_says = self.live.score_is.get(name)
        scores = margins_of(scores, name, units_of(None, name, file_says), file_says)
        return {"point": name, **told(self.monitors.see(name, point, scores, outcomes))}

    def _require_saving(self) -> None:
        if not self.allow_save:
            raise Refused(403, "this server writes nothing; start it with --allow-save to save points.")


def required(given: dict[str, Any], key: str) -> Any:
    if given.get(key) is None:
        raise Refused(400, f"{key!r} is missing.")
    return given[key]
