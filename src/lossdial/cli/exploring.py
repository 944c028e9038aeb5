"""``lossdial explore``: a page on which people turn the dial themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lossdial.cli.inputs import Columns
from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lossdial import Bundle, Dial
    from lossdial.dial import OperatingPoint
    from lossdial.explorer import Page, Unlabelled

__all__ = ["explore", "page_of"]


def explore(
    run: str,
    /,
    data: str | None = None,
    target: str | None = None,
    group: str | None = None,
    path_column: str | None = None,
    out: str = "explorer.html",
    noun: str = "people",
    thumbnails: bool = False,
) -> None:
    """Write a page on which people move λ, threshold, prevalence and costs.

    It is one file that works from a disk, offline; it holds what decisions need, no row and, without --thumbnails, no
    image.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    data
        Labelled data: a table, a folder with one folder of images per class, a table of image paths, or a data set by
        name. By default the samples held out in training. Without labels the page shows alarms alone.
    target
        The column with the labels. By default that of training.
    group
        A column that says which rows belong together, such as a patient's.
    path_column
        In a table of image files: the column with their paths. By default path.
    out
        The file to write.
    noun
        What a row is, in the page's sentences.
    thumbnails
        With images: put small pictures of the worst false alarms and misses into the file.
    """
    from rich.console import Console

    from lossdial import Bundle
    from lossdial.base.files import require_writable

    if Path(out).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"out must end in .html; got {out!r}.")
    require_writable(Path(out))
    page_of(Bundle.load(run), run, data, Columns(target, group, path_column), noun, thumbnails).write(out)
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"look at: {out} ({Path(out).stat().st_size / 1e6:.1f} MB)", markup=False)


def page_of(bundle: Bundle, run: str, data: str | None, columns: Columns, noun: str, thumbnails: bool = False) -> Page:
    """The page of a model, as it is written and as it is served."""
    from lossdial.explorer import explore as page_of_dial

    shown, points, images = _shown(bundle, data, columns, thumbnails)
    negative, positive = (_spelled(str(name), bundle.training.target) for name in bundle.predictor.classes)
    title = f"{Path(run).resolve().name} on {data or 'samples held out in training'}"
    return page_of_dial(
        shown,
        points=points,
        title=title,
        classes=(negative, positive),
        noun=noun,
        images=images,
    )


def _shown(
    bundle: Bundle, data: str | None, columns: Columns, thumbnails: bool
) -> tuple[Dial | Unlabelled, list[OperatingPoint], NDArray[np.uint8] | None]:
    """What the page is of: labelled scores, or scores alone; the points; and a picture for each sample, if wanted."""
    import numpy as np

    from lossdial.base.errors import warn
    from lossdial.cli.dialing import dial_with_points, grid_with_points
    from lossdial.cli.inputs import read_inputs
    from lossdial.data.schema import ImageRows
    from lossdial.explorer import Unlabelled

    if data is None:
        if thumbnails:
            raise UsageError("--thumbnails needs --data: of the samples held out in training no image is kept.")
        return *dial_with_points(bundle, None, columns.target, columns.group, columns.path), None
    inputs = read_inputs(bundle, data, columns, labelled=None)
    if thumbnails and not isinstance(inputs.X, ImageRows):
        raise UsageError("--thumbnails is for images, and this model was trained on a table.")
    lams, points = grid_with_points(bundle), list(bundle.points.values())
    if inputs.y is None:
        if thumbnails:
            raise UsageError(f"--thumbnails shows false alarms and misses, which need labels; {data} has none.")
        warn(f"{data} has no labels: the page shows what each threshold alarms, not whether rightly.")
        bands = [point.name for point in points if point.lower is not None]
        if bands:
            warn(f"left out, since a referral band is shown by class: {', '.join(bands)}.")
        points = [point for point in points if point.lower is None]
        scores = bundle.predictor.scores(bundle.predictor.features(inputs.X), lams)
        return Unlabelled(scores.columns(0, len(scores.lams)), scores.lams), points, None
    dial = bundle.dial(inputs.X, inputs.labels, groups=inputs.groups, lams=lams)
    pictures = np.moveaxis(inputs.X.images, 1, -1) if thumbnails else None  # (n, 3, s, s) to (n, s, s, 3)
    return dial, points, pictures


def _spelled(label: str, target: str | None) -> str:
    """A label that is a number says nothing without the name of its column."""
    return label if target is None or any(letter.isalpha() for letter in label) else f"{target} = {label}"
