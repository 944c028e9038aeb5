"""``lossdial explore``: a page on which people turn the dial themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossdial import Bundle
    from lossdial.explorer import Page

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
) -> None:
    """Write a page on which people move λ, threshold, prevalence and costs.

    It is one file that works from a disk, offline; it holds what decisions need, no row and no image.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    data
        Labelled data: a table, a folder with one folder of images per class, a table of image paths, or a data set by
        name. By default the samples held out in training.
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
    """
    from rich.console import Console

    from lossdial import Bundle

    if Path(out).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"out must end in .html; got {out!r}.")
    page_of(Bundle.load(run), run, data, target, group, path_column, noun).write(out)
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"look at: {out} ({Path(out).stat().st_size / 1e6:.1f} MB)", markup=False)


def page_of(
    bundle: Bundle,
    run: str,
    data: str | None,
    target: str | None,
    group: str | None,
    path_column: str | None,
    noun: str,
) -> Page:
    """The page of a model, as it is written and as it is served."""
    from lossdial.cli.dialing import dial_with_points
    from lossdial.explorer import explore as page_of_dial

    dial, points = dial_with_points(bundle, data, target, group, path_column)
    negative, positive = (_spelled(str(name), bundle.training.target) for name in bundle.predictor.classes)
    title = f"{Path(run).name} on {data or 'samples held out in training'}"
    return page_of_dial(dial, points=points, title=title, classes=(negative, positive), noun=noun)


def _spelled(label: str, target: str | None) -> str:
    """A label that is a number says nothing without the name of its column."""
    return label if target is None or any(letter.isalpha() for letter in label) else f"{target} = {label}"
