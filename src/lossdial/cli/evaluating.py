"""``lossdial evaluate``: what every stored point is worth on labelled data, in figures and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lossdial.base.files import write

if TYPE_CHECKING:
    from lossdial.dial import OperatingPoint, Surface

__all__ = ["evaluate"]

_OF_PROBABILITIES = ("brier", "log_loss", "calibration_error@15")


def _notes(points: list[OperatingPoint], surface: Surface, data: str | None) -> list[str]:
    """What a reader must know of these figures."""
    notes = ["These rows may have been tuned on: the figures flatter."] if data is None else []
    return notes + [
        f"{p.name} is adapted to prevalence {p.prevalence:g} and states its probabilities there; figures are of these "
        f"rows, prevalence {surface.prevalence:.3g}."
        for p in points
        if p.prevalence is not None
    ]


def evaluate(run: str, /, data: str | None = None, out: str | None = None, heat_map: str = "auc") -> None:
    """Measure every operating point on labelled data: figures, intervals, pictures.

    They are printed, and written as a page, as JSON and as pictures. Use data that neither training nor tuning has
    seen; figures on the tuning data flatter.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    data
        A labelled table. By default the rows held out in training, on which points may have been tuned.
    out
        The folder for report.html, evaluation.json and the pictures. By default RUN/evaluation.
    heat_map
        The metric to draw over λ.
    """
    import numpy as np
    from rich.console import Console

    from lossdial import Bundle, LCTClassifier
    from lossdial.cli.dialing import labelled
    from lossdial.cli.report import Sheet, write_report
    from lossdial.dial import REPORT, Surface, estimates
    from lossdial.dial.figures import (
        decision_curve_figure,
        heat_map_figure,
        precision_recall_figure,
        reliability_figure,
        roc_figure,
    )

    bundle = Bundle.load(run)
    classifier = LCTClassifier.from_bundle(bundle)
    X, y = labelled(bundle, data)
    points = list(bundle.points.values())
    at_points = classifier.surface(X, y, bundle.model.space.stack([p.lam for p in points]))
    figures = estimates(at_points, REPORT, np.array([p.threshold for p in points]))
    # A point's probabilities are calibrated and moved to its prevalence; its decisions are not touched by that.
    stated = np.stack([p.margin(at_points.score(i)) for i, p in enumerate(points)], axis=1)
    figures |= estimates(Surface(at_points.y, stated, at_points.lams), _OF_PROBABILITIES)
    sheet = Sheet(
        f"{at_points.n_positive} positives, {at_points.n_negative} negatives",
        ("metric", *(p.name for p in points)),
        [(metric, *(str(e) for e in values)) for metric, values in figures.items()],
        " ".join(["95 % intervals.", *_notes(points, at_points, data)]),
    )
    space = bundle.model.space
    grid = classifier.surface(X, y)
    chosen = [dict(p.lam) for p in points if dict(p.lam) not in grid.lams]
    surface = classifier.surface(X, y, space.stack([*grid.lams, *chosen])) if chosen else grid
    verdict = classifier.verdict(X, y)
    folder = Path(out) if out is not None else Path(run) / "evaluation"
    content = {
        "n_positive": at_points.n_positive,
        "n_negative": at_points.n_negative,
        "held_out_in_training": data is None,
        "points": {
            p.name: {m: [v[i].value, v[i].low, v[i].high] for m, v in figures.items()} for i, p in enumerate(points)
        },
        "verdict": str(verdict),
    }
    write(folder / "evaluation.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    pictures = {
        "precision_recall": precision_recall_figure(surface, points),
        "roc": roc_figure(surface, points),
        "heat_map": heat_map_figure(grid, heat_map, points),
        "reliability": reliability_figure(surface, points),
        "decision_curve": decision_curve_figure(surface, points),
    }
    written = write_report(folder, f"{Path(run).name} on {data or 'held-out rows'}", str(verdict), [sheet], pictures)
    console = Console(soft_wrap=True)
    console.print(sheet)
    console.print(str(verdict))
    console.print(f"look at: {written[0]}")
