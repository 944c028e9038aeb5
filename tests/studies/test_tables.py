from collections.abc import Callable

import pandas as pd
import pytest

from lossdial.dial.metrics.registry import PAPER_METRICS
from lossdial_studies.methods import METHODS
from lossdial_studies.protocols import PROTOCOLS, best
from lossdial_studies.published import COLUMNS, published
from lossdial_studies.rendering import Marks, ResultTable
from lossdial_studies.tables import ablation_table, film_table, make_table, result_table

MakeResults = Callable[..., pd.DataFrame]
FILM = [m + suffix for m in ("vs", "vs+sam", "focal") for suffix in ("", "+lct", "+lct:no-film")]


def _set(frame: pd.DataFrame, figures: dict[str, float], metric: str = "auc") -> pd.DataFrame:
    """The same figure wherever a method is measured."""
    return frame.assign(**{metric: frame["method"].map(figures)})


def _marks(table: ResultTable, column: int = 0) -> dict[str, str]:
    """Per method: B for bold, U for underlined."""
    cells = [row.cells[column] for row in table.rows]
    return {cell.method: "B" * cell.marks.best + "U" * cell.marks.better for cell in cells}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("metric", PAPER_METRICS)
def test_cells_are_the_best_of_their_rows_beside_the_paper_s(results: pd.DataFrame, metric: str, protocol: str) -> None:
    table = result_table(results, metric, protocol)  # type: ignore[arg-type]
    assert table.headings == ("CIFAR-10 auto/truck", "APTOS β=100", "APTOS β=200")  # the paper's order
    assert [row.label for row in table.rows] == [
        "Focal",
        "Focal + LCT",
        "VS",
        "VS + LCT",
        "VS + SAM",
        "VS + SAM + LCT",
    ]
    columns = {(c.data, c.beta): c for c in COLUMNS}
    for row, name in zip(table.rows, METHODS, strict=True):
        for cell in row.cells:
            there = (results["data"] == cell.data) & (results["beta"] == cell.beta) & (results["method"] == name)
            assert cell.ours == best(results[there], metric, protocol)  # type: ignore[arg-type]
            assert cell.paper == published(metric, name, columns[cell.data, cell.beta])
    assert f"{protocol}: {PROTOCOLS[protocol]}." in table.notes
    assert "Preset frozen, 30 epochs." in table.notes


def test_best_is_bold_and_the_better_of_a_pair_underlined(make_results: MakeResults) -> None:
    figures = dict(zip(METHODS, (0.91, 0.92, 0.94, 0.93, 0.80, 0.81), strict=True))
    frame = _set(make_results(), figures)
    marks = {"focal": "", "focal+lct": "U", "vs": "BU", "vs+lct": "", "vs+sam": "", "vs+sam+lct": "U"}
    assert _marks(result_table(frame, "auc", "paper")) == marks
    frame = _set(frame, figures, "brier")  # less is better
    marks = {"focal": "U", "focal+lct": "", "vs": "", "vs+lct": "U", "vs+sam": "BU", "vs+sam+lct": ""}
    table = result_table(frame, "brier", "paper")
    assert _marks(table) == marks
    assert "Less is better: Brier score." in table.notes


def test_ties_are_those_of_the_printed_decimals(make_results: MakeResults) -> None:
    figures = dict(zip(METHODS, (0.9301, 0.9304, 0.9296, 0.9294, 0.5, 0.5), strict=True))
    marks = {"focal": "BU", "focal+lct": "BU", "vs": "BU", "vs+lct": "", "vs+sam": "U", "vs+sam+lct": "U"}
    assert _marks(result_table(_set(make_results(), figures), "auc", "paper")) == marks


def test_the_paper_s_figures_get_the_marks_that_the_paper_prints(make_results: MakeResults) -> None:
    nine = [(c.data, c.beta) for c in COLUMNS if not c.stand_in]
    table = result_table(make_results(["vs"], data=nine, seeds=[0]), "auc", "paper")
    printed = {
        "focal": "U U U . U . . . .",
        "focal+lct": "U . . BU U U U BU BU",
        "vs": ". . . U BU . . . .",
        "vs+lct": "U U U . BU BU BU U BU",
        "vs+sam": ". . BU U U U U . .",
        "vs+sam+lct": "BU BU . . . . . U U",
    }
    for row, name in zip(table.rows, METHODS, strict=True):
        marks = [Marks("B" in mark, "U" in mark) for mark in printed[name].split()]
        assert [cell.paper_marks for cell in row.cells] == marks


def test_ham10000_is_footnoted_as_a_stand_in(make_results: MakeResults, results: pd.DataFrame) -> None:
    table = result_table(make_results(["vs"], data=[("ham10000-melanoma", 200.0)]), "auc", "paper")
    assert table.headings == ("HAM10000 β=200 †",)
    assert [row.cells[0].paper for row in table.rows] == [0.891, 0.902, 0.884, 0.911, 0.892, 0.831]
    assert any(note.startswith("† HAM10000") for note in table.notes)
    assert not any("HAM10000" in note for note in result_table(results, "auc", "paper").notes)


def test_one_preset_and_one_number_of_epochs_per_data_set(make_results: MakeResults) -> None:
    truck, aptos = [("cifar10-auto-truck", 100.0)], [("aptos", 100.0), ("aptos", 200.0)]
    apart = pd.concat([make_results(data=truck), make_results(data=aptos, preset="cpu", epochs=20)])
    notes = result_table(apart, "auc", "paper").notes
    assert "Presets: cifar10-auto-truck frozen, 30 epochs; aptos cpu, 20 epochs." in notes
    for other in ({"preset": "cpu"}, {"epochs": 3}):
        mixed = pd.concat([make_results(["vs"]), make_results(["vs+lct"], **other)])
        for name in ("auc", "film", "ablation"):
            with pytest.raises(ValueError, match=r"cifar10-auto-truck: frozen, 30 .* and .*--preset and --epochs"):
                make_table(name, mixed, "paper")
    # Rows that are not in the table do not matter.
    ablated = pd.concat([make_results(["vs"]), make_results(["vs+lct:tau"], epochs=3)])
    assert result_table(ablated, "auc", "paper").headings == ("CIFAR-10 auto/truck",)


def test_film(make_results: MakeResults) -> None:
    figures = dict(zip(FILM, (0.91, 0.92, 0.90, 0.91, 0.92, 0.93, 0.94, 0.92, 0.94), strict=True))
    table = film_table(_set(make_results(FILM), figures), "paper")
    assert table.headings == ("VS", "VS + SAM", "Focal")
    assert [row.label for row in table.rows] == ["baseline", "+ LCT", "+ LCT without FiLM"]
    assert [[c.method for c in row.cells] for row in table.rows] == [FILM[k::3] for k in range(3)]
    assert [[c.paper for c in row.cells] for row in table.rows] == [
        [0.918, 0.923, 0.929],
        [0.930, 0.934, 0.927],
        [0.886, 0.908, 0.926],
    ]
    bold = [[c.marks.best for c in row.cells] for row in table.rows]
    assert bold == [[False, False, True], [True, False, False], [False, True, True]]
    paper_bold = [[c.paper_marks.best for c in row.cells] for row in table.rows]
    assert paper_bold == [[False, False, True], [True, True, False], [False, False, False]]
    assert not any(c.marks.better or c.paper_marks.better for row in table.rows for c in row.cells)
    assert not any("underlined" in note for note in table.notes)


def test_film_and_ablation_find_their_data_set(make_results: MakeResults) -> None:
    truck, wilt, aptos = ("cifar10-auto-truck", 100.0), ("wilt", 17.0), ("aptos", 100.0)
    ablated = ["vs", "vs+lct", "vs+lct:no-film"]
    elsewhere = pd.concat([make_results(["vs"], data=[truck]), make_results(ablated, data=[wilt])])
    for table in (film_table(elsewhere, "paper"), ablation_table(elsewhere, "paper")):
        assert table.title.endswith("wilt β=17")
        assert {c.paper for row in table.rows for c in row.cells} == {None}
        assert not any("paper's figure" in note for note in table.notes)
    assert film_table(make_results(ablated, data=[wilt, truck]), "paper").title.endswith("auto-truck β=100")
    with pytest.raises(ValueError, match=r"frame has wilt β=17, aptos β=100\. Keep one with --data and --beta"):
        ablation_table(make_results(ablated, data=[wilt, aptos]), "paper")
    with pytest.raises(ValueError, match=r"no result of vs, vs\+lct, vs\+lct:no-film, "):
        ablation_table(make_results(["focal"]), "paper")


def test_ablation(make_results: MakeResults) -> None:
    frame = make_results(["vs+lct:per-sample", "focal", "vs+lct", "vs+lct:gamma", "vs"])
    table = ablation_table(frame, "held-out")
    assert [row.label for row in table.rows] == ["VS", "VS + LCT", "VS + LCT, γ alone", "VS + LCT, λ per sample"]
    for row in table.rows:
        assert tuple(cell.metric for cell in row.cells) == PAPER_METRICS
        for cell in row.cells:
            assert cell.ours == best(frame[frame["method"] == cell.method], cell.metric, "held-out")
    for k, metric in enumerate(PAPER_METRICS):
        figures = [row.cells[k].ours.value for row in table.rows if row.cells[k].ours]
        top = figures.index((min if metric == "brier" else max)(figures))
        assert [row.cells[k].marks.best for row in table.rows].index(True) == top


def test_what_the_paper_does_not_have_stands_below_where_there_are_results(make_results: MakeResults) -> None:
    frame = make_results(["vs", "vs+lct"])
    assert len(result_table(frame, "auc", "paper").rows) == 6
    more = pd.concat([frame, make_results(["vs+lct:polynomial"]), make_results(["vs:exact", "ridge"], settings=(0,))])
    table = result_table(more, "auc", "held-out")
    assert [row.label for row in table.rows[6:]] == ["VS + LCT, polynomial head", "VS, exact path", "Ridge search"]
    assert [row.cells[0].ours.trainings for row in table.rows[6:] if row.cells[0].ours] == [9, 3, 3]
    assert table.rows[6].cells[0].paper is None
