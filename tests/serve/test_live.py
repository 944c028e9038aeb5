"""A bundle that changes on disk is taken over as a whole, or not at all."""

import threading
import time
import warnings
from pathlib import Path

from lossdial import Bundle, LCTClassifier, Recipe
from lossdial.base.files import read_json, write_json
from lossdial.serve import Limits
from lossdial.serve.live import Live
from tests.serve.conftest import Serving, as_json, inputs, make_rows

ROWS = as_json(inputs(5, 3))


def other() -> LCTClassifier:
    frame = make_rows(800, 1)
    with warnings.catch_warnings(action="ignore"):
        return LCTClassifier(recipe=Recipe(1), random_state=1).fit(frame.drop(columns="state"), frame["state"])


def wait_until(done: object, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.05)
    assert done()  # type: ignore[operator]


def test_another_model_is_taken_over_under_load(serving: Serving, fitted: LCTClassifier, run: Path) -> None:
    client, new = serving(), other()
    before, after = (clf.predict_proba(inputs(5, 3))[:, 0].tolist() for clf in (fitted, new))
    seen, stop = [], threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answer = client.post("/predict", {"rows": ROWS})
            seen.append((answer.status, answer.json["probability"]))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        new.save(run, replace=True)
        wait_until(lambda: seen and seen[-1][1] == after)
    finally:
        stop.set()
        asking.join()
    assert {status for status, _ in seen} == {200}
    assert all(found in (before, after) for _, found in seen)  # never a mixture
    assert "lossdial_bundle_taken_over 1.0" in client.get("/metrics").body.decode()


def test_a_point_that_the_command_adds_is_served(serving: Serving, run: Path) -> None:
    from lossdial.cli import main

    client = serving()
    assert main(["adapt", str(run), "--prevalence", "0.01", "--cost-fn", "9", "--name", "clinic"]) == 0
    wait_until(lambda: client.post("/predict?point=clinic", {"rows": ROWS}).status == 200)


def test_a_folder_that_vanishes_leaves_all_as_it_was(run: Path) -> None:
    live = Live(run, Limits())
    served = live.now
    (run / "bundle.json").unlink()
    live.reload()
    assert live.now is served
    assert "holds no bundle.json" in live.trouble


def test_a_save_keeps_what_others_saved_meanwhile(serving: Serving, fitted: LCTClassifier, run: Path) -> None:
    client = serving(allow_save=True)
    Bundle.load(run).with_point(Bundle.load(run).adapt(prevalence=0.1, cost_fn=2, cost_fp=1, name="theirs")).save(run)
    page = {"format": "lossdial points 1", "points": [fitted.points["tuned"].to_json() | {"name": "mine"}]}
    assert client.post("/points", page).status == 200
    assert {"theirs", "mine"} <= Bundle.load(run).points.keys()


def test_a_point_of_another_model_is_refused(serving: Serving, fitted: LCTClassifier) -> None:
    client, entry, ours = serving(allow_save=True), fitted.points["tuned"].to_json(), "lossdial points 1"
    for form, points, message in (
        (ours, [entry | {"name": "odd", "lam": {"phi": 1.0}}], "lam has 'phi'"),
        (ours, [entry | {"name": "odd", "lam": {"gamma": 9.0, "tau": 1.0}}], "gamma must lie in [0, 0.3]"),
        ("x", [entry], "its format is 'x'"),
        (ours, [], ""),
        (ours, [3], ""),
    ):
        answer = client.post("/points", {"format": form, "points": points})
        assert (answer.status, message in answer.error) == (400, True)


def test_whatever_lies_there_the_next_good_model_is_served(serving: Serving, run: Path) -> None:
    """A signed bundle whose λ are numbers is damaged; the server goes on with the model before it."""
    client, closed, new = serving(), serving(token="a-token-of-some-length"), other()
    content = read_json(run / "bundle.json")
    write_json(run / "bundle.json", {**content, "lams": [1, *content["lams"][1:]]})
    wait_until(lambda: client.get("/ready").json["note"])
    note = client.get("/ready").json["note"]
    assert "cannot be read; the one before it is served" in note
    assert "'lams' must be" in note
    assert client.post("/predict", {"rows": ROWS}).status == 200
    assert "lossdial_bundle_stale 1.0" in client.get("/metrics").body.decode()
    wait_until(lambda: closed.get("/ready").json["note"])  # why it cannot be read is no stranger's business
    assert closed.get("/ready").json["note"].endswith("the one before it is served.")
    new.save(run, replace=True)
    after = new.predict_proba(inputs(5, 3))[:, 0].tolist()
    wait_until(lambda: client.post("/predict", {"rows": ROWS}).json["probability"] == after)
    assert client.get("/ready").json["note"] == ""
