import io
from dataclasses import replace

import pandas as pd
import pytest
from rich.console import Console

from lossdial_studies.protocols import Best
from lossdial_studies.rendering import Marks, ResultCell, ResultRow, ResultTable, to_terminal, written


def _best(value: float, spread: float = 0.0044, seeds: int = 3, trainings: int = 48) -> Best:
    return Best(value, spread, seeds, trainings)


@pytest.fixture
def table() -> ResultTable:
    """Two columns: all marks, no figure of ours, none of the paper's, one seed, trainings that differ."""
    auc = ResultCell("auc", "vs", "aptos", 100.0, None)
    rows = (
        ResultRow(
            "VS", (replace(auc, ours=_best(0.9301), paper=0.98, paper_marks=Marks(best=True)), replace(auc, beta=200))
        ),
        ResultRow(
            "VS + LCT, γ alone",
            (
                replace(
                    auc, method="vs+lct:gamma", ours=_best(0.93449), marks=Marks(best=True, better=True), paper=0.9
                ),
                replace(auc, method="vs+lct:gamma", beta=200, ours=_best(0.9, float("nan"), 1, 16)),
            ),
            ends_section=True,
        ),
        ResultRow("VS_2", (replace(auc, method="vs_2", paper=0.97), replace(auc, method="vs_2", beta=200))),
    )
    return ResultTable("AUC | 100% & more", "paper", ("APTOS β=100", "HAM †"), rows, ("50 % of_it", "recall ≥ 0.99"))


def test_markdown(table: ResultTable) -> None:
    assert written(table, "markdown") == (
        "**AUC \\| 100% & more**\n"
        "\n"
        "|  | APTOS β=100 | HAM † | trainings (seeds) |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| VS | 0.930 ±.004 (**0.980**) | – | 48 (3) |\n"
        "| VS + LCT, γ alone | **<u>0.934</u>** ±.004 (0.900) | 0.900 | 16–48 (1–3) |\n"
        "| VS\\_2 | – (0.970) | – | – |\n"
        "\n"
        "- 50 % of\\_it\n"
        "- recall ≥ 0.99\n"
    )


def test_latex(table: ResultTable) -> None:
    text = written(table, "latex")
    assert text.isascii()  # every letter has a command, so any engine takes it
    assert r"\caption{AUC | 100\% \& more}" in text
    assert r"Method & \shortstack{APTOS\\$\beta$=100} & \shortstack{HAM\\\dag{}} & " in text
    assert "\n" r"VS & \shortstack{0.930 $\pm$.004\\(\textbf{0.980})} & -- & 48 (3) \\" "\n" in text
    ours = r"\shortstack{\textbf{\underline{0.934}} $\pm$.004\\(0.900)} & 0.900 & 16--48 (1--3) \\"
    assert "\n" rf"VS + LCT, $\gamma$ alone & {ours}" "\n" r"\hline" "\n" in text
    assert "\n" r"VS\_2 & \shortstack{--\\(0.970)} & -- & -- \\" "\n" r"\hline" "\n" r"\end{tabular}" in text
    assert r"50 \% of\_it" in text
    assert r"recall $\geq$ 0.99" in text
    assert text.count("{") == text.count("}")
    columns = text.split(r"\begin{tabular}{")[1].split("}")[0]
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert [line.count(" & ") + 1 for line in lines] == [len(columns)] * 4


def test_latex_escapes_what_latex_would_read() -> None:
    text = written(ResultTable("a\\b{c}~^#$", "paper", (), (), ()), "latex")
    assert r"\caption{a\textbackslash{}b\{c\}\textasciitilde{}\textasciicircum{}\#\$}" in text


def test_csv(table: ResultTable) -> None:
    lines = written(table, "csv").splitlines()
    assert lines[0] == "metric,protocol,method,data,beta,value,spread,seeds,trainings,paper,best,better"
    assert lines[1:4] == [
        "auc,paper,vs,aptos,100.0,0.9301,0.0044,3,48,0.98,False,False",
        "auc,paper,vs,aptos,200.0,,,,,,False,False",
        "auc,paper,vs+lct:gamma,aptos,100.0,0.93449,0.0044,3,48,0.9,True,True",
    ]
    read = pd.read_csv(io.StringIO(written(table, "csv")))
    assert len(read) == 6
    assert read["trainings"].dropna().tolist() == [48, 48, 16]


def test_terminal(table: ResultTable) -> None:
    console = Console(width=100, record=True, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    drawn = to_terminal(table)
    assert [row.end_section for row in drawn.rows] == [False, True, False]
    console.print(drawn)
    styled = console.export_text(styles=True, clear=False)
    assert "\x1b[1;4m0.934\x1b[0m ±.004 (0.900)" in styled
    assert "(\x1b[1m0.980\x1b[0m)" in styled
    text = console.export_text()
    for words in ("AUC | 100% & more", "HAM †", "16–48 (1–3)", "50 % of_it", "recall ≥ 0.99", "– (0.970)"):
        assert words in text


def test_a_narrow_terminal_cuts_no_figure(table: ResultTable) -> None:
    console = Console(width=30, file=io.StringIO(), soft_wrap=True)
    console.print(to_terminal(table))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in printed
    assert all(words in printed for words in ("VS + LCT, γ alone", "0.934", "±.004", "(0.900)", "trainings", "APTOS"))


def test_text_in_square_brackets_is_not_read_as_a_style(table: ResultTable) -> None:
    console = Console(width=100, file=io.StringIO())
    console.print(to_terminal(replace(table, title="[red]", notes=("[bold]",), headings=("[x]", "[/]"))))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(words in printed for words in ("[red]", "[bold]", "[x]", "[/]"))
