import base64
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from rich.console import Console

from lossdial.base.report import Items, Report, Section, Sheet, Text, write_report
from lossdial.dial.metrics.registry import REPORT


def rendered(sheet: Sheet, width: int = 80, soft_wrap: bool = True) -> list[str]:
    console = Console(file=io.StringIO(), width=width, soft_wrap=soft_wrap)
    console.print(sheet)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_points_as_columns_at_80(count: int) -> None:
    """Every figure is whole, in the row of its metric, under the name of its point."""
    names = [f"point {i}" for i in range(count)]
    cells = {(m, p): f"0.{i:03d} [0.100, 0.{j:03d}]" for i, m in enumerate(REPORT) for j, p in enumerate(names)}
    sheet = Sheet("a title", ("metric", *names), [(m, *(cells[m, p] for p in names)) for m in REPORT], "a note")
    lines = rendered(sheet)
    assert max(map(len, lines)) <= 80
    for metric in REPORT:
        row = " ".join(line for line in lines if line.startswith(f"{metric} "))
        assert all(cells[metric, p] in row for p in names)
    headings = " ".join(line for line in lines if line.startswith("metric"))
    assert all(p in headings for p in names)
    assert (lines[0], lines[-1]) == ("a title", "a note")


def test_a_table_is_parted_only_where_it_must_be() -> None:
    sheet = Sheet("", ("metric", *"abcd"), [("auc", *["0.123 [0.100, 0.150]"] * 4)])
    assert [len(rendered(sheet, width)) for width in (120, 80)] == [3, 7]
    metrics = ["auc", "average_precision", "brier", "max_f1", "max_balanced_accuracy", "precision_at_recall@0.99"]
    lines = rendered(Sheet("", ("#", "seed", *metrics), [("1", "0", *["0.1234"] * 6)]))  # its headings are folded
    assert len([line for line in lines if "0.1234" in line]) == 1
    assert max(map(len, lines)) <= 80


cells = st.text(
    st.characters(codec="ascii", exclude_characters="\n\r\t", categories=["L", "N"]), min_size=1, max_size=25
)


@given(st.data(), st.integers(1, 12), st.integers(1, 3))
@settings(max_examples=50)
def test_nothing_is_ever_cut(data: st.DataObject, columns: int, rows: int) -> None:
    table = [data.draw(st.lists(cells, min_size=columns, max_size=columns)) for _ in range(rows)]
    lines = rendered(Sheet("", [f"c{i}" for i in range(columns)], table))
    assert max(map(len, lines)) <= 80
    words = {word for line in lines for word in line.split()}
    assert {cell for row in table for cell in row} <= words


def test_words_are_folded_between_words() -> None:
    text = "a long reason of many words that needs more than a line of eighty columns to be told in full"
    lines = rendered(Sheet("", ("what", "why"), [("x", text)], words=("why",)))
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines[2:]).split()) == f"x {text}"


def test_a_report_in_both_formats() -> None:
    table = Sheet("counts", ("what", "how many"), [("a | b", "3"), ("a < b", "4")], "a note")
    report = Report("R", [Section("S", [Text("**so** `x`", "open"), Items(["one", "two"]), table], boxed=True)])
    assert report.markdown() == (
        "# R\n\n## S\n\n**so** `x`\n\n- one\n- two\n\n"
        "### counts\n\n| what | how many |\n| --- | --- |\n| a \\| b | 3 |\n| a < b | 4 |\n\na note\n"
    )
    for part in (
        '<section class="box"><h2>S</h2><p class="open"><b>so</b> <code>x</code></p>',
        "<ul><li>one</li><li>two</li></ul>",
        '<h3>counts</h3><div class="scroll"',
        '<td>a | b</td><td class="n">3</td>',
        "<td>a &lt; b</td>",
    ):
        assert part in report.html()


def test_a_page_holds_its_pictures(tmp_path: Path) -> None:
    page, picture = write_report(tmp_path, "a title", [Text("one & two")], {"roc": Figure()})
    assert "<h1>a title</h1>\n<p>one &amp; two</p>\n<h2>Pictures</h2>" in page.read_text()
    assert base64.b64encode(picture.read_bytes()).decode() in page.read_text()
