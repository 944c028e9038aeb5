"""arrays -> weights: one fit(), SAM, schedules, checkpoints that resume exactly."""

from lossdial.training.batches import ArrayBatches, Augment
from lossdial.training.checkpoint import Checkpoint, CheckpointError
from lossdial.training.environment import make_fabric
from lossdial.training.exact import Exact, ExactFit, exact_space, fit_exact, refit_head
from lossdial.training.loop import FitResult, fit
from lossdial.training.optimizers import SAM
from lossdial.training.recipe import Cosine, LamPer, OptimizerConfig, Recipe, Schedule, Steps, Triangle
from lossdial.training.step import DivergedError, least_log_loss, standing_lams
from lossdial.training.tables import learn_table

__all__ = [
    "SAM",
    "ArrayBatches",
    "Augment",
    "Checkpoint",
    "CheckpointError",
    "Cosine",
    "DivergedError",
    "Exact",
    "ExactFit",
    "FitResult",
    "LamPer",
    "OptimizerConfig",
    "Recipe",
    "Schedule",
    "Steps",
    "Triangle",
    "exact_space",
    "fit",
    "fit_exact",
    "learn_table",
    "least_log_loss",
    "make_fabric",
    "refit_head",
    "standing_lams",
]
