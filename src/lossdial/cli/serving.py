"""``lossdial serve``: a model, its operating points and the page, over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossdial.dial import OperatingPoint

__all__ = ["serve"]


def serve(
    run: str,
    /,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: str | None = None,
    allow_save: bool = False,
    points: list[str] | None = None,
    data: str | None = None,
    target: str | None = None,
    group: str | None = None,
    path_column: str | None = None,
    noun: str = "people",
    max_body: float = 10.0,
    max_rows: int = 10_000,
    max_queue: int = 50_000,
    timeout: float = 30.0,
) -> None:
    """Serve a model over HTTP: predictions, decisions, its points and the explorer page.

    It answers this machine only, unless there is a token, and writes nothing unless it may save. A model that changes
    in its folder is taken over. /docs describes what can be asked.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    host
        The address to answer at. Any but this machine's own needs --token-file.
    port
        The port; 0 takes a free one.
    token_file
        A file with the token that every request must bear, 16 characters or more.
    allow_save
        Whether points may be saved into RUN, and the state of watched certificates kept there.
    points
        Files of points of another model, whose scores /decide is asked about: what `lossdial tune --scores` or a page
        wrote. A point without a name of its own is called as its file is: trees of trees.json.
    data
        Labelled data for the page. By default the samples held out in training.
    target
        The column with the labels. By default that of training.
    group
        A column that says which rows belong together, such as a patient's.
    path_column
        In a table of image files: the column with their paths. By default path.
    noun
        What a row is, in the page's sentences.
    max_body
        The largest body of a request, in MB.
    max_rows
        The most rows of a request.
    max_queue
        The most rows that wait at once; beyond them, requests are refused.
    timeout
        Seconds for a body to arrive, and for its rows to be scored.
    """
    import fastapi  # noqa: F401 (what is not installed is told before anything is loaded)
    from rich.console import Console

    from lossdial.cli.exploring import page_of
    from lossdial.cli.inputs import Columns
    from lossdial.serve import Limits, Server
    from lossdial.serve import serve as run_server

    limits = Limits(body=int(max_body * 1e6), rows=max_rows, queue=max_queue, seconds=timeout)
    token = None if token_file is None else Path(token_file).read_text().strip()
    server = Server(
        Path(run),
        lambda bundle: page_of(bundle, run, data, Columns(target, group, path_column), noun),
        host,
        port,
        token,
        allow_save,
        limits,
        *_others(points or []),
    )
    console = Console(soft_wrap=True, highlight=False)
    run_server(server, lambda line: console.print(line, markup=False))


def _others(files: list[str]) -> tuple[dict[str, OperatingPoint], dict[str, str]]:
    """The points in files of `lossdial tune --scores`, or of a page, which certifies none; and what the scores of each
    are, where its file says so."""
    import json
    from dataclasses import replace

    from lossdial.dial import OperatingPoint
    from lossdial.explorer import read_points

    found: dict[str, OperatingPoint] = {}
    score_is: dict[str, str] = {}
    for file in files:
        try:
            content = json.loads(Path(file).read_bytes())
        except ValueError as error:
            raise ValueError(f"{file} holds no points: {error}.") from None
        several = isinstance(content, dict) and "points" in content
        for point in read_points(file) if several else (OperatingPoint.from_json(content),):
            if not several and point.name == "default":  # as `tune --scores` calls it, and every model has one
                point = replace(point, name=Path(file).stem)
            if point.name in found:
                raise ValueError(
                    f"there are two points called {point.name!r} in {', '.join(files)}; rename one (--name of tune)."
                )
            found[point.name] = point
            if not several and "score" in content:
                score_is[point.name] = _kind(content["score"], file)
    return found, score_is


def _kind(score: Any, file: str) -> str:
    kind = score.get("is") if isinstance(score, dict) else None
    if kind not in ("probability", "margin"):
        raise ValueError(f"{file}: 'is' of 'score' must be 'probability' or 'margin'; got {kind!r:.60}.")
    return str(kind)
