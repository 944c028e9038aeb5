"""What ``lossdial tune`` can be asked besides an aim: a band to refer, a budget of alerts, the same in every part, and
what certifying would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lossdial import Bundle, Dial
    from lossdial.dial import OperatingPoint, SampleSize

__all__ = ["Question", "amounts_of", "budget", "column_of", "probed"]


@dataclass(frozen=True)
class Question:
    """The options of ``tune`` that say what is wanted; ``parts`` (n,) is the column that ``--by`` named."""

    name: str
    calibration: str | None = "auto"
    maximize: str | None = None
    minimize: str | None = None
    subject_to: Mapping[str, float] = field(default_factory=dict)
    cost_fn: float | None = None
    cost_fp: float | None = None
    prevalence: float | None = None
    confidence: float | None = None
    jointly: int = 1
    refer: Mapping[str, float] | None = None
    alerts_per_day: float | None = None
    volume: Sequence[float] | None = None
    sample_size: bool = False

    def __post_init__(self) -> None:
        if self.refer is not None:
            self._check_band()
        if (self.alerts_per_day is None) != (self.volume is None):
            raise UsageError("--alerts-per-day and --volume go together: --alerts-per-day 20 --volume 1000, say.")
        if self.sample_size and self._floor is None:
            raise UsageError("--price needs the floor to be priced: --subject-to recall=0.95, say.")

    def _check_band(self) -> None:
        given = [
            o for o in ("maximize", "minimize", "cost_fn", "cost_fp", "alerts_per_day") if getattr(self, o) is not None
        ]
        if given or self.subject_to:
            other = given[0].replace("_", "-") if given else "subject-to"
            raise UsageError(f"--refer asks for a band, --{other} for a point; give one of them.")
        if set(self.refer or {}) != {"npv", "precision"}:
            raise UsageError("--refer takes what both ends promise, as in --refer npv=0.995,precision=0.5.")
        if self.prevalence is None:
            raise UsageError("--refer needs --prevalence, the share of positives where the band will be used.")
        if self.name == "default":
            raise UsageError("--refer needs --name, what to call the band: --name triage, say.")

    @property
    def _floor(self) -> float | None:
        return self.subject_to.get("recall")

    @property
    def rate(self) -> float | None:
        """The cap on the alert rate that a budget means."""
        from lossdial.dial.certificates.alerts import rate_of

        if self.alerts_per_day is None or self.volume is None:
            return None
        try:
            return rate_of(None, self.alerts_per_day, self.days)
        except ValueError as error:
            raise UsageError(str(error).replace("per_day", "--alerts-per-day").replace("volume", "--volume")) from error

    @property
    def days(self) -> Any:
        """The volume of every day alike, or those of some days."""
        return self.volume[0] if self.volume is not None and len(self.volume) == 1 else self.volume

    @property
    def busy(self) -> str:
        """What a busy day brings; empty where no budget was asked for."""
        from lossdial.dial.certificates.alerts import daily

        return "" if self.rate is None or self.volume is None else daily(self.rate, self.days)

    def ask(self, dial: Dial, parts: Any = None) -> OperatingPoint | SampleSize:
        """The dial's answer."""
        from lossdial import Objective

        sure = 0.95 if self.confidence is None else self.confidence
        if self.refer is not None and self.prevalence is not None:
            ends = {"npv": self.refer["npv"], "precision": self.refer["precision"]}
            return dial.refer(**ends, prevalence=self.prevalence, confidence=sure, name=self.name)
        if self.sample_size and self._floor is not None:
            return dial.sample_size(self._floor, sure, self.prevalence)
        bounds, maximize = dict(self.subject_to), self.maximize
        if self.rate is not None:
            bounds["alert_rate"] = self.rate
            maximize = "recall" if maximize is None and self.minimize is None else maximize
        objective = Objective(maximize, self.minimize, bounds, self.cost_fn, self.cost_fp, self.prevalence)
        return dial.tune(
            objective=objective,
            name=self.name,
            calibration=self.calibration,
            confidence=self.confidence,
            by=parts,
            jointly=self.jointly,
        )


@dataclass(frozen=True, eq=False)
class Probed:
    """Unlabelled samples, scored (n,) at the λ of a point, the default or another; their groups (n,), if any; and why
    they cannot certify, where training has seen them."""

    point: OperatingPoint
    scores: NDArray[Any]
    groups: NDArray[Any] | None
    spent: str


def probed(bundle: Bundle, dial: Dial, unlabelled: str, path_column: str | None, group: str | None) -> Probed:
    """The samples of a file without labels, scored; ``group`` is its column of groups."""
    from lossdial.cli.inputs import Columns, read_inputs

    probe = dial.probe(bundle.points["default"])
    inputs = read_inputs(bundle, unlabelled, Columns(path=path_column, group=group), labelled=False)
    scores = bundle.predictor.margins(bundle.predictor.features(inputs.X), probe.lam)
    return Probed(probe, scores, inputs.groups, bundle.trained_on(inputs.X))


def budget(
    bundle: Bundle, dial: Dial, unlabelled: str, path_column: str | None, group: str | None, question: Question
) -> OperatingPoint:
    """The point whose alerts keep to a budget, certified on samples without labels."""
    from lossdial.dial.certificates.evidence import require_fresh

    asked = {"maximize": question.maximize, "minimize": question.minimize, "subject-to": question.subject_to or None}
    if given := [option for option, value in asked.items() if value is not None]:
        raise UsageError(f"--{given[0]} needs labels; with --unlabelled the cap on alerts alone settles the threshold.")
    _ = question.rate  # says what is wrong with it in the words of the options
    new = probed(bundle, dial, unlabelled, path_column, group)
    require_fresh(new.spent)
    return dial.cap_alerts(
        new.scores,
        per_day=question.alerts_per_day,
        volume=question.days,
        confidence=0.95 if question.confidence is None else question.confidence,
        groups_new=new.groups,
        point=new.point,
        name=question.name,
    )


def column_of(table: Any, name: str, option: str, source: str) -> Any:
    """A column of a table that an option names."""
    from lossdial.base.errors import closest

    if name not in table:
        raise UsageError(
            f"{option} {name}: {source} has no column of that name; {closest(name, list(map(str, table)))}"
        )
    return table[name]


def amounts_of(table: Any, value: str, option: str, source: str) -> Any:
    """What a case costs: a number, or the column of the table that the option names."""
    import numpy as np

    from lossdial.cli.scores import numbers

    try:
        cost = float(value)
    except ValueError:
        found = column_of(table, value, option, source)
        if found.isna().any():
            raise UsageError(f"{option} {value} is empty in {int(found.isna().sum()):,} rows of {source}.") from None
        costs = numbers(found, option)
    else:
        costs = np.full(len(table), cost)
    if not (np.isfinite(costs).all() and (costs >= 0).all()):
        wrong = costs[~(np.isfinite(costs) & (costs >= 0))]
        raise UsageError(f"{option} {value} must be finite and 0 or more; got {wrong[0]:g} ({wrong.size:,} such).")
    return costs
