import itertools
from typing import get_args

import pytest

from lossdial.dial.metrics.registry import PAPER_METRICS
from lossdial_studies import METHODS, method
from lossdial_studies.data_sets import DATA_SETS
from lossdial_studies.published import COLUMNS, HEAT_MAPS, Column, FilmRow, published, published_film

_BY_HEADING = {c.heading: c for c in COLUMNS}


def test_every_method_has_every_metric_in_every_column() -> None:
    for metric, name, column in itertools.product(PAPER_METRICS, METHODS, COLUMNS):
        figure = published(metric, name, column)
        assert figure is not None
        assert 0 < figure < 1


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
    ],
)
def test_figures_are_the_paper_s(metric: str, name: str, heading: str, figure: float) -> None:
    assert published(metric, name, _BY_HEADING[heading]) == figure


def test_what_the_paper_does_not_report() -> None:
    first = COLUMNS[0]
    assert published("log_loss", "vs", first) is None
    assert published("auc", "vs+lct:tau", first) is None
    assert published("auc", "vs", Column("melanoma", 50.0, "", "melanoma")) is None


def test_columns_are_data_sets_that_can_be_had_and_stand_ins_compare_with_melanoma() -> None:
    assert {c.data for c in COLUMNS} <= {d.name for d in DATA_SETS}
    assert len({(c.data, c.beta) for c in COLUMNS}) == len(COLUMNS) == 12
    assert [c.heading for c in COLUMNS if c.stand_in] == ["HAM10000 β=10", "HAM10000 β=100", "HAM10000 β=200"]
    for metric, name, beta in itertools.product(PAPER_METRICS, METHODS, (10, 100, 200)):
        ours = published(metric, name, _BY_HEADING[f"HAM10000 β={beta}"])
        assert ours == published(metric, name, _BY_HEADING[f"Melanoma β={beta}"])


def test_the_film_ablation_agrees_with_the_auc_table() -> None:
    column = _BY_HEADING["CIFAR-10 auto/truck"]
    for name in ("vs", "vs+sam", "focal"):
        assert published_film("baseline", name) == published("auc", name, column)
        assert published_film("lct", name) == published("auc", f"{name}+lct", column)
    assert [published_film("lct:no-film", name) for name in ("vs", "vs+sam", "focal")] == [0.886, 0.908, 0.926]
    assert all(published_film(row, "focal+lct") is None for row in get_args(FilmRow))


def test_the_heat_maps_agree_with_the_auc_table_where_both_report() -> None:
    for name, heat_map in HEAT_MAPS.items():
        varies = {k for k in ("gamma", "tau") if isinstance(getattr(heat_map, k), tuple)}
        assert varies == set(method(name).free)
        if name in METHODS:
            assert heat_map.auc == published("auc", name, _BY_HEADING["Melanoma β=200"])
