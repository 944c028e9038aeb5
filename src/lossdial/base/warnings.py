"""Warnings that point at the line of whoever called lossdial, however deep the reason is found."""

from __future__ import annotations

import sys
import warnings
from typing import Final

__all__ = ["warn"]

_BETWEEN: Final = {
    "lossdial",
    "lossdial_studies",
    "sklearn",
    "joblib",
}  # a pipeline that calls fit is not the caller's line either


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is neither of lossdial nor of scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)  # noqa: TID251
