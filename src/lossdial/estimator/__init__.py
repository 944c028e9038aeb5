"""The scikit-learn faces: ``LCTClassifier`` trains, ``DialedClassifier`` stands around anybody's classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.lazy import lazily

if TYPE_CHECKING:
    from lossdial.estimator.classifier import LCTClassifier
    from lossdial.estimator.dialed import DialedClassifier
    from lossdial.estimator.parameters import Run

__all__ = ["DialedClassifier", "LCTClassifier", "Run"]

# DialedClassifier needs no torch.
__getattr__, __dir__ = lazily(
    "lossdial.estimator", {"classifier": "LCTClassifier", "dialed": "DialedClassifier", "parameters": "Run"}
)
