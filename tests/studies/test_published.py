import itertools

import pytest

from lossdial.dial.metrics.registry import PAPER_METRICS
from lossdial_studies.data_sets import DATA_SETS
from lossdial_studies.methods import METHODS
from lossdial_studies.published import COLUMNS, Column, published

BY_HEADING = {c.heading: c for c in COLUMNS}


def test_every_method_has_every_metric_in_every_column() -> None:
    assert {c.data for c in COLUMNS} <= {d.name for d in DATA_SETS}
    assert len({(c.data, c.beta) for c in COLUMNS}) == len(COLUMNS) == 12
    for metric, name, column in itertools.product(PAPER_METRICS, METHODS, COLUMNS):
        figure = published(metric, name, column)
        assert figure is not None
        assert 0 < figure < 1
        if column.stand_in:
            assert figure == published(metric, name, BY_HEADING[f"Melanoma β={column.beta:g}"])


@pytest.mark.parametrize(
    ("metric", "name", "heading", "figure"),
    [  # the corners of the tables, and one from the middle of each
        ("auc", "focal", "CIFAR-10 auto/deer", 0.985),
        ("auc", "vs+sam+lct", "APTOS β=200", 0.622),
        ("auc", "vs+lct", "Melanoma β=200", 0.911),
        ("average_precision", "vs+lct", "Melanoma β=100", 0.638),
        ("brier", "vs", "CIFAR-10 auto/truck", 0.137),
        ("max_f1", "vs+sam", "CIFAR-10 animal/vehicle", 0.938),
        ("max_balanced_accuracy", "focal+lct", "CIFAR-100 household", 0.671),
        ("precision_at_recall@0.99", "focal+lct", "APTOS β=100", 0.767),
        ("precision_at_recall", "vs", "Melanoma β=10", 0.148),
        ("auc", "vs+lct:no-film", "CIFAR-10 auto/truck", 0.886),
        ("auc", "vs+lct:no-film", "CIFAR-10 auto/deer", None),
        ("log_loss", "vs", "CIFAR-10 auto/deer", None),
        ("auc", "vs+lct:tau", "CIFAR-10 auto/deer", None),
    ],
)
def test_figures_are_the_paper_s(metric: str, name: str, heading: str, figure: float | None) -> None:
    assert published(metric, name, BY_HEADING[heading]) == figure
    assert published(metric, name, Column("melanoma", 50.0, "", "melanoma")) is None
