"""The scikit-learn faces. Each is imported when it is first used: one around another's classifier needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossdial.estimator.classifier import LCTClassifier
    from lossdial.estimator.dialed import DialedClassifier

__all__ = ["DialedClassifier", "LCTClassifier"]


def __getattr__(name: str) -> Any:
    if name == "LCTClassifier":
        from lossdial.estimator.classifier import LCTClassifier

        return LCTClassifier
    if name == "DialedClassifier":
        from lossdial.estimator.dialed import DialedClassifier

        return DialedClassifier
    raise AttributeError(f"module 'lossdial.estimator' has no attribute {name!r}")
