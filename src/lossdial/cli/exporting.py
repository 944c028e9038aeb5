"""``lossdial export``: a model for other runtimes."""

from __future__ import annotations

from pathlib import Path

__all__ = ["export"]


def export(
    run: str,
    /,
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
    run
        The folder that `lossdial train` wrote.
    onnx
        The ONNX file to write.
    card
        The model card to write: Markdown, with the front matter that Hugging Face reads.
    point
        The operating point that answers where none is named.
    data
        Rows to compare with besides those that are made up: a table, or images.
    path_column
        In a table of image files: the column with their paths. By default path.
    """
    from rich.console import Console

    from lossdial import Bundle
    from lossdial.base.errors import closest
    from lossdial.base.files import require_writable, write
    from lossdial.cli.inputs import Columns, read_inputs
    from lossdial.cli.values import UsageError

    if onnx is None and card is None:
        raise UsageError("give --onnx FILE for the model, --card FILE for its card, or both.")
    if card is not None and Path(card).suffix.lower() != ".md":
        raise ValueError(f"card must end in .md; got {card!r}.")
    if card is not None:
        require_writable(Path(card))
    bundle = Bundle.load(run)
    if point not in bundle.points:
        raise ValueError(f"{run} has no operating point {point!r}; {closest(point, bundle.points)}")
    console = Console(soft_wrap=True, highlight=False)
    if onnx is not None:
        from lossdial.export import to_onnx

        rows = None if data is None else read_inputs(bundle, data, Columns(path=path_column), labelled=False).X
        made = to_onnx(bundle, onnx, point=point, rows=rows)
        found = made.check
        lines = [
            f"{made.path} ({made.size / 1e6:.2f} MB); the same as Python on {found.rows:,} rows, in batches of "
            f"{', '.join(f'{size:,}' for size in found.batches)}: scores to {found.score:.1g}, probabilities to "
            f"{found.probability:.1g}, labels {'but for ' + str(found.near) if found.near else 'all'}",
            f"inputs: {', '.join(made.inputs)}",
            *(f"{name} is given as {holds}" for name, holds in made.prepared),
        ]
        console.print("\n".join(lines), markup=False)
    if card is not None:
        from lossdial.export import model_card

        write(Path(card), model_card(bundle, Path(run).name, None if onnx is None else Path(onnx).name))
        console.print(f"{card}: fill in what the model does not know, its license first", markup=False)
