"""Certificates monitored over posted outcomes."""

from pathlib import Path

import numpy as np

from lossdial import LCTClassifier
from lossdial.cli import main
from lossdial.dial.monitor.monitor import Monitor
from tests.serve.conftest import Serving, as_json, make_rows


def cases(n: int, distance: float, seed: int) -> dict[str, list[object]]:
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    score = rng.normal(size=n) + distance * y
    return {"scores": score.tolist(), "outcomes": ["ill & <b>" if yes else "well" for yes in y]}


def test_the_server_monitors_as_python_does(serving: Serving, fitted: LCTClassifier) -> None:
    client, monitor = serving(), Monitor.of(fitted.points["sure"])
    for seed in range(3):
        posted = cases(200, 5.0, seed)
        answer = client.post("/outcomes", {"point": "sure", **posted}).json
        monitor = monitor.see(posted["scores"], [o == "ill & <b>" for o in posted["outcomes"]])
    assert (answer["said"], answer["holds"]) == (str(monitor).splitlines(), True)
    assert client.get("/outcomes").json == {"sure": answer}
    answer = client.post("/outcomes", {"point": "sure", **cases(5000, 0.0, 9)}).json
    assert answer["broken"] == ["recall"]
    assert answer["bounds"]["recall"]["broken"]
    assert any("NO LONGER HOLDS" in line for line in answer["said"])
    assert 'lossdial_certificate_broken{bound="recall",point="sure"} 1.0' in client.get("/metrics").body.decode()


def test_a_monitor_goes_on_after_a_restart_where_it_may_be_kept(serving: Serving) -> None:
    first = serving(allow_save=True).post("/outcomes", {"point": "sure", **cases(100, 5.0, 0)}).json
    assert first["bounds"]["fpr"]["outcomes"] > 0
    again = serving(allow_save=True)
    assert again.get("/outcomes").json["sure"]["said"] == first["said"]
    more = again.post("/outcomes", {"point": "sure", **cases(100, 5.0, 1)}).json
    counts = [sum(b["outcomes"] for b in found["bounds"].values()) for found in (first, more)]
    assert counts == [100, 200]


def test_the_command_and_the_server_keep_one_monitor(serving, run, tmp_path, capsys):
    client, frame = serving(allow_save=True), make_rows(120, 5)
    frame.to_csv(tmp_path / "came.csv", index=False)
    rows = as_json(frame.drop(columns="state"))
    scores = client.post("/predict?point=sure", {"rows": rows}).json["score"]
    posted = {"point": "sure", "scores": scores, "outcomes": frame["state"].tolist()}
    found = client.post("/outcomes", posted).json
    assert main(["monitor", str(run), "--point", "sure"]) == 0
    told = capsys.readouterr().out
    assert all(line in told for line in found["said"])
    assert "have been seen already" in client.post("/outcomes", posted).error  # what one has seen, neither takes again
    assert main(["monitor", str(run), "--point", "sure", "--data", str(tmp_path / "came.csv")]) == 2
    assert "have been seen already" in capsys.readouterr().err
    assert main(["monitor", str(run), "--point", "sure", "--restart", "--confidence", "0.9"]) == 0
    told = client.post("/outcomes", posted)
    assert told.status == 409
    assert "in the model's folder monitors something else" in told.error


def test_a_damaged_monitor_is_told(serving: Serving, run: Path) -> None:
    client = serving(allow_save=True)
    client.post("/outcomes", {"point": "sure", **cases(20, 5.0, 0)})
    (run / "monitor" / "sure.json").write_text("{")
    for answer in (client.get("/outcomes"), client.get("/metrics")):
        assert answer.status == 409
        assert "sure.json" in answer.error


def test_what_an_outcome_may_be_is_said_once(serving: Serving, fitted: LCTClassifier) -> None:
    client = serving(others={"trees": fitted.points["sure"]})
    found = client.post("/outcomes", {"point": "sure", "scores": [1, 2, 3], "outcomes": [0, 1, True]}).json
    assert found["bounds"]["recall"]["outcomes"] == 2
    told = client.post("/outcomes", {"point": "trees", "scores": [1, 1], "outcomes": [0, 2]}).error
    assert told == "outcomes[1] must be 0 or 1; got 2."
