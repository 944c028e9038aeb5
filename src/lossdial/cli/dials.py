"""The dial that a command asks: over labelled data of a model, or over a file of another classifier's scores."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import lossdial
from lossdial.base.codec import encode_float
from lossdial.base.errors import InputError, warn
from lossdial.base.files import require_writable, write
from lossdial.base.labels import positive_class
from lossdial.base.report import show
from lossdial.cli.inputs import column_of, numbers, read_inputs, require_data_for
from lossdial.cli.options import Columns, ScoresOptions
from lossdial.data import read_table
from lossdial.dial import Dial, OperatingPoint, margin_of_probability


@dataclass(frozen=True, eq=False)
class ModelDial:
    """The dial over labelled data of a model, or over its held-out samples; ``table`` holds the rows of the data."""

    run: str
    bundle: lossdial.Bundle
    dial: Dial
    data: str | None
    table: pd.DataFrame | None

    @classmethod
    def of(cls, run: str, data: str | None, columns: Columns) -> ModelDial:
        """The model in a folder, and its dial."""
        bundle = lossdial.Bundle.load(run)
        if data is None:
            require_data_for(columns)
            return cls(run, bundle, bundle.held_out(), None, None)
        inputs = read_inputs(bundle, data, columns, labelled=True)
        dial = bundle.dial(inputs.X, inputs.y, groups=inputs.groups)
        return cls(run, bundle, dial, data, inputs.rows)

    def column(self, name: str | None, option: str) -> NDArray[Any] | None:
        """The column that an option names, (n,); None where it names none."""
        if name is None:
            return None
        if self.table is None:
            raise InputError(option, "names a column of {data}, which is not given", got=name)
        return column_of(self.table, name, option, str(self.data)).to_numpy()

    def unlabelled(self, data: str, columns: Columns) -> NewSamples:
        """Samples without labels, scored at the λ of the default point, or of the best AUC where that λ is no more."""
        probe = self.dial.probe(self.bundle.points["default"])
        inputs = read_inputs(self.bundle, data, replace(columns, target=None), labelled=False)
        scores = self.bundle.predictor.margins(self.bundle.predictor.features(inputs.X), probe.lam)
        return NewSamples(probe, scores, inputs.groups, self.bundle.trained_on(inputs.X))

    def keep(self, point: OperatingPoint) -> str:
        """Save the point in the model; return a line that says where it is."""
        return keep_in_model(self.bundle, self.run, point)


def keep_in_model(bundle: lossdial.Bundle, run: str, point: OperatingPoint) -> str:
    """Save a point in a model; return a line that says where it is."""
    bundle.with_point(point).save(run)
    named = "" if point.name == "default" else f" --point {point.name}"
    return f"kept in {run} as {point.name!r}. Next: lossdial predict {run} --data … --out …{named}"


@dataclass(frozen=True, eq=False)
class NewSamples:
    """Samples without labels: their scores (n,) at the λ of a point, their groups (n,), if any, and why they cannot
    certify where training has seen them."""

    point: OperatingPoint
    scores: NDArray[Any]
    groups: NDArray[Any] | None
    spent: str


@dataclass(frozen=True, eq=False)
class ScoresDial:
    """The dial over a file of labels and scores, (n,) as they stand in the file and as margins, which the dial sees."""

    options: ScoresOptions
    target: str
    classes: tuple[str, str]  # the negative label first
    table: pd.DataFrame
    scores: NDArray[np.float64]
    margins: NDArray[np.floating[Any]]
    dial: Dial

    @classmethod
    def of(cls, options: ScoresOptions, columns: Columns) -> ScoresDial:
        """The labels and scores of a table; each column that is missing, or is not what it should be, is an error."""
        path = str(options.scores)
        table = read_table(path)
        for option, name, what in (("target", columns.target, "labels"), ("score", options.score, "scores")):
            if name is None:
                remedy = f"There are {', '.join(map(str, table))}."
                raise InputError(option, f"is needed with {{scores}}: the column with the {what}", remedy=remedy)
        target, score = str(columns.target), str(options.score)
        labels = column_of(table, target, "target", path).to_numpy()
        scores = numbers(column_of(table, score, "score", path), "score")
        group, weight = columns.group, options.weight
        groups = None if group is None else column_of(table, group, "group", path).to_numpy()
        weights = None if weight is None else numbers(column_of(table, weight, "weight", path), "weight")
        positive = positive_class(labels, options.positive)
        y = labels == positive
        if not y.any() or y.all():
            raise InputError("target", f"{target} holds one label alone, {labels[0]}; two are needed")
        are_probabilities = bool(((scores >= 0) & (scores <= 1)).all())
        margins = margin_of_probability(scores) if are_probabilities else scores
        dial = Dial(y, margins, groups=groups, sample_weight=weights)
        kind, why = ("probability", "all lie in") if are_probabilities else ("margin", "some lie outside")
        show(f"{score} is read as a {kind} of {target}={positive} ({why} [0, 1]).")
        (auc,) = dial.surface.metrics(["auc"])["auc"]
        if auc < 0.5:
            warn(
                f"the scores of positives are lower than those of negatives (AUC {auc:.3f}): is {score} a score of "
                "the other label? {pos_label} chooses."
            )
        others = " or ".join(sorted({str(label) for label in np.unique(labels[~y])}))
        return cls(options, target, (others, str(positive)), table, scores, margins, dial)

    @property
    def are_probabilities(self) -> bool:
        return self.margins is not self.scores

    def column(self, name: str | None, option: str) -> NDArray[Any] | None:
        """The column that an option names, (n,); None where it names none."""
        return None if name is None else column_of(self.table, name, option, str(self.options.scores)).to_numpy()

    def threshold(self, margin: float) -> float:
        """A threshold on the file's own scale: the scores above it are those whose margins are above the margin."""
        if not self.are_probabilities:
            return float(margin)
        flagged = np.asarray(self.margins, dtype=np.float64) > margin
        below = float(self.scores[~flagged].max(initial=-np.inf))
        above = float(self.scores[flagged].min(initial=np.inf))
        between = float(1 / (1 + np.exp(-margin)))
        return between if below <= between < above else max(below, float(np.nextafter(0.0, -1.0)))

    def keep(self, point: OperatingPoint) -> str:
        """Write the point as JSON, with its threshold on the file's own scale; return a line that says what to do."""
        out, score, (negative, positive) = self.options.out or "point.json", self.options.score, self.classes
        margins = {"threshold": point.threshold} | ({} if point.lower is None else {"lower": point.lower})
        cuts = {name: self.threshold(margin) for name, margin in margins.items()}
        kind = "probability" if self.are_probabilities else "margin"
        content = point.to_json() | {
            "score": {"column": score, "is": kind} | {name: encode_float(cut) for name, cut in cuts.items()},
            "target": {"column": self.target, "positive": positive, "negative": negative},
        }
        write(Path(out), json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n")
        if "lower" not in cuts:
            return f"flag {positive} where {score} > {cuts['threshold']:.6g}; the point is in {out}"
        return (
            f"clear where {score} <= {cuts['lower']:.6g}, act where it is > {cuts['threshold']:.6g}, refer between; "
            f"the point is in {out}"
        )


def open_dial(
    run: str | None, data: str | None, columns: Columns, scores: ScoresOptions, keeps: bool = True
) -> ModelDial | ScoresDial:
    """The dial that RUN and --data name, or that --scores names; whether a point is to be kept."""
    if scores.scores is None:
        for name, value in vars(scores).items():
            if value is not None:
                raise InputError(name, "goes with {scores}", got=value, remedy="A model knows its own.")
        if run is None:
            raise InputError("", "RUN is needed, the folder that `lossdial train` wrote; or {scores}, a file of scores")
        return ModelDial.of(run, data, columns)
    if run is not None or data is not None:
        raise InputError("", "give RUN, with {data} or without, or {scores}; not both")
    if columns.path_column is not None:
        raise InputError("path_column", "goes with RUN", got=columns.path_column)
    if keeps:
        require_writable(Path(scores.out or "point.json"))
    elif scores.out is not None:
        raise InputError("out", "is of no use, since nothing is written", got=scores.out, remedy="Leave it out.")
    return ScoresDial.of(scores, columns)
