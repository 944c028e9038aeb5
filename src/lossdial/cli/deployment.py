"""The commands that take a model elsewhere: explore (a page), export (ONNX and a model card) and serve (HTTP)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lossdial
from lossdial.base.errors import InputError, warn
from lossdial.base.report import show
from lossdial.cli.options import Columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lossdial import Dial
    from lossdial.dial import OperatingPoint
    from lossdial.explorer import Page, Unlabelled


def explore(
    run: str,
    /,
    *,
    data: str | None = None,
    out: str = "explorer.html",
    noun: str = "people",
    thumbnails: bool = False,
    columns: Columns,
) -> None:
    """Write a page on which people move λ, threshold, prevalence and costs.

    It is one file that works from a disk, offline. It holds what decisions need, no row and, without --thumbnails, no
    image.

    Parameters
    ----------
    data
        Labelled data: a table, a folder with one folder of images per class, a table of image paths, or a data set by
        name. By default the samples held out in training. Without labels the page shows alarms alone.
    out
        The file to write.
    thumbnails
        With images: put small pictures of the worst false alarms and misses into the file.
    """
    from lossdial.base.files import require_writable

    if Path(out).suffix.lower() not in (".html", ".htm"):
        raise InputError("out", "must end in .html", got=out)
    require_writable(Path(out))
    page_of(lossdial.Bundle.load(run), run, data, columns, noun, thumbnails).write(out)
    show(f"look at: {out} ({Path(out).stat().st_size / 1e6:.1f} MB)")


def export(
    run: str,
    /,
    *,
    onnx: str | None = None,
    card: str | None = None,
    point: str = "default",
    data: str | None = None,
    path_column: str | None = None,
) -> None:
    """Write a model as ONNX, checked row by row against Python, and its model card.

    The graph takes raw rows: each column under its own name, or images. Its inputs `point`, `lam.…`, `threshold` and
    `prevalence` have defaults, and every operating point is in it.

    Parameters
    ----------
    onnx
        The ONNX file to write.
    card
        The model card to write: Markdown, with the front matter that Hugging Face reads.
    point
        The operating point that answers where none is named.
    data
        Rows to compare with besides those that are made up: a table, or images.
    """
    from lossdial.base.files import require_writable, write
    from lossdial.cli.inputs import point_of, read_inputs

    if onnx is None and card is None:
        raise InputError("", "give {onnx=FILE} for the model, {card=FILE} for its card, or both")
    if card is not None:
        if Path(card).suffix.lower() != ".md":
            raise InputError("card", "must end in .md", got=card)
        require_writable(Path(card))
    if onnx is not None:
        require_writable(Path(onnx))
    bundle = lossdial.Bundle.load(run)
    point_of(bundle, run, point)
    if onnx is not None:
        from lossdial.export import to_onnx

        rows = None if data is None else read_inputs(bundle, data, Columns(path_column=path_column), labelled=False).X
        exported = to_onnx(bundle, onnx, point=point, rows=rows)
        check = exported.check
        lines = [
            f"{exported.path} ({exported.size / 1e6:.2f} MB); the same as Python on {check.rows:,} rows, in batches of "
            f"{', '.join(f'{size:,}' for size in check.batches)}: scores to {check.score:.1g}, probabilities to "
            f"{check.probability:.1g}, labels {'but for ' + str(check.near) if check.near else 'all'}",
            f"inputs: {', '.join(exported.inputs)}",
            *(f"{name} is given as {holds}" for name, holds in exported.prepared),
        ]
        show("\n".join(lines))
    if card is not None:
        from lossdial.export import model_card

        write(Path(card), model_card(bundle, Path(run).name, None if onnx is None else Path(onnx).name))
        show(f"{card}: fill in what the model does not know, its license first")


def serve(
    run: str,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: str | None = None,
    allow_save: bool = False,
    points: list[str] | None = None,
    data: str | None = None,
    noun: str = "people",
    max_body: float = 10.0,
    max_rows: int = 10_000,
    max_queue: int = 50_000,
    timeout: float = 30.0,
    columns: Columns,
) -> None:
    """Serve a model over HTTP: predictions, decisions, its points and the explorer page.

    It answers this machine only, unless there is a token, and writes nothing unless it may save. A model that changes
    in its folder is reloaded. /docs describes what can be asked.

    Parameters
    ----------
    host
        The address to answer at. Any but this machine's own needs --token-file.
    port
        The port; 0 takes a free one.
    token_file
        A file with the token that every request must bear, 16 characters or more.
    allow_save
        Whether points may be saved into RUN, and the state of monitored certificates kept there.
    points
        Files of points of another model, whose scores /decide is asked about: what `lossdial tune --scores` or a page
        wrote. A point without a name of its own takes that of its file: trees of trees.json.
    data
        Labelled data for the page. By default the samples held out in training.
    max_body
        The largest body of a request, in MB.
    max_rows
        The most rows of a request.
    max_queue
        The most rows that wait at once; beyond them, requests are refused.
    timeout
        Seconds for a body to arrive, and for its rows to be scored.
    """
    import fastapi  # noqa: F401 (a missing extra is reported before anything is loaded)

    from lossdial.serve import Limits, Server

    limits = Limits(body=int(max_body * 1e6), rows=max_rows, queue=max_queue, seconds=timeout)
    token = None if token_file is None else Path(token_file).read_text().strip()
    server = Server(
        Path(run),
        lambda bundle: page_of(bundle, run, data, columns, noun),
        host,
        port,
        token,
        allow_save,
        limits,
        *other_points(points or []),
    )
    server.run_until_stopped(show)


def page_of(
    bundle: lossdial.Bundle, run: str, data: str | None, columns: Columns, noun: str, thumbnails: bool = False
) -> Page:
    """The page of a model, as it is written and as it is served."""
    from lossdial.explorer import explore as page_of_dial

    dial, points, images = _shown(bundle, data, columns, thumbnails)
    title = f"{Path(run).resolve().name} on {bundle.source(data)}"
    negative, positive = (_label(str(name), bundle.training.target) for name in bundle.predictor.classes)
    return page_of_dial(dial, points=points, title=title, classes=(negative, positive), noun=noun, images=images)


def _shown(
    bundle: lossdial.Bundle, data: str | None, columns: Columns, thumbnails: bool
) -> tuple[Dial | Unlabelled, list[OperatingPoint], NDArray[np.uint8] | None]:
    """Labelled scores, or scores alone; the points; and a picture for each sample, if wanted."""
    import numpy as np

    from lossdial.cli.inputs import dial_at_points, grid_with_points, read_inputs
    from lossdial.data.schema import ImageRows
    from lossdial.explorer import Unlabelled

    if data is None:
        if thumbnails:
            raise InputError("thumbnails", "needs {data}: without it there are scores and no images")
        return *dial_at_points(bundle, None, columns)[:2], None
    inputs = read_inputs(bundle, data, columns, labelled=None)
    if thumbnails and not isinstance(inputs.X, ImageRows):
        raise InputError("thumbnails", "is for images, and this model was trained on a table")
    lams, points = grid_with_points(bundle), list(bundle.points.values())
    if inputs.y is not None:
        dial = bundle.dial(inputs.X, inputs.y, groups=inputs.groups, lams=lams)
        return dial, points, np.moveaxis(inputs.X.images, 1, -1) if thumbnails else None  # (n, s, s, 3)
    if thumbnails:
        raise InputError("thumbnails", f"shows false alarms and misses, which need labels; {data} has none")
    warn(f"{data} has no labels: the page shows what each threshold alarms, not whether rightly.")
    if referring := [point.name for point in points if point.lower is not None]:
        warn(f"left out, since a point with two thresholds is shown by class: {', '.join(referring)}.")
    scores = bundle.predictor.scores(bundle.predictor.features(inputs.X), lams)
    single = [point for point in points if point.lower is None]
    return Unlabelled(scores.columns(0, len(scores.lams)), scores.lams), single, None


def _label(label: str, target: str | None) -> str:
    """A label that is a number says nothing without the name of its column."""
    return label if target is None or any(letter.isalpha() for letter in label) else f"{target} = {label}"


def other_points(files: list[str]) -> tuple[dict[str, OperatingPoint], dict[str, str]]:
    """The points in files of `lossdial tune --scores`, or of a page, which certifies none; and what the scores of each
    are, where its file says so."""
    import json
    from dataclasses import replace

    from lossdial.dial import OperatingPoint
    from lossdial.explorer import read_points

    points: dict[str, OperatingPoint] = {}
    score_is: dict[str, str] = {}
    for file in files:
        try:
            content = json.loads(Path(file).read_bytes())
        except ValueError as error:
            raise InputError("points", f"must be files of points; {file} holds none ({error})") from None
        several = isinstance(content, dict) and "points" in content
        for point in read_points(file) if several else (OperatingPoint.from_json(content),):
            if not several and point.name == "default":  # as `tune --scores` calls it, and every model has one
                point = replace(point, name=Path(file).stem)
            if point.name in points:
                remedy = "Rename one by {name} of `lossdial tune`."
                raise InputError("points", f"hold two points called {point.name!r}", got=files, remedy=remedy)
            points[point.name] = point
            if not several and "score" in content:
                kind = content["score"].get("is") if isinstance(content["score"], dict) else None
                if kind not in ("probability", "margin"):
                    problem = f"{file}: 'is' of 'score' must be 'probability' or 'margin'"
                    raise InputError("points", problem, got=kind)
                score_is[point.name] = kind
    return points, score_is
