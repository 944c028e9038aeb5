"""The questions that can be asked and the answers to them, as pydantic models; and their mistakes as one line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.types import FailFast

from lossdial.base.errors import closest

#: the largest score, threshold or cost that is accepted: beyond it arithmetic overflows
LARGEST: Final = 1e9

Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=1 / LARGEST, le=1 - 1 / LARGEST, description="strictly between 0 and 1")]
Cost = Annotated[float, Field(ge=1 / LARGEST, le=LARGEST)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Scores = Annotated[
    list[Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]], Field(min_length=1), FailFast()
]


class _Question(BaseModel):
    """An object of JSON that has these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, content: Any) -> Any:
        if isinstance(content, dict):
            for name in content:
                if name not in cls.model_fields:
                    raise ValueError(f"{name!r:.60} is unknown; {closest(name[:60], cls.model_fields)}")
        return content


def _lam_of_text(lam: Any) -> Any:
    """λ written as gamma=0.1,tau=2, as a query has it."""
    if not isinstance(lam, str):
        return lam
    pairs = [part.partition("=") for part in lam[:2_000].split(",")]
    try:
        values = {name.strip(): float(value) for name, _, value in pairs}
    except ValueError:
        values = {}
    if len(values) < len(pairs):
        raise ValueError(f"lam must be written as name=number,name=number; got {shown(lam)}.")
    return values


class PredictQuery(_Question):
    """The point, or λ and threshold by hand, that decide; and the prevalence that probabilities are stated for."""

    model_config = ConfigDict(strict=False)

    point: Name | None = Field(default=None, description="The operating point; default unless given.")
    lam: Annotated[dict[str, Finite], Field(max_length=100), BeforeValidator(_lam_of_text)] | None = Field(
        default=None, description="λ by hand, in a query as gamma=0.1,tau=2. The answer is then not certified."
    )
    threshold: Finite | None = Field(default=None, description="A score by hand. The answer is then not certified.")
    prevalence: Share | None = Field(
        default=None, description="The share of positives that probabilities are stated for."
    )

    @property
    def lam_items(self) -> tuple[tuple[str, float], ...] | None:
        """λ as a value that can be compared and hashed."""
        return None if self.lam is None else tuple(sorted(self.lam.items()))


class Predict(PredictQuery):
    """Rows, or images in base64; and what decides them."""

    model_config = ConfigDict(strict=True)

    rows: list[Any] | None = Field(default=None, min_length=1)
    images: list[Any] | None = Field(default=None, min_length=1)


class Decide(_Question):
    """Scores of this model or another, and the point that decides."""

    scores: Scores
    point: Name | None = None
    scores_are: Literal["margins", "probabilities"] | None = None
    threshold: Finite | None = None
    prevalence: Share | None = None


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
    threshold: float | str | None = Field(default=None, description="A score; 'inf' accepts nothing.")
    model_probability: float | None = Field(default=None, description="The threshold before calibration.")
    threshold_probability: float | None = Field(
        default=None, description="The threshold as the calibrated probability."
    )
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
    certified: bool
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
    certified: bool


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
    """Whether a certificate still holds."""

    holds: bool
    broken: list[str]
    bounds: dict[str, BoundState]
    said: list[str]


class MonitorOfPoint(MonitorState):
    """The same, and the point that it is of."""

    point: str


class Ready(BaseModel):
    """Whether requests are taken, and whether the model on disk can be read."""

    status: str
    waiting_rows: int
    note: str


def shown(value: Any) -> str:
    """A value of JSON in a message, at most 60 characters."""
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def explained(errors: Iterable[Any]) -> str:
    """The first error of pydantic's, in a line: where, what it must be, and what came."""
    error = next(iter(errors))
    where = _path(error["loc"])
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "missing":
        return f"{where!r} is missing." if where else "the body is missing; send a JSON object."
    problem = _PROBLEMS.get(error["type"], error["msg"].replace("Input should", "must", 1))
    return f"{where or 'the body'} {problem}; got {shown(error['input'])}."


#: what a value must be, by pydantic's kinds of errors; others have its own words
_PROBLEMS: Final = {
    "bool_type": "must be true or false",
    "dict_type": "must be an object of names and numbers",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a finite number",
    "float_type": "must be a finite number",
    "list_type": "must be a list",
    "model_attributes_type": "must be a JSON object",
    "model_type": "must be a JSON object",
    "string_pattern_mismatch": "must be text of 1 to 200 characters",
    "string_too_long": "must be text of 1 to 200 characters",
    "string_too_short": "must be text of 1 to 200 characters",
    "string_type": "must be text of 1 to 200 characters",
    "too_long": "is too long",
    "too_short": "must not be empty",
}


def _path(location: tuple[int | str, ...]) -> str:
    """rows[0].age of ('body', 'rows', 0, 'age')."""
    parts = location[1:] if location and location[0] in ("body", "query") else location
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part:.60}" for part in parts).lstrip(".")
