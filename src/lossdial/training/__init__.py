"""arrays -> weights: one fit(), SAM, schedules, checkpoints that resume exactly."""

from lossdial.training.batches import ArrayBatches, Augment
from lossdial.training.checkpoint import Checkpoint, CheckpointError
from lossdial.training.loop import DivergedError, FitResult, fit
from lossdial.training.recipe import LamPer, OptimizerConfig, Recipe
from lossdial.training.sam import SAM
from lossdial.training.schedules import Cosine, Flat, Schedule, Steps
from lossdial.training.stacked import StackedResult, fit_stacked, stackable

__all__ = [
    "SAM",
    "ArrayBatches",
    "Augment",
    "Checkpoint",
    "CheckpointError",
    "Cosine",
    "DivergedError",
    "FitResult",
    "Flat",
    "LamPer",
    "OptimizerConfig",
    "Recipe",
    "Schedule",
    "StackedResult",
    "Steps",
    "fit",
    "fit_stacked",
    "stackable",
]
