import gzip
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossdial.dial import Surface
from lossdial_studies.experiment import Experiment, Trial
from lossdial_studies.figures import make_figure
from lossdial_studies.protocols import halves, measure
from lossdial_studies.store import Ended, Store, StoreError, finished
from lossdial_studies.tables import make_table

Y = np.repeat([0, 1], [40, 20])
LAMS = [{"gamma": 0.1, "tau": float(t)} for t in range(4)]


def run(setting: int = 0, seed: int = 0) -> Experiment:
    return Experiment("aptos", 100.0, "frozen", "vs+lct", setting, seed, 30)


def fill(store: Store, experiment: Experiment, trial: str = "a trial") -> np.ndarray:
    rng = np.random.default_rng(experiment.setting)
    scores = (rng.normal(size=(60, 4)) + Y[:, None]).astype(np.float32)
    store.write(experiment, trial, measure(Surface(Y, scores, LAMS), halves(Y, None)), 1.5, (Y, scores))
    return scores


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "deep" / "store")
    scores = fill(store, run())
    rows = list(Store.open(store.folder).rows())
    assert [row["lam"] for row in rows] == LAMS
    assert {row["key"] for row in rows} == {run().key}
    assert store.outcomes() == {run().key: Ended("done", "a trial")}
    y, found = store.scores(run().key)
    assert np.array_equal(found, scores)
    assert np.array_equal(y, Y)
    # Every metric of a row can be computed again from its scores.
    again = Surface(y, found, LAMS).metrics(["auc", "brier"])
    assert [row["metrics"]["auc"] for row in rows] == pytest.approx(again["auc"].tolist(), abs=1e-5)
    assert not list(store.folder.rglob(".*"))


def test_the_frame(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    for setting in range(3):
        fill(store, run(setting))
    store.record(Trial((run(9),)), "diverged", "the loss became nan")
    frame = store.frame()
    assert len(frame) == 12
    assert frame["setting"].tolist().count(2) == 4
    assert frame["tau"].max() == 3
    assert frame["alpha"].isna().all()
    row = next(r for r in store.rows() if r["setting"] == 1 and r["lam"]["tau"] == 2)
    line = frame[(frame["setting"] == 1) & (frame["tau"] == 2)].iloc[0]
    assert line["auc"] == row["metrics"]["auc"]
    assert line["max_f1_on_1"] == row["on"][1]["max_f1"]
    assert line["max_f1_from_0"] == row["from"][0]["max_f1"]


def test_packed_rows_are_read_as_they_were(tmp_path: Path) -> None:
    store, other = Store.create(tmp_path / "a"), Store.create(tmp_path / "b")
    for setting in range(2):
        fill(store, run(setting))
    rows = list(store.rows())
    assert store.save(other.folder / "rows" / "all.jsonl.gz", rows) == 8
    assert list(other.rows()) == rows
    assert other.outcomes() == store.outcomes()
    first = (other.folder / "rows" / "all.jsonl.gz").read_bytes()
    store.save(other.folder / "rows" / "all.jsonl.gz", rows)
    assert (other.folder / "rows" / "all.jsonl.gz").read_bytes() == first
    store.save(other.folder / "rows" / "8.jsonl.gz", [{**row, "seconds": 99.0} for row in rows])
    fill(other, run(0))  # again, in a file of its own: no row counts twice, and what is packed counts less
    assert len(other.frame()) == 8
    assert {row["seconds"] for row in other.rows() if row["setting"] == 0} == {1.5}
    with pytest.raises(StoreError, match="packed results come without their scores"):
        other.scores(run(1).key)


def test_a_damaged_row_is_skipped_named_and_counted(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    fill(store, run(0))
    fill(store, run(1))
    path = tmp_path / "rows" / f"{run(0).key}.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    altered = json.loads(lines[1])
    altered["metrics"]["auc"] = 0.999
    path.write_text(lines[0] + json.dumps(altered) + "\n" + lines[2][:50] + "\n" + '"text"\n' + lines[3])
    assert len(store.frame()) == 2 + 4
    assert [(d.path, d.line) for d in store.damaged] == [(path, 2), (path, 3), (path, 4)]
    assert "checksum differs" in str(store.damaged[0])
    assert set(store.outcomes()) == {run(1).key}  # so the other will be run again


def test_a_truncated_archive_gives_what_it_can(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    fill(store, run(0))
    path = tmp_path / "rows" / "all.jsonl.gz"
    text = "".join(json.dumps(row) + "\n" for row in range(3))
    path.write_bytes(gzip.compress(text.encode())[:-10])
    assert len(store.frame()) == 4
    assert store.damaged[-1].path == path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged"),
        ("{}", "is damaged"),
        ('{"format": "x"}', "is damaged"),
        ('{"format": 3}', r"has format 3, of a newer lossdial; this one reads up to 2\. Update"),
        (None, r"it has no store\.json"),
    ],
)
def test_what_is_no_store(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "store.json").write_text(text)
    with pytest.raises(StoreError, match=message):
        Store.open(tmp_path)
    (tmp_path / "store.json").unlink(missing_ok=True)
    (tmp_path / "rows").mkdir()
    with pytest.raises(StoreError, match=r"has rows but no store\.json"):
        Store.create(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="is a file"):
        Store.create(tmp_path / "file")


def test_a_result_beats_a_failure(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    trial = Trial((run(), run(1)))
    store.record(trial, "out-of-memory", "no room")
    assert {end.status for end in store.outcomes().values()} == {"out-of-memory"}
    fill(store, run())
    assert store.outcomes_of([run().key, "nothing"]) == {run().key: Ended("done", "a trial")}
    store.record(trial, "died", "again")
    assert [store.outcomes()[run(i).key].status for i in (0, 1)] == ["done", "died"]


def test_what_trained_together_is_finished_together(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    trial = Trial((run(0), run(1)))
    fill(store, run(0), "another")
    assert not finished(trial, store.outcomes())
    fill(store, run(1), trial.key)
    assert not finished(trial, store.outcomes())  # they agree to rounding only
    fill(store, run(0), trial.key)
    assert finished(trial, store.outcomes())
    assert finished(Trial((run(1),)), store.outcomes())
    store.record(Trial((run(2),)), "failed", "a bug")
    assert not finished(Trial((run(2),)), store.outcomes())


def test_a_full_disk_leaves_earlier_rows_whole(
    tmp_path: Path, full_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    store = Store.create(tmp_path)
    fill(store, run(0))
    for size in (100, 2000):  # in the scores, in the rows
        with full_disk(size), pytest.raises(OSError, match="too large"):
            fill(store, run(1))
    assert set(store.outcomes()) == {run(0).key}
    assert not list(tmp_path.rglob(".*"))


def test_a_claim_is_for_one(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    with store.claim("a") as mine:
        assert mine is not None
        mine.mkdir(parents=True)
        (mine / "checkpoint.pt").touch()
        with Store.open(tmp_path).claim("a") as theirs, Store.open(tmp_path).claim("b") as other:
            assert theirs is None
            assert other is not None
    with store.claim("a") as again:
        assert again == mine
    with pytest.raises(RuntimeError), store.claim("a"):
        raise RuntimeError  # and the lock is free again
    with store.claim("a") as freed:
        assert freed == mine


def test_cleaning_up_after_a_trial_that_was_killed(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    fill(store, run(0))
    fill(store, run(1))
    trial = Trial((run(0),))
    for path in (
        f"rows/.{run(0).key}.jsonl-x.tmp",
        f"rows/.{run(1).key}.jsonl-x.tmp",
        f"scores/.{run(0).key}.npz-x.tmp",
    ):
        (tmp_path / path).touch()
    (tmp_path / "unfinished" / trial.key).mkdir(parents=True)
    store.clean(trial)
    assert [path.name for path in tmp_path.rglob(".*")] == [f".{run(1).key}.jsonl-x.tmp"]  # another process's
    assert not list((tmp_path / "unfinished").glob("*"))
    assert len(store.outcomes()) == 2


# format 1: rows without a content, whose keys cover less


def as_format_1(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k != "content"} | {"format": 1, "key": f"old {row['key']}"}


def test_rows_of_format_1_are_read_and_no_run_s_own(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    fill(store, run())
    rows = list(store.rows())
    store.save(tmp_path / "rows" / "old.jsonl.gz", [as_format_1(row) for row in rows])
    (tmp_path / "rows" / f"{run().key}.jsonl").unlink()
    (tmp_path / "store.json").write_text('{"format": 1}')
    old = Store.open(tmp_path)
    assert [row["content"] for row in old.rows()] == [""] * 4
    assert old.frame()["auc"].tolist() == [row["metrics"]["auc"] for row in rows]
    assert not finished(Trial((run(),)), old.outcomes())  # so a sweep runs it


def test_the_newer_of_two_formats_counts(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    fill(store, run())
    old = [as_format_1(row) for row in store.rows()]
    fill(store, run(1))
    others = [as_format_1(row) | {"setting": 7} for row in store.rows() if row["setting"] == 1]
    store.save(tmp_path / "rows" / "old.jsonl.gz", [*old, *others])
    frame = store.frame()
    assert len(frame) == 4 + 4 + 4
    assert set(frame.loc[frame["setting"] == 0, "key"]) == {run().key}
    assert set(frame.loc[frame["setting"] == 7, "key"]) == {f"old {run(1).key}"}


RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.skipif(not RESULTS.exists(), reason="the committed results are not beside the tests")
def test_the_committed_results_are_still_drawn() -> None:
    """They are of format 1, and stay facts."""
    store = Store.open(RESULTS / "frozen")
    frame = store.frame()
    assert not store.damaged
    assert len({row["key"] for row in store.rows() if row["format"] == 1}) > 1000
    assert len(make_table("auc", frame, "held-out").rows) > 5
    cell = frame[(frame["data"] == "ham10000-melanoma") & (frame["beta"] == 200)]
    make_figure("heat-maps", cell)
