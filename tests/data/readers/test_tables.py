"""Tables of every file type, and what is said of broken ones."""

import gzip
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial.data.readers.tables import read_csv, read_table, split_target

FRAME = pd.DataFrame({"age": [30.5, np.nan, 50.0], "town": ["Ulm", None, "Bern, CH"], "ill": [0, 1, 0]})


KINDS = ["csv", "csv.gz", "CSV", "tsv", "tsv.gz", "jsonl", "jsonl.gz", "parquet", "semicolon", "tab", "bom"]
MARKS = {"semicolon": ";", "tab": "\t", "tsv": "\t", "tsv.gz": "\t"}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    kind = request.param
    path = tmp_path / f"t.{'csv' if kind in ('semicolon', 'tab', 'bom') else kind}"
    if kind == "parquet":
        FRAME.to_parquet(path)
    elif kind.startswith("jsonl"):
        FRAME.to_json(path, orient="records", lines=True)
    else:
        encoding = "utf-8-sig" if kind == "bom" else "utf-8"
        FRAME.to_csv(path, index=False, sep=MARKS.get(kind, ","), encoding=encoding)
    return path


def test_every_file_type_gives_the_same_table(table: Path) -> None:
    pd.testing.assert_frame_equal(read_table(table), FRAME)


def test_npz_columns_are_numbered(tmp_path: Path) -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 1, 0], np.uint8)
    np.savez(tmp_path / "t.npz", X=x, y=y, note=np.array("ignored"))
    frame = read_table(tmp_path / "t.npz")
    assert list(frame.columns) == ["x0", "x1", "y"]
    np.testing.assert_array_equal(frame[["x0", "x1"]].to_numpy(), x)
    np.testing.assert_array_equal(frame["y"], y)
    np.savez_compressed(tmp_path / "u.npz", X=x)
    assert list(read_table(tmp_path / "u.npz").columns) == ["x0", "x1"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"data": np.ones((2, 2))}, r"holds \['data'\]; an array X"),
        ({"X": np.ones((2, 3, 4))}, r"shape \(2, 3, 4\); a table needs \(n, d\)"),
        ({"X": np.ones((2, 3)), "y": np.ones(3)}, "X has 2 rows"),
        ({"X": np.array([[{}]], dtype=object)}, "plain arrays"),
        ({"X": np.ones((0, 3))}, "no rows"),
    ],
)
def test_npz_of_other_content_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.npz")


def test_places_without_a_table(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a\n1\n")
    (tmp_path / "t.xlsx").write_bytes(b"x")
    (tmp_path / "d.csv").mkdir()
    for name, error, message in (
        ("tain.csv", FileNotFoundError, r"did you mean 'train\.csv'"),
        ("nowhere/t.csv", FileNotFoundError, "no file"),
        ("d.csv", ValueError, "is a folder"),
        ("t.xlsx", ValueError, r"'\.xlsx'; a table must be one of \.csv, \.csv\.gz, .*, \.npz"),
    ):
        with pytest.raises(error, match=message):
            read_table(tmp_path / name)


@pytest.mark.parametrize("suffix", ["csv.gz", "parquet", "npz"])
def test_binary_file_cut_short(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    big = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 3)), columns=list("abc"))
    if suffix == "csv.gz":
        big.to_csv(path, index=False)
    elif suffix == "parquet":
        big.to_parquet(path)
    else:
        np.savez(path, X=big.to_numpy())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match="truncated or damaged"):
        read_table(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes|is empty"),
        (b" \n\n", "is empty"),
        (b"a,b\n", "has no rows"),
        (b"a,b,c\n1,2,3\n4,5", "truncated: its last row has 2 of 3 columns"),
        (b'a,b\n1,"two\n3,4\n', "not a well-formed table, perhaps cut short"),
        (b"a,b\n1,2\n1,2,3\n", "not a well-formed table"),
        (b"a,b\n1,2,3\n4,5,6\n", "not a well-formed table"),
        (b"a,a,b\n1,1,2\n", "2 columns named 'a'"),
        (b'"x, y",b,"x, y"\n1,2,3\n', "2 columns named 'x, y'"),
        (b"a\ta\tb\n1\t1\t2\n", "2 columns named 'a'"),
        ("name\nZürich\n".encode("utf-16"), "not UTF-8"),
        ("name\nZürich\nGenf\n".encode() + b"\xff\n", "not UTF-8"),
        (b"name\n\x81\n", "not UTF-8"),  # no letter of Windows-1252
    ],
)
def test_text_that_is_no_table(tmp_path: Path, content: bytes, message: str) -> None:
    """As a file, a packed file, and the body of a request."""
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    for read in (
        lambda: read_table(tmp_path / "t.csv"),
        lambda: read_table(tmp_path / "t.csv.gz"),
        lambda: read_csv(content, "the body"),
    ):
        with pytest.raises(ValueError, match=message):
            read()


def test_a_million_columns_of_one_name_take_no_time() -> None:
    started = time.process_time()
    with pytest.raises(ValueError, match="1,000,000 columns named 'a'"):
        read_csv(b"a," * 1_000_000 + b"b\n", "the body")
    assert time.process_time() - started < 20  # pandas alone would take hours


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("a,b\n1,2\n3,\n\n", {"a": [1, 3], "b": [2.0, np.nan]}),  # a gap at the end is no truncation
        ('a,b\n"x\ny",\n', {"a": ["x\ny"], "b": [np.nan]}),
        ("\r\n  \r\na;b\r\n1;\r\n \r\n", {"a": [1], "b": [np.nan]}),  # blank lines before and behind
        ('"heat, °C";load\n1;2\n', {"heat, °C": [1], "load": [2]}),  # the mark that splits most
        ("a;b,c\n1;2,3\n", {"a;b": ["1;2"], "c": [3]}),  # a tie goes to the comma
        ('"a;b;c","d ""e"", f;g;h",i\n1,"x;y,z",\n', {"a;b;c": [1], 'd "e", f;g;h': ["x;y,z"], "i": [np.nan]}),
        ("miles;n\n1.234;1\n;2\n999;3\n", {"miles": ["1.234", np.nan, "999"], "n": [1, 2, 3]}),  # thousands, perhaps
        ("heat;n\n36.6;1\n37.123;2\n38.000;3\n", {"heat": [36.6, 37.123, 38.0], "n": [1, 2, 3]}),
        ("miles,n\n1.234,1\n", {"miles": [1.234], "n": [1]}),  # between commas a dot is a decimal point
    ],
)
def test_marks_and_gaps(tmp_path: Path, content: str, columns: dict[str, list[object]]) -> None:
    (tmp_path / "t.csv").write_bytes(content.encode())
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), pd.DataFrame(columns), check_dtype=False)


def test_a_csv_of_windows_is_read_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes("Straße;€\nZürich;1.234\n".encode("cp1252"))
    with pytest.warns(UserWarning, match="not UTF-8 text and is read as Windows-1252") as caught:
        assert read_table(tmp_path / "l.csv").to_dict("list") == {"Straße": ["Zürich"], "€": ["1.234"]}
    assert caught[0].filename == __file__


def test_tsv_and_json_lines_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a,b\tc\n1\t2\n")
    assert list(read_table(tmp_path / "t.tsv")) == ["a,b", "c"]
    (tmp_path / "t.jsonl").write_text('{"code": "007", "day": "2024-05-06", "x": 0.1}\n\n{"code": "8", "x": null}\n')
    frame = read_table(tmp_path / "t.jsonl")
    assert frame["code"].tolist() == ["007", "8"]  # text stays text
    assert frame["day"].tolist()[0] == "2024-05-06"
    assert frame["x"].tolist()[0] == 0.1
    for line, message in (("{", "line 2 of .* is not JSON, perhaps cut short"), ("[1]", "line 2 .* is a JSON list")):
        (tmp_path / "t.jsonl").write_text('{"x": 1}\n' + line)
        with pytest.raises(ValueError, match=message):
            read_table(tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    ("target", "drop", "message"),
    [
        ("Ill", [], "target column 'Ill' is not in the table; did you mean 'ill'"),
        ("xyzzy", [], "there are 'age', 'town', 'ill'"),
        ("ill", ["twon"], "drop column 'twon' is not in the table; did you mean 'town'"),
        ("ill", ["ill"], "drop names the target"),
        ("ill", ["age", "town"], "no feature column is left"),
        ("town", [], "lacks a label in 1 of 3 rows"),
    ],
)
def test_split_target_refuses(target: str, drop: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_target(FRAME, target, drop)
