"""Options that several commands share, declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: what an option means, unless the docstring of the command says it
MEANINGS: Final = {
    "run": "The folder that `lossdial train` wrote.",
    "data": "Labelled data that training has not seen: a table, a folder with one folder of images per class, a table "
    "of image paths, or a data set by name. By default the samples held out, or cross-fitted, in training.",
    "name": "What to call the point; `lossdial predict --point NAME` uses it.",
    "subject_to": "Bounds to keep, floors (recall, precision, …) and caps (fpr, alert_rate, …): --subject-to "
    "recall=0.95,fpr=0.2.",
    "calibration": "The map from scores to probabilities that is kept with the point: by name, auto for the best, or "
    "none.",
    "prevalence": "The share of positives where the model will be used.",
    "confidence": "What is certified holds on new data with this probability.",
    "cost_fn": "The cost of a missed positive.",
    "cost_fp": "The cost of a false alarm.",
    "path_column": "In a table of image files: the column with their paths. By default path.",
    "unlabelled": "Rows or images without labels, as they come in use.",
    "noun": "What a row is, in the sentences of the page.",
}


class OptionGroup:
    """Options that go together. A command that takes one has all of its options."""


@dataclass(frozen=True)
class Columns(OptionGroup):
    """Columns of the data that are no inputs of the model.

    Parameters
    ----------
    target
        The column with the labels. By default that of training.
    group
        A column that says which rows belong together, such as a patient's.
    """

    target: str | None = None
    group: str | None = None
    path_column: str | None = None


@dataclass(frozen=True)
class ScoresOptions(OptionGroup):
    """Scores of another classifier, in place of RUN.

    Parameters
    ----------
    scores
        A table (CSV, TSV, JSON lines, Parquet or NPZ) of labels and scores, by any classifier.
    score
        The column with the scores, high where the positive label is likely: probabilities where all lie in [0, 1].
    positive
        The label to look for. By default the rarer one.
    weight
        A column that says how much each row counts.
    out
        The file to write. By default point.json.
    """

    scores: str | None = None
    score: str | None = None
    positive: str | None = None
    weight: str | None = None
    out: str | None = None


@dataclass(frozen=True)
class LabelOptions(OptionGroup):
    """Labels, and the samples that are held out.

    Parameters
    ----------
    target
        The column of a table that holds the labels, or the classes of images.
    positive
        The label to look for. By default the rarer one.
    group
        The column that says which rows belong together, such as a patient's: they stay on one side of every split.
    beta
        Keep so many negatives per positive, by leaving out training positives. By default the data set's own choice.
    validation_fraction
        The share of the data that is held out from training. By default a fifth; none of a table on which a head is
        solved, where every row trains and is scored by a head of other folds. Images by name bring their own test data.
    seed
        One seed for everything that is random.
    """

    target: str | None = None
    positive: str | None = None
    group: str | None = None
    beta: float | None = None
    validation_fraction: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class TableOptions(OptionGroup):
    """For tables alone.

    Parameters
    ----------
    drop
        Columns to leave out, such as identifiers: --drop ID,name.
    validation
        A table to validate and tune on. By default the training table is cross-fitted, or a share of it held out.
    hidden
        Train a network with hidden layers of these widths, such as 64,64, in place of a solve.
    """

    drop: list[str] | None = None
    validation: str | None = None
    hidden: list[int] | None = None


@dataclass(frozen=True)
class ImageOptions(OptionGroup):
    """For images alone.

    Parameters
    ----------
    path_column
        The table names image files in this column, and their class in --target.
    image_size
        The side in pixels to which image files are resized.
    max_corrupt
        The share of image files that may be unreadable; they are named and left out. By default 0.01.
    features
        With --preset frozen: the folder in which the features are kept, or are to be kept. By default in --out.
    weights
        A file with the weights of the network. By default they are fetched over the network.
    """

    path_column: str | None = None
    image_size: int | None = None
    max_corrupt: float | None = None
    features: str | None = None
    weights: str | None = None
