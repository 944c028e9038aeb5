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


def test_wrong_file_type_lists_the_legal_ones(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"'\.xlsx'; a table must be one of \.csv, \.csv\.gz, .*, \.npz"):
        read_table(tmp_path / "t.xlsx")


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a\n1\n")
    with pytest.raises(FileNotFoundError, match=r"did you mean 'train\.csv'"):
        read_table(tmp_path / "tain.csv")
    with pytest.raises(FileNotFoundError, match="no file"):
        read_table(tmp_path / "nowhere" / "t.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path / "d.csv")


@pytest.mark.parametrize(("text", "message"), [("", "0 bytes"), ("\n\n", "empty"), ("a,b\n", "no rows")])
def test_empty_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.csv")


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
    ("text", "message"),
    [
        ("a,b,c\n1,2,3\n4,5", "truncated: its last row has 2 of 3 columns"),
        ('a,b\n1,"two\n3,4\n', "not a well-formed table, perhaps cut short"),
        ("a,b\n1,2\n1,2,3\n", "not a well-formed table"),
        ("a,b\n1,2,3\n4,5,6\n", "not a well-formed table"),
    ],
)
def test_text_file_cut_short_or_ragged(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.csv")
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(
    ("header", "name"), [("a,a,b", "a"), ('"x, y",b,"x, y"', "x, y"), ("a,b,a", "a"), ("a\ta\tb", "a")]
)
def test_columns_of_one_name_are_refused(tmp_path: Path, header: str, name: str) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\n{header.translate(str.maketrans('abxy', '1234'))}\n")
    with pytest.raises(ValueError, match=f"2 columns named '{name}'"):
        read_table(tmp_path / "t.csv")


def test_a_million_columns_of_one_name_take_no_time() -> None:
    started = time.process_time()
    with pytest.raises(ValueError, match="1,000,000 columns named 'a'"):
        read_csv(b"a," * 1_000_000 + b"b\n", "the body")
    assert time.process_time() - started < 20  # pandas alone would take hours


def test_gap_at_the_end_is_not_a_truncation(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n\n")
    assert read_table(tmp_path / "t.csv").shape == (2, 2)
    (tmp_path / "t.csv").write_text('a,b\n"x\ny",\n')
    assert read_table(tmp_path / "t.csv").shape == (1, 2)


def test_a_csv_of_windows_is_read_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes("Straße;€\nZürich;1.234\n".encode("cp1252"))
    with pytest.warns(UserWarning, match="not UTF-8 text and is read as Windows-1252") as caught:
        assert read_table(tmp_path / "l.csv").to_dict("list") == {"Straße": ["Zürich"], "€": ["1.234"]}
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "content",
    ["name\nZürich\n".encode("utf-16"), "name\nZürich\nGenf\n".encode() + b"\xff\n", b"name\n\x81\n"],
    ids=["utf-16", "damaged utf-8", "no letter of Windows-1252"],
)
def test_what_is_no_text_of_windows_is_not_guessed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "l.csv").write_bytes(content)
    with pytest.raises(ValueError, match="not UTF-8"):
        read_table(tmp_path / "l.csv")


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


def test_the_mark_that_splits_most_is_the_separator(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('"heat, °C";load\n1;2\n')
    assert list(read_table(tmp_path / "t.csv").columns) == ["heat, °C", "load"]
    (tmp_path / "t.csv").write_text("a;b,c\n1;2,3\n")
    assert list(read_table(tmp_path / "t.csv").columns) == ["a;b", "c"]  # a tie goes to the comma


def test_a_dot_that_may_mean_thousands_stays_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("miles;heat;n\n1.234;36.6;1\n;37.123;2\n999;38.000;3\n")
    frame = read_table(tmp_path / "t.csv")
    assert frame["miles"].tolist()[0::2] == ["1.234", "999"]
    assert frame["miles"].isna().tolist() == [False, True, False]
    assert frame["heat"].tolist() == [36.6, 37.123, 38.0]
    assert frame["n"].tolist() == [1, 2, 3]
    (tmp_path / "t.csv").write_text("miles,n\n1.234,1\n")
    assert read_table(tmp_path / "t.csv")["miles"].tolist() == [1.234]  # between commas a dot is a decimal point


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b" \n", "the body is empty"),
        (b"a,b\n", "the body has no rows"),
        (b"a,b\n1,2\n3", "the body is truncated"),
        (b"a,b\n1,2,3\n", "the body is not a well-formed table"),
        (b"a,b\n\xff,2\n", "the body is not UTF-8"),
    ],
)
def test_content_that_is_no_csv_is_told(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_csv(data, "the body")


def test_marks_in_quotes_separate_nothing() -> None:
    frame = read_csv(b'"a;b;c","d ""e"", f;g;h",i\n1,"x;y,z",\n', "it")
    assert list(frame) == ["a;b;c", 'd "e", f;g;h', "i"]
    assert frame.iloc[0, 1] == "x;y,z"


def test_blank_lines_before_the_header_and_after_the_last_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\r\n  \r\na;b\r\n1;\r\n \r\n")
    assert list(read_table(tmp_path / "t.csv")) == ["a", "b"]
