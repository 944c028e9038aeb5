"""The questions that can be asked and the answers to them, as pydantic models; and their mistakes as one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.types import FailFast

from lossdial.base.errors import closest, shown

_LARGEST: Final = 1e9  # score or cost: beyond it arithmetic overflows

Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=1 / _LARGEST, le=1 - 1 / _LARGEST, description="strictly between 0 and 1")]
Cost = Annotated[float, Field(ge=1 / _LARGEST, le=_LARGEST)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Scores = Annotated[
    list[Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]], Field(min_length=1), FailFast()
]


class _Question(BaseModel):
    """An object of JSON that has these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, content: Any) -> Any:
        for name in content if isinstance(content, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(f"{name!r:.60} is unknown; {closest(name[:60], cls.model_fields)}")
        return content


def _lam_of_text(lam: Any) -> Any:
    """λ written as gamma=0.1,tau=2, as a query has it."""
    if not isinstance(lam, str):
        return lam
    pairs = [pair.partition("=") for pair in lam[:2_000].split(",")]
    try:
        values = {name.strip(): float(value) for name, _, value in pairs}
    except ValueError:
        values = {}
    if len(values) < len(pairs):
        raise ValueError(f"lam must be written as name=number,name=number; got {shown(lam)}.")
    return values


class PointSetting(_Question):
    """The point that decides, and what is set beside it."""

    point: Name | None = Field(default=None, description="The operating point; default unless given.")
    threshold: Finite | None = Field(default=None, description="A score by hand. The answer is then not certified.")
    prevalence: Share | None = Field(default=None, description="The share of positives for which probabilities hold.")


class Setting(PointSetting):
    """The same; or λ by hand in place of a point."""

    lam: Annotated[dict[str, Finite], Field(max_length=100), BeforeValidator(_lam_of_text)] | None = Field(
        default=None, description="λ by hand, in a query as gamma=0.1,tau=2. The answer is then not certified."
    )


class Predict(Setting):
    """Rows, and what decides them."""

    rows: list[Any] = Field(min_length=1)


class Decide(PointSetting):
    """Scores of this model or another, and the point that decides."""

    scores: Scores
    scores_are: Literal["margins", "probabilities"] | None = None


class Adapt(_Question):
    """A prevalence and costs."""

    prevalence: Share
    cost_fn: Cost = 1.0
    cost_fp: Cost = 1.0
    name: Name = "adapted"
    save: bool = False
    replace: bool = False


class SavePoints(_Question):
    """What a page saves, or GET /points answers."""

    format: str
    points: list[Any] = Field(min_length=1, max_length=100)
    title: Any = None
    evidence: Any = None
    others: Any = None


class Replace(_Question):
    """The query of POST /points."""

    model_config = ConfigDict(strict=False)

    replace: bool = False


class Outcomes(_Question):
    """Scores of cases and their outcomes: labels of the model, or 0 and 1."""

    point: Name = "default"
    scores: Scores
    outcomes: list[Any] = Field(min_length=1)


class Error(BaseModel):
    """Every refusal."""

    error: str


class _Choice(BaseModel):
    """The point that decided, and whether it is certified."""

    point: str | None
    lam: dict[str, float]
    prevalence: float | None
    certified: bool
    certificate: str
    threshold: float | str = Field(description="A score; 'inf' accepts nothing.")
    model_probability: float = Field(description="The threshold before calibration.")
    threshold_probability: float = Field(description="The threshold as the calibrated probability.")
    lower: float | str | None = Field(default=None, description="Of a referral band: clear at most this score.")


class Prediction(_Choice):
    """An answer of /predict, by row."""

    prediction: list[Any]
    probability: list[float]
    score: list[float]
    notes: list[str]


class Decision(_Choice):
    """An answer of /decide, by score."""

    decision: list[bool | str]
    probability: list[float]


class Adapted(BaseModel):
    """An answer of /adapt."""

    saved: bool
    certified: bool = False
    point: dict[str, Any]


class Points(BaseModel):
    """The operating points of this model, and the points of another model."""

    format: str
    points: list[dict[str, Any]]
    others: list[dict[str, Any]]


class Saved(BaseModel):
    """The names that were saved, and those of points that were there just so."""

    saved: list[str]
    there_already: list[str]
    certified: bool = False


class BoundState(BaseModel):
    """One bound of a certificate, after so many outcomes."""

    bound: float
    outcomes: int
    seen: float | None
    interval: tuple[float, float]
    evidence: float | str
    broken: bool
    broken_at: int | None


class MonitorState(BaseModel):
    """Whether the certificate of a point still holds."""

    point: str
    holds: bool
    broken: list[str]
    bounds: dict[str, BoundState]
    said: list[str]


class Ready(BaseModel):
    """Whether requests are taken, and whether the model on disk can be read."""

    status: str
    waiting_rows: int
    note: str


def explained(errors: Iterable[Any]) -> str:
    """The first error of pydantic's, in a line: where, what it must be, and what came."""
    error = next(iter(errors))
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    place = [part for part in error["loc"] if part not in ("body", "query")]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part:.60}" for part in place).lstrip(".")
    if error["type"] == "missing" and where:
        return f"{where!r} is missing."
    problem = "must be a JSON object" if error["type"].startswith("model_") else error["msg"]
    problem = (problem[:1].lower() + problem[1:]).replace("input should", "must", 1)
    return f"{where or 'the body'}: {problem}; got {shown(error['input'])}."
