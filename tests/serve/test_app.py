"""Every address: the right answer, and the same as Python's."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from lossdial import Bundle, LCTClassifier
from lossdial.cli import main
from lossdial.dial import OperatingPoint
from lossdial.dial.metrics.registry import sigmoid
from lossdial.serve import Limits
from tests.serve.conftest import HTML, Client, Serving, as_json, inputs, make_rows, probability

ROWS = inputs(40, 7)


def test_json_csv_and_python_agree_to_the_last_bit(client: Client, fitted: LCTClassifier) -> None:
    for point in ("default", "sure", "tuned"):
        posted = client.post(f"/predict?point={point}", {"rows": as_json(ROWS)}).json
        csv = client.post(f"/predict?point={point}", ROWS.to_csv(index=False), Content_Type="text/csv").json
        for answer in (posted, csv):
            assert answer["prediction"] == fitted.predict(ROWS, point=point).tolist()
            assert_array_equal(answer["probability"], probability(fitted, ROWS, point))
        assert (posted["point"], posted["lam"]) == (point, dict(fitted.points[point].lam))


def test_a_referral_band_says_what_python_s_says(client: Client, fitted: LCTClassifier) -> None:
    rows = as_json(ROWS)
    found = client.post("/predict?point=triage", {"rows": rows}).json
    assert found["prediction"] == fitted.predict(ROWS, point="triage").tolist()
    assert len(set(found["prediction"])) > 1
    assert_array_equal(found["probability"], probability(fitted, ROWS, "triage"))
    assert found["certified"]
    decided = client.post("/decide", {"scores": found["score"], "point": "triage"}).json
    assert decided["decision"] == found["prediction"]
    assert decided["lower"] == fitted.points["triage"].lower
    assert [point["name"] for point in client.get("/points").json["points"] if "lower" in point] == ["triage"]
    assert "leave threshold out" in client.post("/predict?point=triage&threshold=0", {"rows": rows}).error
    assert client.post("/outcomes", {"point": "triage", "scores": [1], "outcomes": [1]}).status == 409


def test_requests_that_share_a_pass_have_the_answers_they_have_alone(client: Client, fitted: LCTClassifier) -> None:
    frame = inputs(300, 8)
    rows, expected = as_json(frame), {}
    for point in ("default", "sure", "tuned"):
        expected[point] = client.post("/predict", {"rows": rows, "point": point}).json
        assert expected[point]["prediction"] == fitted.predict(frame, point=point).tolist()
    asked = [(point, k, k + n) for point in expected for k, n in ((0, 1), (1, 1), (2, 200), (7, 3), (50, 1))] * 4
    with ThreadPoolExecutor(10) as pool:
        answers = pool.map(lambda a: client.post("/predict", {"rows": rows[a[1] : a[2]], "point": a[0]}).json, asked)
        for (point, start, stop), answer in zip(asked, answers, strict=True):
            for key in ("score", "probability", "prediction"):
                assert answer[key] == expected[point][key][start:stop]


def test_lam_and_threshold_by_hand_are_python_s_and_not_certified(client: Client, fitted: LCTClassifier) -> None:
    lam = {"gamma": 0.123, "tau": 1.7}
    found = client.post("/predict?threshold=0.5", {"rows": as_json(ROWS), "lam": lam}).json
    scores = fitted.bundle_.predictor.margins(fitted.bundle_.predictor.features(ROWS), lam)
    assert_array_equal(np.float32(found["score"]), scores)
    assert_array_equal(found["probability"], sigmoid(scores.astype(np.float64)))
    assert [label == "ill & <b>" for label in found["prediction"]] == (scores > 0.5).tolist()
    assert found["certified"] is False
    assert found["point"] is None
    assert found["model_probability"] == sigmoid(np.float64(0.5))
    in_query = client.post("/predict?lam=gamma=0.123,tau=1.7&threshold=0.5", {"rows": as_json(ROWS)}).json
    assert in_query == found


def test_certified_is_said_of_certified_points_alone(client: Client) -> None:
    row = as_json(ROWS)[:1]
    sure = client.post("/predict?point=sure", {"rows": row}).json
    assert sure["certified"]
    assert sure["certificate"].startswith("certified at 80 %: recall >= 0.5")
    assert not client.post("/predict", {"rows": row}).json["certified"]
    moved = client.post("/predict?point=sure&threshold=0", {"rows": row}).json
    assert (moved["certified"], moved["certificate"]) == (False, "not certified: threshold given by hand")
    elsewhere = client.post("/predict?point=sure&prevalence=0.01", {"rows": row}).json
    assert elsewhere["certified"]  # recall and FPR do not depend on the share of positives


def test_a_prevalence_moves_probabilities_and_no_label(client: Client, fitted: LCTClassifier) -> None:
    rows = as_json(ROWS)
    here, there = (client.post(f"/predict?point=tuned{q}", {"rows": rows}).json for q in ("", "&prevalence=0.02"))
    own = fitted.bundle_.evidence.y.mean()
    odds = np.array(here["probability"]) / (1 - np.array(here["probability"]))
    moved = odds * (0.02 / 0.98) / (own / (1 - own))
    np.testing.assert_allclose(there["probability"], moved / (1 + moved), rtol=1e-9)
    assert there["prediction"] == here["prediction"]
    assert there["prevalence"] == 0.02


def test_what_is_odd_about_a_row_is_noted(client: Client) -> None:
    row = as_json(ROWS)[0] | {"town": "Oslo", "age": "old"}
    notes = client.post("/predict", {"rows": [row]}).json["notes"]
    assert [note.split(":")[0] for note in notes] == ["column 'age'", "column 'town'"]
    csv = ROWS.assign(id=1).to_csv(index=False)
    assert client.post("/predict", csv, Content_Type="text/csv").json["notes"] == ["not used: 'id'"]


def test_adapt_and_points_are_the_bundle_s(client: Client, fitted: LCTClassifier) -> None:
    adapted = client.post("/adapt", {"prevalence": 0.01, "cost_fn": 50, "cost_fp": 1, "name": "clinic"}).json
    expected = fitted.bundle_.adapt(prevalence=0.01, cost_fn=50, cost_fp=1, name="clinic")
    assert adapted["point"] == json.loads(json.dumps(expected.to_json()))
    assert (adapted["saved"], adapted["certified"]) == (False, False)
    listed = {entry["name"]: entry for entry in client.get("/points").json["points"]}
    assert listed.keys() == fitted.points.keys()
    assert [listed[name]["certified"] for name in ("default", "sure", "tuned")] == [False, True, False]
    entry = {k: v for k, v in listed["sure"].items() if k not in ("certified", "said")}
    assert OperatingPoint.from_json(entry) == OperatingPoint.from_json(fitted.points["sure"].to_json())


def test_nothing_is_written_unless_it_may_be(client: Client, fitted: LCTClassifier) -> None:
    run = client.server.run
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    page = {"format": "lossdial points 1", "points": [fitted.points["tuned"].to_json() | {"name": "mine"}]}
    for answer in (client.post("/points", page), client.post("/adapt", {"prevalence": 0.1, "save": True})):
        assert answer.status == 403
        assert "--allow-save" in answer.error
    client.post("/outcomes", {"point": "sure", "scores": [1.0], "outcomes": ["well"]})
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_saved_points_are_served_and_certified_by_nobody(serving: Serving, fitted: LCTClassifier) -> None:
    client = serving(allow_save=True)
    assert client.post("/points", client.get("/points").json).json["there_already"] == list(fitted.points)
    sure = fitted.points["sure"].to_json()
    there = sure | {"certificate": None}  # as a page saves it; a point that is there just so keeps its certificate
    page = {
        "format": "lossdial points 1",
        "title": "a page",
        "evidence": None,
        "points": [sure | {"name": "mine"}, there],
    }
    saved = {"saved": ["mine"], "there_already": ["sure"], "certified": False}
    assert client.post("/points", page).json == saved
    answer = client.post("/predict?point=mine", {"rows": as_json(ROWS)}).json
    assert not answer["certified"]
    assert answer["prediction"] == fitted.predict(ROWS, point="sure").tolist()
    page["points"][0]["threshold"] = 0.25
    again = client.post("/points", page)
    assert (again.status, "choose another name, or say replace=true" in again.error) == (409, True)
    assert client.post("/points?replace=true", page).json == saved
    points = Bundle.load(client.server.run).points
    assert points["mine"].certificate is None
    assert points["sure"].certificate == fitted.points["sure"].certificate is not None
    assert client.post("/predict?point=sure", {"rows": as_json(ROWS)}).json["certified"]
    assert client.post("/adapt", {"prevalence": 0.01, "name": "clinic", "save": True}).json["saved"]
    assert client.post("/predict?point=clinic", {"rows": as_json(ROWS)}).status == 200


def test_the_page_is_the_command_s_and_docs_escape_names(client: Client, tmp_path: Path) -> None:
    assert main(["explore", str(client.server.run), "--out", str(tmp_path / "page.html")]) == 0
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.body == (tmp_path / "page.html").read_bytes()
    described = client.get("/openapi.json").json
    row = described["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert row["properties"]["rows"]["items"]["required"] == list(inputs(1, 0))
    page = client.get("/docs")
    assert HTML not in page.body.decode()
    assert "&lt;script&gt;alert(1)" in page.body.decode()
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert b"http" not in page.body.replace(b"<!doctype html>", b"")  # nothing from elsewhere


def test_metrics_count(serving: Serving) -> None:
    client = serving()
    for _ in range(3):
        client.post("/predict", {"rows": as_json(ROWS)})
    client.get("/somewhere/else")
    text = client.get("/metrics").body.decode()
    assert 'lossdial_requests_total{path="/predict",status="200"} 3.0' in text
    assert 'lossdial_requests_total{path="other",status="404"} 1.0' in text
    assert "lossdial_pass_rows_sum 120.0" in text


def test_an_array_s_rows_are_lists(serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.2).astype(int)
    X = rng.normal(size=(600, 3)) + y[:, None]
    clf = LCTClassifier(random_state=0).fit(X, y)
    folder = tmp_path_factory.mktemp("array") / "run"
    clf.save(folder)
    client = serving(folder)
    found = client.post("/predict", {"rows": X[:5].tolist()}).json
    assert found["prediction"] == clf.predict(X[:5]).tolist()
    assert_array_equal(found["probability"], clf.predict_proba(X[:5])[:, 1])
    csv = pd.DataFrame(X[:5]).to_csv(index=False)
    assert client.post("/predict", csv, Content_Type="text/csv").json["prediction"] == found["prediction"]
    for rows in ([[1, 2]], [[1, 2, "x"]], [[1, 2, 1e39]], [{"a": 1}], [[1, 2, 3], [1]], [[[1], [2], [3]]]):
        assert client.post("/predict", {"rows": rows}).status == 400


@pytest.mark.filterwarnings("ignore:(1 column|one column alone).*:UserWarning")
def test_reasons_are_bounded_and_refused_where_there_are_none(serving: Serving, client: Client, tmp_path: Path) -> None:
    """What /predict?explain=true answers is compared with Python's in tests/test_faces_of_a_model.py."""
    refused = client.post("/predict?explain=true", {"rows": as_json(ROWS)})
    assert (refused.status, "is no sum over columns and cannot be explained" in refused.error) == (409, True)
    frame = make_rows(400, 0)
    solved = LCTClassifier(network="features").fit(frame.drop(columns="state"), frame["state"])
    solved.save(tmp_path / "solved")
    small = serving(tmp_path / "solved", limits=Limits(rows=2))
    rows = as_json(ROWS)
    both = small.post("/predict", {"rows": rows[:2], "explain": True}).json
    for k in range(2):  # a row's reasons do not depend on the row beside it
        alone = small.post("/predict?explain=true", {"rows": [rows[k]]}).json
        assert alone["explanation"]["contributions"] == [both["explanation"]["contributions"][k]]
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 150))).set_axis(
        [f"c{i}" for i in range(150)], axis=1
    )
    LCTClassifier(network="features").fit(wide, (wide["c0"] > 1).astype(int)).save(tmp_path / "wide")
    other = serving(tmp_path / "wide", limits=Limits(rows=2))
    assert other.post("/predict", {"rows": as_json(wide[:2])}).status == 200
    for kind, body in (("application/json", {"rows": as_json(wide[:2])}), ("text/csv", wide[:2].to_csv(index=False))):
        refused = other.post("/predict?explain=true", body, Content_Type=kind)
        assert refused.status == 413
        assert refused.error == "2 rows of 150 columns are too many to explain at once; at most 1 are taken."
    assert "explanation" in other.post("/predict?explain=true", {"rows": as_json(wide[:1])}).json
    assert "explain: must be a valid boolean" in other.post("/predict?explain=yess", {"rows": as_json(wide[:1])}).error
    described = other.get("/openapi.json").json["paths"]["/predict"]["post"]
    assert "explain" in [parameter["name"] for parameter in described["parameters"]]
