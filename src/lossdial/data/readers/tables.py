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
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lossdial.base.errors import InputError, closest, near, warn
from lossdial.data.encoder.table import require_readable

TABLE_SUFFIXES: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet", ".npz")


def read_table(path: str | Path) -> pd.DataFrame:
    """A table from a CSV, TSV or JSON lines file, plain or gzipped, a Parquet file, or an NPZ file with `X` and `y`."""
    path = Path(path)
    suffix = next((suffix for suffix in TABLE_SUFFIXES if path.name.lower().endswith(suffix)), None)
    if suffix is None:
        problem = f"{path} has file type {path.suffix or 'none'!r}; a table must be one of {', '.join(TABLE_SUFFIXES)}"
        raise InputError("", problem)
    _require_file(path)
    if suffix == ".parquet":
        return _checked(lambda: pq.ParquetFile(path).read().to_pandas(), str(path))
    if suffix == ".npz":
        return _checked(lambda: _read_npz(path), str(path))
    parse = _parse_jsonl if suffix.startswith(".jsonl") else partial(_parse_csv, tabs=suffix.startswith(".tsv"))
    unpack = gzip.decompress if suffix.endswith(".gz") else bytes
    return _checked(lambda: parse(unpack(path.read_bytes()), str(path)), str(path))


def read_csv(data: bytes, source: str) -> pd.DataFrame:
    """A table from the content of a CSV file in UTF-8; `source` is how errors call it."""
    return _checked(lambda: _parse_csv(data, source, only_utf8=True), source)


def _checked(read: Callable[[], pd.DataFrame], source: str) -> pd.DataFrame:
    try:
        frame = read()
    except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile, pa.ArrowInvalid) as error:
        raise InputError("", f"{source} is truncated or damaged ({error})", remedy="Copy it again.") from error
    except UnicodeDecodeError as error:
        raise InputError("", f"{source} is not UTF-8 text ({error})", remedy="Save it as UTF-8.") from error
    if frame.empty:
        raise InputError("", f"{source} has no rows; a table with a header and at least one row is needed")
    frame.columns = frame.columns.map(str)
    repeated = sorted(set(frame.columns[frame.columns.duplicated()]))
    if repeated:
        raise InputError("", f"{source} has columns of the same name: {repeated}", remedy="Rename them.")
    return frame


def split_target(frame: pd.DataFrame, target: str, drop: Iterable[str] = ()) -> tuple[pd.DataFrame, NDArray[Any]]:
    """The features (every column but `target` and those of `drop`) and the labels (n,) of a table."""
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


def _require_file(path: Path) -> None:
    if not path.exists():
        siblings = [p.name for p in sorted(path.parent.iterdir()) if p.is_file()] if path.parent.is_dir() else []
        nearest = near(path.name, siblings, cutoff=0.6)
        raise FileNotFoundError(f"no file {path}" + (f"; did you mean {nearest[0]!r}?" if nearest else ""))
    if path.is_dir():
        raise InputError("", f"{path} is a folder; a table file is needed")
    if path.stat().st_size == 0:
        raise InputError("", f"{path} is empty (0 bytes)")


def _parse_csv(data: bytes, source: str, only_utf8: bool = False, tabs: bool = False) -> pd.DataFrame:
    if not data.strip():
        raise InputError("", f"{source} is empty; a header and at least one row are needed")
    if only_utf8 or not _one_byte_a_letter(data):
        return _parse_text(data, source, "utf-8", tabs)
    frame = _parse_text(data, source, "cp1252", tabs)
    warn(f"{source} is not UTF-8 text and is read as Windows-1252; where letters look wrong, save it as UTF-8.")
    return frame


def _one_byte_a_letter(data: bytes) -> bool:
    """Whether text that is not UTF-8 may be Windows-1252: it is neither UTF-16, which has zeros, nor damaged UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start].isascii() and b"\0" not in data
    return False


def _parse_text(data: bytes, source: str, encoding: str, tabs: bool) -> pd.DataFrame:
    header = _line_at(data, len(data) - len(data.lstrip())).decode(encoding)
    # The mark that splits the header into most columns; names in quotes may hold the others.
    separator = "\t" if tabs else max(",;\t", key=lambda mark: _fields(header, mark))
    _require_distinct(header, separator, source)
    # index_col=False: a longer row must not silently turn the first column into an index.
    options: dict[str, Any] = {"sep": separator, "encoding": encoding, "index_col": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            frame = pd.read_csv(io.BytesIO(data), low_memory=False, **options)
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reason = str(error).strip().rstrip(".")
        raise InputError("", f"{source} is not a well-formed table, perhaps cut short: {reason}") from error
    # pandas fills a short last row with missing values; a file cut in mid-row would pass unseen.
    if frame.iloc[-1:, -1].isna().any():
        last = _line_at(data, len(data.rstrip())).decode(encoding)
        fields = _fields(last, separator)
        if last.count('"') % 2 == 0 and fields < frame.shape[1]:
            problem = f"{source} is truncated: its last row has {fields} of {frame.shape[1]} columns"
            raise InputError("", problem, remedy="Copy it again.")
    return frame if separator == "," else _with_thousands_as_text(data, frame, options)


def _line_at(data: bytes, place: int) -> bytes:
    """The line of a text that a place lies in."""
    start = max(data.rfind(b"\n", 0, place), data.rfind(b"\r", 0, place)) + 1
    ends = (data.find(mark, place) for mark in (b"\n", b"\r"))
    return data[start : min((end for end in ends if end >= 0), default=len(data))]


def _require_distinct(header: str, separator: str, source: str) -> None:
    """Refuse columns of one name, which pandas would rename, in a time that grows with the square of their number."""
    quoted = rf'"(?:[^"]|"")*"|[^{separator}]+' if '"' in header else rf"[^{separator}]+"
    names = Counter(name.strip().strip('"') for name in re.findall(quoted, header))
    repeated = next((name for name, count in names.items() if count > 1 and name), None)
    if repeated is not None:
        problem = f"{source} has {names[repeated]:,} columns named {repeated[:60]!r}"
        raise InputError("", problem, remedy="Give each a name of its own.")


def _fields(line: str, mark: str) -> int:
    """The fields of a line; a mark in quotes separates none."""
    return re.sub(rf'(^|{mark})"(?:[^"]|"")*"', r"\1", line).count(mark) + 1


def _with_thousands_as_text(data: bytes, frame: pd.DataFrame, options: dict[str, Any]) -> pd.DataFrame:
    """Columns in which every dot stands before three digits as text, for the table encoder to decide on."""
    decimals = [name for name in frame.columns if frame[name].dtype.kind == "f"]
    if not decimals:
        return frame
    as_text = pd.read_csv(io.BytesIO(data), usecols=decimals, dtype=str, **options)
    for name in decimals:
        texts = as_text[name].dropna().str.strip()
        dotted = texts[texts.str.contains(".", regex=False)]
        if len(dotted) and dotted.str.fullmatch(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+").all():
            frame[name] = as_text[name]
    return frame


def _parse_jsonl(data: bytes, source: str) -> pd.DataFrame:
    rows = []
    for number, line in enumerate(data.decode("utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError("", f"line {number} of {source} is not JSON, perhaps cut short: {error}") from error
        if not isinstance(row, dict):
            problem = f"line {number} of {source} is a JSON {type(row).__name__}; each line must be an object"
            raise InputError("", problem)
        rows.append(row)
    return pd.DataFrame(rows)


def _read_npz(path: Path) -> pd.DataFrame:
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = list(archive.files)
            arrays = {name: archive[name] for name in names if name in ("X", "y")}
    except ValueError as error:
        raise InputError("", f"{path} cannot be read as plain arrays: {error}") from error
    if "X" not in arrays:
        problem = f"{path} holds {names}; an array X of shape (n, d), and y of shape (n,) for labels, is needed"
        raise InputError("", problem)
    x = arrays["X"]
    if x.ndim != 2:
        raise InputError("", f"X of {path} has shape {x.shape}; a table needs (n, d)")
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    if "y" in arrays:
        if arrays["y"].shape != x.shape[:1]:
            raise InputError("", f"y of {path} has shape {arrays['y'].shape}; X has {len(x)} rows")
        frame["y"] = arrays["y"]
    return frame
