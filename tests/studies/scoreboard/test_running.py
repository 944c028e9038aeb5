from __future__ import annotations

import json
import os
from dataclasses import asdict, replace

import pytest

from lossdial.cli import main
from lossdial_studies.scoreboard import Board, Row, estimate, play, tasks
from lossdial_studies.scoreboard import running as module
from lossdial_studies.scoreboard.field import field
from lossdial_studies.scoreboard.objectives import OBJECTIVES
from lossdial_studies.scoreboard.report import claims
from lossdial_studies.scoreboard.rivals import RIVALS
from lossdial_studies.scoreboard.sets import BOARD

needs_data = pytest.mark.skipif("LOSSDIAL_DATA" not in os.environ, reason="needs the tables in $LOSSDIAL_DATA")


@needs_data
def test_what_is_done_is_skipped_and_what_failed_is_tried_again(tmp_path, monkeypatch):
    board = Board(tmp_path)
    asked = (["keel_car_good"], ["ridge", "tuned_threshold"], 1)
    monkeypatch.setattr(module, "_require", lambda *_: None)
    broken = RIVALS["tuned_threshold"]
    monkeypatch.setitem(RIVALS, "tuned_threshold", replace(broken, run=lambda *_: 1 / 0))
    play(tasks(board, *asked), board, tmp_path)
    assert {row.rival: row.status for row in board.rows()} == {"ridge": "done", "tuned_threshold": "failed"}
    assert "ZeroDivisionError" in next(row.note for row in board.rows() if row.status == "failed")
    monkeypatch.setitem(RIVALS, "tuned_threshold", broken)
    (left,) = tasks(board, *asked)
    assert left.rivals == ("tuned_threshold",)
    play([left], board, tmp_path)
    assert tasks(board, *asked) == ()
    assert len(board.rows()) == 2
    assert estimate(board, tasks(board, ["keel_car_good"], ["ridge"], 3)) > 0


@needs_data
def test_the_command_runs_reports_and_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["scoreboard", "--sets", "keel_car_good,keel_yeast4", "--rivals", "ridge,cross_entropy", "--splits", "1"]
    main([*command, "--store", "store", "--out", "results/board", "--page", "docs/board.md"])
    said = capsys.readouterr().out
    assert "0 rows are there, 4 to be made" in said
    page = (tmp_path / "docs/board.md").read_text()
    assert "ridge, 4 C × 2" in page
    assert "(../results/board/ranks-tables-all.png)" in page
    assert (tmp_path / "results/board/ranks-tables-all.png").stat().st_size > 5_000
    main([*command, "--store", "store"])
    assert "4 rows are there, 0 to be made" in capsys.readouterr().out
    # the packed rows are a store too, and give the same page
    main(["scoreboard", "--store", "results/board", "--report-only", "--out", "results/board", "--page", "docs/two.md"])
    assert (tmp_path / "docs/two.md").read_text() == page


@pytest.mark.parametrize("splits", ["0", "9"])
def test_there_are_five_splits(splits, tmp_path, capsys):
    assert main(["scoreboard", "--store", str(tmp_path), "--splits", splits]) == 2
    assert f"--splits must be a whole number from 1 to 5; got {splits}." in capsys.readouterr().err


def test_a_store_without_rows_cannot_be_reported(tmp_path, capsys):
    store = tmp_path / "nowhere"
    assert main(["scoreboard", "--store", str(store), "--report-only"]) == 2
    line = capsys.readouterr().err
    assert "--store has no rows to report" in line
    assert "Leave --report-only out" in line
    assert not store.exists()


def test_a_package_that_is_missing_leaves_a_rival_out_and_says_which(tiny_table, monkeypatch):
    def gone(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'nobody'", name="nobody")

    monkeypatch.setitem(RIVALS, "tabm", replace(RIVALS["tabm"], run=gone))
    row = module._row(tiny_table, "tabm")
    assert (row.status, row.note) == ("left out", "needs a package that is not installed: nobody")


def test_a_line_that_was_cut_off_counts_as_missing(tmp_path):
    board = Board(tmp_path)
    board.add(_row("wilt", 0, "ridge", 0.5))
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write(json.dumps({"set": "wilt", "split": 1})[:-3])
    assert len(board.rows()) == 1
    board.add(_row("wilt", 1, "ridge", 0.5))  # not behind what was cut off
    assert {row.split for row in board.rows()} == {0, 1}


def test_after_a_full_disk_no_row_is_lost_but_the_one_that_failed(tmp_path, full_disk):
    board = Board(tmp_path)
    board.add(_row("wilt", 0, "ridge", 0.5))
    with full_disk((tmp_path / "rows.jsonl").stat().st_size + 40), pytest.raises(OSError, match="too large"):
        board.add(_row("wilt", 1, "ridge", 0.5))
    board.add(_row("wilt", 2, "ridge", 0.5))
    assert {row.split for row in board.rows()} == {0, 2}


def test_a_row_with_another_digit_counts_as_missing_and_one_without_a_checksum_is_read(tmp_path):
    board, path = Board(tmp_path), tmp_path / "rows.jsonl"
    board.add(_row("wilt", 0, "ridge", 0.5))
    path.write_text(path.read_text().replace("0.5", "0.6", 1))
    assert not board.rows()
    path.write_text(json.dumps(asdict(_row("wilt", 0, "ridge", 0.5))) + "\n")  # as 0.1 wrote them
    assert len(board.rows()) == 1


def _row(name: str, split: int, rival: str, value: float, seconds: float = 1.0) -> Row:
    figures = {objective.name: value if objective.greater_is_better else 1 - value for objective in OBJECTIVES}
    kind = next(entry.kind for entry in BOARD if entry.name == name)
    return Row(name, kind, split, rival, RIVALS[rival].version(kind), "done", seconds, 1, 1, figures, train=(10, 1))


def test_only_splits_that_all_rivals_have_are_compared():
    cells = [(name, s) for name in ("wilt", "stamps") for s in range(5)]
    rows = [_row(*cell, r, 0.5) for cell in cells for r in ("ridge", "vs", "lct") if (r, *cell) != ("vs", "wilt", 4)]
    rows += [_row(*cell, "tabm", 0.9) for cell in cells[:8]]
    found = field(rows, "table")
    assert found.rivals == ("ridge", "vs", "lct")  # TabM has not played enough
    assert sorted(found.frame.loc[found.frame["set"] == "wilt", "split"].unique()) == [0, 1, 2, 3]
    assert any(note.startswith("1 splits that not every rival has finished do not count") for note in found.missing)
    assert any("8 splits done" in note for note in found.missing)
    assert len(found.differences("lct", "ridge", OBJECTIVES[0])["wilt"]) == 5
    assert len(found.differences("lct", "vs", OBJECTIVES[0])["wilt"]) == 4


def test_claims_say_by_how_much_they_are_missed():
    sets = ("aptos:100", "aptos:200")
    values = {"exact": (0.80, 0.90), "ridge": (0.81, 0.90), "vs": (0.7, 0.7)}
    rows = [
        _row(name, split, rival, values[rival][i], 1.0 if rival == "exact" else 4.0)
        for i, name in enumerate(sets)
        for split in range(2)
        for rival in values
    ]
    ridge_auc, ridge_ap, above_vs, time = claims(field(rows, "images"))
    assert [claim.reached for claim in (ridge_auc, ridge_ap, above_vs, time)] == [False, False, True, True]
    assert "-0.0100, on aptos:100" in ridge_auc.number
    assert "1 of 2 sets miss it, the worst by 0.0070" in ridge_auc.number
    assert "0.25" in time.number


def test_claims_of_tables_name_who_is_first_and_count_by_intervals():
    rows = [
        _row(name, split, rival, value)
        for name in ("wilt", "cover", "celeba")
        for split in range(2)
        for rival, value in (("lct", 0.7), ("ridge", 0.8), ("vs", 0.6), ("lightgbm", 0.705))
    ]
    compared = field(rows, "table")
    among_all, among_learned, *boosting = claims(compared)
    assert "number 3 of 4 with mean rank 3.00; first is ridge" in among_all.number
    assert "number 2 of 3 with mean rank 2.00; first is ridge" in among_learned.number
    assert [claim.reached for claim in boosting] == [False] * 3
    assert all("-0.0050 [-0.0050, -0.0050]" in claim.number for claim in boosting)
    ap = next(objective for objective in OBJECTIVES if objective.name == "average_precision")
    assert [compared.against("lct", other, ap).score for other in ("vs", "ridge", "lct")] == ["3/0/0", "0/0/3", "0/3/0"]
