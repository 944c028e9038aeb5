"""Faces × questions of one trained model: the estimator, the loaded estimator, the command, the server, `Dial.of` and
`DialedClassifier` give the same labels and probabilities, to the last bit, on a CSV and on a folder of images; an ONNX
file gives the same labels, and probabilities to 1e-6.

Each face is given raw rows: the predictor below them all is the only one who encodes a column or picks a size.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from sklearn.frozen import FrozenEstimator

from lossdial import Dial, DialedClassifier, LCTClassifier, Objective, Recipe
from lossdial.cli import main
from lossdial.explorer import explore
from lossdial.models import CifarResNet, TableConfig
from lossdial.serve import Server

OBJECTIVE = Objective(maximize="precision", subject_to={"recall": 0.9})
CLINIC = {"prevalence": 0.01, "cost_fn": 100.0, "cost_fp": 1.0}


@dataclass(frozen=True)
class Problem:
    """A trained model; labelled data to choose on and new data, as rows and as what ``--data`` names."""

    fitted: LCTClassifier
    X: Any
    y: np.ndarray
    X_new: Any
    data: str
    new: str
    folder: Path


@dataclass(frozen=True)
class Answers:
    """Of the new rows, (n,): what each of two points says."""

    labels: np.ndarray
    probabilities: np.ndarray
    clinic_labels: np.ndarray
    clinic_probabilities: np.ndarray


def asked(classifier: LCTClassifier, p: Problem) -> LCTClassifier:
    """With both points."""
    classifier.tune(p.X, p.y, objective=OBJECTIVE)
    classifier.adapt(p.X, p.y, **CLINIC, name="clinic")
    return classifier


def by_estimator(classifier: LCTClassifier, p: Problem) -> Answers:
    asked(classifier, p)
    side = list(classifier.classes_).index("ill")
    return Answers(
        classifier.predict(p.X_new),
        classifier.predict_proba(p.X_new)[:, side],
        classifier.predict(p.X_new, point="clinic"),
        classifier.predict_proba(p.X_new, point="clinic")[:, side],
    )


def fresh(p: Problem) -> Answers:
    return by_estimator(LCTClassifier.from_bundle(p.fitted.bundle_), p)


def loaded(p: Problem) -> Answers:
    p.fitted.save(p.folder / "loaded")
    return by_estimator(LCTClassifier.load(p.folder / "loaded"), p)


def command(p: Problem) -> Answers:
    run = p.folder / "command"
    p.fitted.save(run)
    assert main(["tune", str(run), "--data", p.data, "--maximize", "precision", "--subject-to", "recall=0.9"]) == 0
    terms = [f"--{name.replace('_', '-')}={value}" for name, value in CLINIC.items()]
    assert main(["adapt", str(run), "--data", p.data, *terms, "--name", "clinic"]) == 0
    tables = []
    for point in ("default", "clinic"):
        out = p.folder / f"{point}.parquet"
        assert main(["predict", str(run), "--data", p.new, "--out", str(out), "--point", point]) == 0
        tables.append(pd.read_parquet(out))
    tuned, clinic = tables
    return Answers(*(table[c].to_numpy() for table in (tuned, clinic) for c in ("prediction", "probability")))


def bundle(p: Problem) -> Answers:
    """Below every face: the bundle's own dial, and what its predictor decides."""
    dial = p.fitted.bundle_.dial(p.X, p.y)
    points = [dial.tune(objective=OBJECTIVE), dial.adapt(**CLINIC, name="clinic")]
    predictor = p.fitted.bundle_.predictor
    features = predictor.features(p.X_new)
    found = []
    for point in points:
        decided = predictor.decide(features, point)
        found += [np.array(predictor.classes)[decided.positive.astype(int)], decided.probability]
    return Answers(*found)


def onnx(p: Problem) -> Answers:
    """A graph in another runtime, given raw rows. Its products add up in another order, hence not to the last bit."""
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    from lossdial import OnnxModel, to_onnx

    classifier = asked(LCTClassifier.from_bundle(p.fitted.bundle_), p)
    to_onnx(classifier.bundle_, p.folder / "model.onnx", point="clinic")
    model = OnnxModel(p.folder / "model.onnx")
    tuned, clinic = model.decide(p.X_new, "default"), model.decide(p.X_new)
    return Answers(tuned.label, tuned.probability, clinic.label, clinic.probability)


def served(p: Problem) -> Answers:
    """A server, sent the files themselves: the CSV, or all images as a form."""
    run = p.folder / "served"
    asked(LCTClassifier.from_bundle(p.fitted.bundle_), p).save(run)
    server = Server(run, lambda bundle: explore(bundle.held_out()), port=0)
    thread = server.in_background()
    files = [Path(p.new)] if p.new.endswith(".csv") else list(p.X_new)
    found: list[Any] = []
    try:
        for point in ("default", "clinic"):
            if len(files) == 1:
                body: dict[str, Any] = {"content": files[0].read_bytes(), "headers": {"Content-Type": "text/csv"}}
            else:
                body = {"files": [("file", (path.name, path.read_bytes())) for path in files]}
            answer = httpx.post(f"{server.address}/predict?point={point}", timeout=60, **body)
            assert answer.status_code == 200, answer.text
            found += [np.array(answer.json()["prediction"], dtype=object), np.array(answer.json()["probability"])]
    finally:
        server.stop()
        thread.join()
    return Answers(*found)


FACES: dict[str, Callable[[Problem], Answers]] = {
    "estimator": fresh,
    "loaded estimator": loaded,
    "command": command,
    "bundle": bundle,
    "ONNX": onnx,
    "server": served,
}


def rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.2
    times = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 500 * 24 * 60, n), "min")
    words = np.array(["pain", "fever", "cough", "rash", "none", "since", "days", "two", "mild", "again"])
    return pd.DataFrame(
        {
            "age": (rng.normal(50, 9, n) + 8 * ill).round(2),
            "town": np.where(rng.random(n) + 0.3 * ill > 0.6, "Ulm", "Bern"),
            "dose": np.where(rng.random(n) < 0.1, np.nan, (rng.random(n) + ill).round(3)),
            "since": times.strftime("%Y-%m-%d %H:%M"),
            "note": [" ".join(row) for row in rng.choice(words, (n, 5))],
            "state": np.where(ill, "ill", "well"),
        }
    )


def table_problem(folder: Path) -> Problem:
    train, val, new = rows(900, 0), rows(700, 1), rows(300, 2)
    val[["since", "state", "note", "dose", "age", "town"]].to_csv(folder / "val.csv", index=False)  # in another order
    new.drop(columns="state").to_csv(folder / "new.csv", index=False)
    inputs = [c for c in train if c != "state"]
    clf = LCTClassifier(recipe=Recipe(4), random_state=0).fit(train[inputs], train["state"])
    encoded = clf.bundle_.predictor.schema.encoder.get_feature_names_out().tolist()
    assert {"since=<hour>", "since=<weekday>", "since=<month>", "note=<word 0>"} < set(encoded)
    files = str(folder / "val.csv"), str(folder / "new.csv")
    val, new = map(pd.read_csv, files)
    return Problem(clf, val[inputs], val["state"].to_numpy(), new[inputs], *files, folder)


def image_problem(folder: Path) -> Problem:
    rng = np.random.default_rng(0)
    listed = {}
    for part, n in (("train", 150), ("val", 300), ("new", 60)):
        listed[part] = []
        for i in range(n):
            kind = "ill" if i % 5 == 0 else "well"
            image = rng.integers(0, 120, (20, 26, 3)) + 25 * (kind == "ill")
            path = folder / part / (kind if part != "new" else ".") / f"{i:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.astype(np.uint8)).save(path)
            listed[part].append((path, kind))
    paths, kinds = zip(*listed["train"], strict=True)
    network = CifarResNet(8, 4)
    network.image_size = 16
    recipe = Recipe(3, batch_size=32)
    clf = LCTClassifier(network=network, recipe=recipe, random_state=0).fit(list(paths), np.array(kinds))
    val, labels = zip(*sorted(listed["val"]), strict=True)  # in the order of the folder
    new = sorted(path for path, _ in listed["new"])
    places = str(folder / "val"), str(folder / "new")
    return Problem(clf, list(val), np.array(labels), new, *places, folder)


@pytest.fixture(scope="module", params=[table_problem, image_problem], ids=["CSV", "images"])
def problem(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return request.param(tmp_path_factory.mktemp("faces"))


@pytest.mark.filterwarnings("ignore:point .* keeps its bounds:UserWarning")
@pytest.mark.parametrize("face", [name for name in FACES if name != "estimator"])
def test_every_face_gives_the_same_answers(problem: Problem, face: str) -> None:
    expected, found = fresh(problem), FACES[face](problem)
    for question in ("labels", "probabilities", "clinic_labels", "clinic_probabilities"):
        if face == "ONNX" and "probabilities" in question:
            assert_allclose(getattr(found, question), getattr(expected, question), atol=1e-6, err_msg=question)
        else:
            assert_array_equal(getattr(found, question), getattr(expected, question), err_msg=question)
    assert set(expected.labels) == {"ill", "well"}
    assert len(np.unique(expected.probabilities)) > 50


@pytest.mark.filterwarnings("ignore:point .* keeps its bounds:UserWarning")
def test_faces_for_anybodys_classifier_agree_on_ours(problem: Problem) -> None:
    """`Dial.of` and `DialedClassifier` see the one λ of the default point, as of any other classifier."""
    dial = Dial.of(problem.fitted, problem.X, problem.y)
    point = dial.tune(objective=OBJECTIVE)
    dialed = DialedClassifier(FrozenEstimator(problem.fitted)).fit(problem.X, problem.y)
    tuned = dialed.tune(objective=OBJECTIVE)
    assert replace(tuned, chosen_on="").to_json() == replace(point, chosen_on="").to_json()  # a face sketches raw rows
    scores = problem.fitted.decision_function(problem.X_new)
    flipped = problem.fitted.classes_[0] == "ill"
    assert_array_equal(dialed.predict(problem.X_new) == "ill", point.predict(-scores if flipped else scores))
    lam = problem.fitted.points["default"].lam
    own = problem.fitted.dial(problem.X, problem.y, lams=problem.fitted.bundle_.predictor.space.stack([lam]))
    assert own.tune(objective=OBJECTIVE).threshold == point.threshold


@pytest.mark.filterwarnings("ignore:1 column.* into numbers:UserWarning")
def test_every_face_gives_the_same_reasons(tmp_path: Path) -> None:
    """The estimator, the loaded one, the server (JSON and CSV) and the page of the command, on a solved table."""
    train, new = rows(700, 0), rows(80, 2).drop(columns="state")
    clf = LCTClassifier(network=TableConfig(boosted=20, forest=10), random_state=0)
    clf.fit(train.drop(columns="state"), train["state"]).adapt(**CLINIC, name="clinic")
    clf.save(tmp_path / "run")
    new.to_csv(tmp_path / "new.csv", index=False)
    new = pd.read_csv(tmp_path / "new.csv")
    expected = clf.explain(new, "clinic")
    loaded = LCTClassifier.load(tmp_path / "run").explain(new, "clinic")
    assert_array_equal(loaded.contributions, expected.contributions)
    cells = [{name: None if pd.isna(cell) else cell for name, cell in row.items()} for row in new.to_dict("records")]
    server = Server(tmp_path / "run", lambda bundle: explore(bundle.held_out()), port=0)
    thread = server.in_background()
    csv = {"content": (tmp_path / "new.csv").read_bytes(), "headers": {"Content-Type": "text/csv"}}
    try:
        address = f"{server.address}/predict"
        answers = [
            httpx.post(f"{address}?explain=true&point=clinic", timeout=60, **csv).json(),
            httpx.post(address, timeout=60, json={"rows": cells, "explain": True, "point": "clinic"}).json(),
        ]
        assert "explanation" not in httpx.post(address, timeout=60, json={"rows": cells}).json()
    finally:
        server.stop()
        thread.join()
    for answer in answers:
        reasons = answer["explanation"]
        assert (tuple(reasons["columns"]), reasons["base"]) == (expected.columns, expected.base)
        assert_allclose(reasons["contributions"], expected.contributions, rtol=1e-12, atol=1e-12)
        assert_array_equal(answer["score"], expected.margin)
    words = ["--data", str(tmp_path / "new.csv"), "--point", "clinic", "--row", "7", "--out", str(tmp_path / "out")]
    assert main(["explain", str(tmp_path / "run"), *words]) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    written = [re.findall("<td.*?>(.*?)</td>", row) for row in re.findall("<tr><td>.*?</tr>", page)]
    one = expected[6]
    shown = [(i, f"{expected.size[i]:.3f}") for i in expected.order]
    shown += [(i, f"{one.contributions[0, i]:+.3f}") for i in one.order]
    assert [(cells[0], cells[1 if len(cells) == 3 else 2]) for cells in written] == [
        (expected.columns[i], figure) for i, figure in shown
    ]
