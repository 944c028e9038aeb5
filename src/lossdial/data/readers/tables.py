"""Table files to data frames: CSV, JSON lines, Parquet and NPZ in, features and labels out."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lossdial.base.errors import InputError, closest, near, warn
from lossdial.data.encoder.table import require_readable

__all__ = ["TABLE_SUFFIXES", "read_csv", "read_table", "split_target", "target_labels"]


def read_table(path: str | Path) -> pd.DataFrame:
    """A table from a CSV, TSV or JSON lines file (plain or gzipped), from Parquet or NPZ.

    An NPZ file holds `X` of shape (n, d) and perhaps `y` of shape (n,); its columns are named x0 … x{d-1} and y.
    A CSV may be separated by commas, semicolons or tabs; the header decides. One that is not UTF-8 is read as
    Windows-1252, with a warning. JSON lines are one object a row.
    """
    path = Path(path)
    reader = _reader(path)
    _require_file(path)
    return _checked(lambda: reader(path), path)


def read_csv(data: bytes, source: str) -> pd.DataFrame:
    """A table from the content of a CSV file, read as the file would be; `source` is how errors call it."""
    if not data.strip():
        raise ValueError(f"{source} is empty; a header and at least one row are needed")
    return _checked(lambda: _read_csv(_Content(data, source)), source)


@dataclass(frozen=True)
class _Content:
    """A file that is in memory."""

    data: bytes
    source: str

    def __str__(self) -> str:
        return self.source


def _checked(read: Callable[[], pd.DataFrame], path: Path | str) -> pd.DataFrame:
    try:
        frame = read()
    except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile, pa.ArrowInvalid) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); copy it again") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}); save it as UTF-8") from error
    if frame.empty:
        raise ValueError(f"{path} has no rows; a table with a header and at least one row is needed")
    frame.columns = frame.columns.map(str)
    repeated = sorted(set(frame.columns[frame.columns.duplicated()]))
    if repeated:
        raise ValueError(f"{path} has columns of the same name: {repeated}; rename them")
    return frame


def split_target(frame: pd.DataFrame, target: str, drop: Iterable[str] = ()) -> tuple[pd.DataFrame, NDArray[Any]]:
    """The features (every column but `target` and those of `drop`) and the labels (n,) of a table.

    >>> X, y = split_target(pd.DataFrame({"id": [7, 8], "age": [30, 40], "ill": [0, 1]}), "ill", drop=["id"])
    >>> list(X.columns), y.tolist()
    (['age'], [0, 1])
    """
    dropped = [drop] if isinstance(drop, str) else list(drop)
    for role, name in [("target", target), *(("drop", name) for name in dropped)]:
        if name not in frame.columns:
            raise InputError(role, f"column {name!r} is not in the table; {closest(name, frame.columns)}")
    if target in dropped:
        raise InputError("drop", f"names the target column {target!r}", remedy="Take it off the list.")
    labels = target_labels(frame, target)
    features = frame.drop(columns=[target, *dropped])
    require_readable(features)
    if features.shape[1] == 0:
        raise InputError("", f"no feature column is left beside target {target!r} and drop {dropped}")
    return features, labels


def target_labels(frame: pd.DataFrame, target: str, of_source: str = "") -> NDArray[Any]:
    """The labels (n,) of a table, of which none may be missing."""
    missing = int(frame[target].isna().sum())
    if missing:
        problem = f"column {target!r}{of_source} lacks a label in {missing:,} of {len(frame):,} rows"
        raise InputError("target", problem, remedy="Remove or label those rows.")
    return frame[target].to_numpy()


def _reader(path: Path) -> Callable[[Path], pd.DataFrame]:
    for suffix, reader in _READERS.items():
        if path.name.lower().endswith(suffix):
            return reader
    raise ValueError(f"{path} has file type {path.suffix or 'none'!r}; a table must be one of {', '.join(_READERS)}")


def _require_file(path: Path) -> None:
    if not path.exists():
        siblings = [p.name for p in sorted(path.parent.iterdir()) if p.is_file()] if path.parent.is_dir() else []
        hint = f"; did you mean {found[0]!r}?" if (found := near(path.name, siblings, cutoff=0.6)) else ""
        raise FileNotFoundError(f"no file {path}{hint}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; a table file is needed")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty (0 bytes)")


def _read_csv(path: Path | _Content) -> pd.DataFrame:
    try:
        return _parsed(path, "utf-8")
    except UnicodeDecodeError:
        if isinstance(path, _Content) or not _one_byte_a_letter(path):
            raise
        frame = _parsed(path, "cp1252")
        warn(f"{path} is not UTF-8 text and is read as Windows-1252; where letters look wrong, save it as UTF-8.")
        return frame


def _one_byte_a_letter(path: Path) -> bool:
    """Whether text that is not UTF-8 may be Windows-1252: it is neither UTF-16, which has zeros, nor damaged UTF-8."""
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        data = file.read()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start].isascii() and b"\0" not in data
    return False


def _parsed(path: Path | _Content, encoding: str) -> pd.DataFrame:
    tabs = isinstance(path, Path) and ".tsv" in path.suffixes[-2:]
    header = _lines(path, encoding, last=False)
    separator = "\t" if tabs else _separator(header)
    _require_distinct(header, separator, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            # index_col=False: a longer row must not silently turn the first column into an index.
            frame = pd.read_csv(_readable(path), sep=separator, encoding=encoding, index_col=False, low_memory=False)
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty; a header and at least one row are needed") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reason = str(error).strip().rstrip(".")
        raise ValueError(f"{path} is not a well-formed table, perhaps cut short: {reason}") from error
    # pandas fills a short last row with missing values; a file cut in mid-row would pass unseen.
    if frame.iloc[-1:, -1].isna().any():
        last = _lines(path, encoding, last=True)
        fields = _fields(last, separator)
        if last.count('"') % 2 == 0 and fields < frame.shape[1]:
            raise ValueError(
                f"{path} is truncated: its last row has {fields} of {frame.shape[1]} columns; copy it again"
            )
    return frame if separator == "," else _with_thousands_as_text(path, separator, encoding, frame)


def _separator(header: str) -> str:
    """The mark that splits the header into most columns; names in quotes may hold the others."""
    return max(",;\t", key=lambda mark: _fields(header, mark))


def _require_distinct(header: str, separator: str, path: Path | _Content) -> None:
    """Refuse columns of one name, which pandas would rename, in a time that grows with the square of their number."""
    quoted = rf'"(?:[^"]|"")*"|[^{separator}]+' if '"' in header else rf"[^{separator}]+"
    names = Counter(name.strip().strip('"') for name in re.findall(quoted, header))
    repeated = next((name for name, count in names.items() if count > 1 and name), None)
    if repeated is not None:
        raise ValueError(f"{path} has {names[repeated]:,} columns named {repeated[:60]!r}; give each a name of its own")


def _fields(line: str, mark: str) -> int:
    """The fields of a line; a mark in quotes separates none."""
    return re.sub(rf'(^|{mark})"(?:[^"]|"")*"', r"\1", line).count(mark) + 1


def _with_thousands_as_text(path: Path | _Content, separator: str, encoding: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Columns in which every dot stands before three digits, as in 1.234, as text: it may be a thousand or a decimal.

    Beside decimal commas it is a thousand; the table encoder decides, and asks the same of every later file.
    """
    decimals = [name for name in frame.columns if frame[name].dtype.kind == "f"]
    if not decimals:
        return frame
    written = pd.read_csv(
        _readable(path), sep=separator, encoding=encoding, index_col=False, usecols=decimals, dtype=str
    )
    for name in decimals:
        texts = written[name].dropna().str.strip()
        dotted = texts[texts.str.contains(".", regex=False)]
        if len(dotted) and dotted.str.fullmatch(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+").all():
            frame[name] = written[name]
    return frame


def _read_jsonl(path: Path) -> pd.DataFrame:
    rows = []
    with _opened(path, "utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number} of {path} is not JSON, perhaps cut short: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} of {path} is a JSON {type(row).__name__}; each line must be an object")
            rows.append(row)
    return pd.DataFrame(rows)


def _read_parquet(path: Path) -> pd.DataFrame:
    frame: pd.DataFrame = pq.ParquetFile(path).read().to_pandas()
    return frame


def _readable(path: Path | _Content) -> Any:
    """What pandas reads from."""
    return io.BytesIO(path.data) if isinstance(path, _Content) else path


def _opened(path: Path | _Content, encoding: str) -> Any:
    if isinstance(path, _Content):
        return io.TextIOWrapper(io.BytesIO(path.data), encoding=encoding, newline="")
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, "rt", encoding=encoding, newline="")


def _lines(path: Path | _Content, encoding: str, last: bool) -> str:
    """The first, or the last non-blank, line of a text file."""
    found = ""
    with _opened(path, encoding) as file:
        for line in file:
            if line.strip():
                found = line.rstrip("\r\n")
                if not last:
                    break
    return found


def _read_npz(path: Path) -> pd.DataFrame:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if name in ("X", "y")}
            found = list(archive.files)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as plain arrays: {error}") from error
    if "X" not in arrays:
        raise ValueError(f"{path} holds {found}; an array X of shape (n, d), and y of shape (n,) for labels, is needed")
    x = arrays["X"]
    if x.ndim != 2:
        raise ValueError(f"X of {path} has shape {x.shape}; a table needs (n, d)")
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    if "y" in arrays:
        if arrays["y"].shape != x.shape[:1]:
            raise ValueError(f"y of {path} has shape {arrays['y'].shape}; X has {len(x)} rows")
        frame["y"] = arrays["y"]
    return frame


_READERS: Final[dict[str, Callable[[Path], pd.DataFrame]]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".tsv": _read_csv,
    ".tsv.gz": _read_csv,
    ".jsonl": _read_jsonl,
    ".jsonl.gz": _read_jsonl,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
}
TABLE_SUFFIXES: Final = tuple(_READERS)
