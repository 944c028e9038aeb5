"""What λ is: distributions of one hyperparameter, and their named product."""

from lossdial.spaces.distributions import Constant, Linear, register_distribution
from lossdial.spaces.space import Lam, Space

__all__ = ["Constant", "Lam", "Linear", "Space", "register_distribution"]
