"""The scikit-learn faces. Each is imported when it is first used: one around another's classifier needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.imports import lazily

if TYPE_CHECKING:
    from lossdial.sklearn.classifier import LCTClassifier
    from lossdial.sklearn.dialed import DialedClassifier
    from lossdial.sklearn.run import Run

__all__ = ["DialedClassifier", "LCTClassifier", "Run"]

__getattr__, __dir__ = lazily(__name__, {"classifier": "LCTClassifier", "dialed": "DialedClassifier", "run": "Run"})
