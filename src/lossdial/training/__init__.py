"""arrays -> weights: one fit(), SAM, schedules, checkpoints that resume exactly."""

from lossdial.training.batches import ArrayBatches, Augment, Batch
from lossdial.training.checkpoint import Checkpoint, CheckpointError
from lossdial.training.environment import make_fabric
from lossdial.training.exact import Exact, ExactFit, exact_space, fit_exact, refit_head
from lossdial.training.loop import FitResult, fit
from lossdial.training.optimizers import SAM, Muon, Together, orthogonalized
from lossdial.training.recipe import Cosine, Flat, LamPer, OptimizerConfig, Recipe, Schedule, Steps, Triangle
from lossdial.training.step import DivergedError, least_log_loss, standing_lams
from lossdial.training.tables import learn_table

__all__ = [
    "SAM",
    "ArrayBatches",
    "Augment",
    "Batch",
    "Checkpoint",
    "CheckpointError",
    "Cosine",
    "DivergedError",
    "Exact",
    "ExactFit",
    "FitResult",
    "Flat",
    "LamPer",
    "Muon",
    "OptimizerConfig",
    "Recipe",
    "Schedule",
    "Steps",
    "Together",
    "Triangle",
    "exact_space",
    "fit",
    "fit_exact",
    "learn_table",
    "least_log_loss",
    "make_fabric",
    "orthogonalized",
    "refit_head",
    "standing_lams",
]
