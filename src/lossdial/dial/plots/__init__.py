"""Pictures of a surface and its operating points, each a matplotlib `Figure` of its own.

No pyplot: nothing global is touched, no window opens, and `figure.savefig("pr.png")` works on any machine.
"""

from lossdial.dial.plots.curves import decision_curve_figure, precision_recall_figure, reliability_figure, roc_figure
from lossdial.dial.plots.heat_map import heat_map_figure
from lossdial.dial.plots.reasons import contributions_figure

__all__ = [
    "contributions_figure",
    "decision_curve_figure",
    "heat_map_figure",
    "precision_recall_figure",
    "reliability_figure",
    "roc_figure",
]
