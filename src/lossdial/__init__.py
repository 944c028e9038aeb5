"""Train one classifier over a distribution of losses; dial in the trade-off afterwards.

Names are imported when first used: ``import lossdial`` costs nothing, ``lossdial.Dial`` no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lossdial.bundle import Bundle
    from lossdial.dial import Dial, Objective
    from lossdial.estimator import LCTClassifier
    from lossdial.losses import FocalLoss, VSLoss
    from lossdial.models import ConditionalClassifier
    from lossdial.spaces import Constant, Linear, Space
    from lossdial.training import SAM, Recipe, fit

__all__ = [
    "SAM",
    "Bundle",
    "ConditionalClassifier",
    "Constant",
    "Dial",
    "FocalLoss",
    "LCTClassifier",
    "Linear",
    "Objective",
    "Recipe",
    "Space",
    "VSLoss",
    "fit",
]

#: where each name lives
_HOMES: Final = {
    "SAM": "training",
    "Bundle": "bundle",
    "ConditionalClassifier": "models",
    "Constant": "spaces",
    "Dial": "dial",
    "DialedClassifier": "estimator",
    "FocalLoss": "losses",
    "LCTClassifier": "estimator",
    "Linear": "spaces",
    "Objective": "dial",
    "Predictor": "predictor",
    "Recipe": "training",
    "Space": "spaces",
    "VSLoss": "losses",
    "fit": "training",
}
_ROOMS: Final = frozenset(
    ("base", "bundle", "cli", "data", "dial", "estimator", "experiments", "losses", "models", "spaces", "training")
)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:  # `import lossdial; lossdial.dial.Surface`
        return import_module(f"lossdial.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'lossdial' has no attribute {name!r}")
    value = getattr(import_module(f"lossdial.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
