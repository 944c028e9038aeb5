"""``lossdial scoreboard``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from lossdial.base.errors import InputError

if TYPE_CHECKING:
    from lossdial_studies.scoreboard import Row


def scoreboard(
    store: str = "runs/scoreboard",
    sets: list[str] | None = None,
    rivals: list[str] | None = None,
    splits: int = 5,
    jobs: int = 1,
    features: str | None = None,
    report_only: bool = False,
    out: str | None = None,
    page: str | None = None,
) -> None:
    """Play one training against every rival on tables and images, and say who wins.

    What the store has already is not run again: an interrupted run goes on with the same command.

    Parameters
    ----------
    store
        The folder of rows.
    sets
        Only these: --sets wilt,aptos:100. By default all tables, and four image sets at β = 10, 100 and 200.
    rivals
        Only these: --rivals ridge,lightgbm,lct. By default all.
    splits
        How many of the five splits, the first ones.
    jobs
        Splits at once, each on one thread.
    features
        Where the image sets' features are, or are to go, a folder for each. By default in the store.
    report_only
        Run nothing; report what is there.
    out
        A folder for the rows, the tables and the pictures.
    page
        A Markdown file for the report.
    """
    from rich.console import Console

    from lossdial.base.files import require_writable
    from lossdial_studies.scoreboard import Board, estimate, play, report, tasks

    console = Console(soft_wrap=True)
    board = Board(store)
    if report_only and not board.rows():
        raise InputError("store", "has no rows to report", got=store, remedy="Leave {report_only} out to make them.")
    for file in (None if out is None else Path(out) / "rows.jsonl.gz", None if page is None else Path(page)):
        if file is not None:
            require_writable(file)
    if not report_only:
        left = tasks(board, sets, rivals, splits)
        count, seconds = sum(len(task.rivals) for task in left), estimate(board, left)
        guess = "" if seconds is None or not left else f", about {seconds / 60 / jobs:.0f} min"
        console.print(f"{len(board.done()):,} rows are there, {count:,} to be made{guess}", highlight=False)
        started, done = time.monotonic(), 0

        def show(row: Row) -> None:
            nonlocal done
            done += 1
            left_over = (time.monotonic() - started) / done * (count - done) / 60
            what = f"{row.seconds:.1f} s" if row.status == "done" else f"{row.status}: {row.note}"
            console.print(
                f"{done:,}/{count:,} {row.set} split {row.split} {row.rival}: {what}   ({left_over:.0f} min left)",
                markup=False,
                highlight=False,
            )

        try:
            play(left, board, Path(features) if features else Path(store) / "features", jobs, show)
        except KeyboardInterrupt:
            text = f"stopped; the rows so far are kept in {store}. The same command goes on with the others."
            raise KeyboardInterrupt(text) from None
    report(board, console, None if out is None else Path(out), None if page is None else Path(page))
