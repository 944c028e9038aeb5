"""Records as lines of JSON that carry a checksum."""

from pathlib import Path

import pytest

from lossdial_studies.lines import append_line, from_line, to_line


def test_a_line_knows_whether_it_was_altered() -> None:
    line = to_line({"name": "λ", "auc": 0.93})
    assert from_line(line) == {"name": "λ", "auc": 0.93}
    for altered in (line.replace("0.93", "0.98"), line.replace(", ", ",", 1), line.replace('"crc": ', '"crc": 1')):
        with pytest.raises(ValueError, match="its checksum differs"):
            from_line(altered)
    for other in ("", "3\n", "[1]\n", '{"auc": 1}\n', line[:-3], "[" * 100_000):
        with pytest.raises(ValueError, match=r"not a row|differs"):
            from_line(other)


def test_a_line_is_not_added_behind_half_of_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_line(path, {"n": 1})
    path.write_bytes(path.read_bytes()[:-4])
    for n in (2, 3):
        append_line(path, {"n": n})
    lines = path.read_text().splitlines()
    assert [from_line(line) for line in lines[1:]] == [{"n": 2}, {"n": 3}]
    assert len(lines) == 3
