"""``lossdial predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossdial.base.files import replacing

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from lossdial import Bundle

__all__ = ["predict"]


def predict(run: str, /, data: str, out: str, point: str = "default") -> None:
    """Score new rows, or new images, with a trained model.

    The table --out is the input with two columns more: `probability` of the positive label, at the λ of the operating
    point, and `prediction`, by its threshold. For images it has a row for each file.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    data
        The table to score (CSV, Parquet or NPZ), or a folder of images.
    out
        The table to write (CSV or Parquet).
    point
        The operating point to use, by the name that `lossdial tune --name` gave it.
    """
    from rich.console import Console

    from lossdial import Bundle, LCTClassifier

    target = Path(out)
    if target.suffix not in (".csv", ".parquet"):
        raise ValueError(f"out must end in .csv or .parquet; got {out!r}.")
    bundle = Bundle.load(run)
    classifier = LCTClassifier.from_bundle(bundle)
    frame, matrix = _images(data, bundle) if "image_size" in bundle.training else _rows(data, bundle)
    columns = classifier.predict_proba(matrix, point=point)
    positive = classifier.classes_.tolist().index(bundle.classes[1])
    predictions = classifier.predict(matrix, point=point)
    scored = frame.assign(probability=columns[:, positive], prediction=predictions)
    _write(scored, target)
    flagged = int((predictions == bundle.classes[1]).sum())
    Console(soft_wrap=True).print(
        f"{len(frame):,} scored at point {point!r}, {flagged:,} flagged {bundle.classes[1]}; in {out}"
    )


def _rows(data: str, bundle: Bundle) -> tuple[pd.DataFrame, NDArray[Any]]:
    from lossdial.data.sources import read_rows

    frame = read_rows(data).frame
    return frame, bundle.encode(frame)


def _images(data: str, bundle: Bundle) -> tuple[pd.DataFrame, NDArray[Any]]:
    """The images of a folder or of a table of paths; files that cannot be read are left out and named."""
    from lossdial.data.sources import read_images

    found = read_images(data, bundle.training["image_size"], white=bundle.training["white"])
    return found.table.iloc[found.kept].reset_index(drop=True), found.x


def _write(frame: pd.DataFrame, target: Path) -> None:
    with replacing(target) as temporary:
        if target.suffix == ".csv":
            frame.to_csv(temporary, index=False)
        else:
            frame.to_parquet(temporary, index=False)
