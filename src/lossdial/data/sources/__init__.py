"""What `data` may name, for training and for every question to a trained model; values and notes, nothing printed."""

from lossdial.data.sources.later import Images, Rows, read_images, read_rows
from lossdial.data.sources.naming import data_root, kind_of, named_set
from lossdial.data.sources.training import DEFAULT_SIZE, TrainingImages, TrainingRows, training_images, training_rows

__all__ = [
    "DEFAULT_SIZE",
    "Images",
    "Rows",
    "TrainingImages",
    "TrainingRows",
    "data_root",
    "kind_of",
    "named_set",
    "read_images",
    "read_rows",
    "training_images",
    "training_rows",
]
