"""A small model with text, gaps, dates and HTML in its names, served by a real server on loopback."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lossdial import LCTClassifier, Recipe
from lossdial.cli.deployment import page_of
from lossdial.cli.options import Columns
from lossdial.serve import Limits, Server

HTML = "<script>alert(1)</script>"


def make_rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.2
    return pd.DataFrame(
        {
            "age": (rng.normal(50, 9, n) + 8 * ill).round(2),
            "town": np.where(rng.random(n) + 0.3 * ill > 0.6, "Ulm", "Bern"),
            "dose": np.where(rng.random(n) < 0.1, np.nan, (rng.random(n) + ill).round(3)),
            "since": (pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 90, n), "D")).strftime("%Y-%m-%d"),
            HTML: rng.normal(size=n).round(3),
            "state": np.where(ill, "ill & <b>", "well"),
        }
    )


def inputs(n: int, seed: int) -> pd.DataFrame:
    return make_rows(n, seed).drop(columns="state")


def as_json(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of JSON, gaps as null."""
    return [{k: None if pd.isna(v) else v for k, v in row.items()} for row in frame.to_dict("records")]


def probability(clf: LCTClassifier, frame: pd.DataFrame, point: str) -> np.ndarray:
    """Of 'ill & <b>', the positive class."""
    return clf.predict_proba(frame, point=point)[:, list(clf.classes_).index("ill & <b>")]


@pytest.fixture(scope="session")
def fitted() -> LCTClassifier:
    frame = make_rows(2000, 0)
    with warnings.catch_warnings(action="ignore"):
        clf = LCTClassifier(recipe=Recipe(3), random_state=0).fit(frame.drop(columns="state"), frame["state"])
        clf.tune(maximize="precision", subject_to={"recall": 0.5}, confidence=0.8, name="sure")
        clf.tune(maximize="f1", name="tuned")
        clf.keep(clf.dial().refer(npv=0.8, precision=0.3, prevalence=0.2, confidence=0.8, name="triage"))
    return clf


@pytest.fixture
def run(fitted: LCTClassifier, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "run")
    return tmp_path / "run"


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The one message of a refusal, and nothing else."""
        assert set(self.json) == {"error"}, self.body
        assert self.headers["content-type"] == "application/json"
        return str(self.json["error"])


def ask(port: int, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
    data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
    try:
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()})
    finally:
        connection.close()


@dataclass(frozen=True)
class Client:
    server: Server

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return ask(self.server.port, "POST", path, body, **headers)

    def get(self, path: str, **headers: str) -> Answer:
        return ask(self.server.port, "GET", path, **headers)


Serving = Callable[..., Client]


@contextmanager
def running(folder: Path, **options: Any) -> Iterator[Client]:
    """A server that answers, stopped at the end."""
    server = Server(folder, lambda bundle: page_of(bundle, str(folder), None, Columns(), "people"), port=0, **options)
    thread = server.in_background()
    try:
        yield Client(server)
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def serving(run: Path) -> Iterator[Serving]:
    """``serving(allow_save=True, limits=Limits(…))``: a server that answers."""
    with ExitStack() as started:
        yield lambda folder=run, **options: started.enter_context(running(folder, **options))


@pytest.fixture(scope="module")
def client(fitted: LCTClassifier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One server for the questions that change nothing."""
    folder = tmp_path_factory.mktemp("serving") / "run"
    fitted.save(folder)
    with running(folder, limits=Limits(rows=500)) as client:
        yield client
