"""Solutions on fixed features, to a stated gradient norm: no learning rate, no epochs, no seed."""

from lossdial.training.exact.checks import Exact, exact_space
from lossdial.training.exact.fitting import ExactFit, fit_exact, refit_head

__all__ = ["Exact", "ExactFit", "exact_space", "fit_exact", "refit_head"]
