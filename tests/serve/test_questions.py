"""Bad input: one plain message for each mistake, and never an error of the server."""

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from lossdial.data.encoder.table import TableCoder
from tests.serve.conftest import HTML, Client, as_json, inputs

ROW = as_json(inputs(1, 3))[0]
DEEP = "[" * 100_000


HUGE = '{"threshold": ' + "9" * 5000 + ', "rows": []}'
NO_JSON = ["", "[1", b"\xff\xfe", DEEP, '{"rows": [{"age": NaN}]}', '{"rows": [{"age": -Infinity}]}', HUGE]
INFINITE = '{"rows": [{"age": 1e999, "town": 1, "dose": 1, "since": 1, "' + HTML + '": 1}]}'
BODIES: list[tuple[str, Any, int, str]] = [
    *[("/predict", body, 400, "the body is not JSON") for body in NO_JSON],
    ("/decide", "[1", 400, "the body is not JSON"),
    ("/decide", '{"scores": [NaN]}', 400, "scores[0]: must be a finite number; got nan"),
    ("/adapt", '{"prevalence": 0.1, "cost_fn": NaN}', 400, "cost_fn"),
    ("/outcomes", '{"point": "sure", "scores": [1], "outcomes": [NaN]}', 400, "outcomes[0] must be"),
    ("/points", '{"format": "x", "points": [{"threshold": NaN}]}', 400, "not JSON compliant"),
    ("/predict", [ROW], 400, "the body: must be a JSON object; got ["),
    ("/predict", {"point": "sure"}, 400, "'rows' is missing"),
    ("/predict", {"row": [ROW]}, 400, "'row' is unknown; did you mean 'rows'?"),
    ("/predict", {"rows": []}, 400, "rows: list should have at least 1 item"),
    ("/predict", {"rows": ROW}, 400, "rows: must be a valid list; got ("),
    ("/predict", {"rows": [[1, 2]]}, 400, "rows[0] must be an object of column names and cells"),
    ("/predict", {"rows": [ROW, ROW | {"agee": 1}]}, 400, "rows[1] has column 'agee', which is unknown; did you"),
    ("/predict", {"rows": [{k: v for k, v in ROW.items() if k != HTML}]}, 400, f"seen in training, '{HTML}'"),
    ("/predict", {"rows": [ROW | {"age": [1]}]}, 400, "column 'age': a cell is a number, a text"),
    ("/predict", {"rows": [ROW | {"age": 1e39}]}, 400, "column 'age' is infinite, or too large for float32"),
    ("/predict", INFINITE, 400, "is infinite"),
    ("/predict", {"rows": [ROW] * 501}, 413, "501 rows are too many; at most 500 are taken at once"),
    ("/decide", {}, 400, "'scores' is missing"),
    ("/decide", {"scores": [1, "x"]}, 400, "scores[1]: must be a valid number; got 'x'"),
    ("/decide", '{"scores": [1e999]}', 400, "scores[0]: must be a finite number; got inf"),
    ("/decide", {"scores": [0.5, 2], "scores_are": "probabilities"}, 400, "post the score that /predict answers"),
    ("/decide", {"scores": [1], "scores_are": "odds"}, 400, "must be 'margins' or 'probabilities'; got 'odds'"),
    ("/decide", {"scores": [1] * 501}, 413, "501 scores are too many; at most 500"),
    ("/decide", {"scores": [1], "point": "<b>"}, 404, "there is no operating point '<b>'"),
    ("/adapt", {"cost_fn": 1}, 400, "'prevalence' is missing"),
    ("/adapt", {"prevalence": 1}, 400, "prevalence: must be less than"),
    ("/adapt", {"prevalence": 0.1, "cost_fn": -1}, 400, "cost_fn"),
    ("/adapt", {"prevalence": 0.1, "name": " "}, 400, "name: string should match"),
    ("/outcomes", {"point": "sure", "scores": [1]}, 400, "'outcomes' is missing"),
    ("/outcomes", {"point": "sure", "scores": [1], "outcomes": ["sick"]}, 400, "or 0 or 1; got 'sick'"),
    ("/outcomes", {"point": "sure", "scores": [1], "outcomes": []}, 400, "outcomes: list should have at least 1 item"),
    ("/outcomes", {"point": "tuned", "scores": [1], "outcomes": [1]}, 409, "'tuned' has no certificate to monitor"),
    ("/predicts", {"rows": [ROW]}, 404, "there is no '/predicts'; did you mean '/predict'?"),
    ("/health", {}, 405, "/health takes GET; got POST"),
    ("/decide?threshold=1", {"scores": [1]}, 400, "the query has 'threshold', which is unknown"),
    ("/points?replac=true", {"format": "x", "points": [1]}, 400, "'replac' is unknown; did you mean 'replace'?"),
]
BESIDE_A_ROW: list[tuple[str, dict[str, Any], int, str]] = [
    ("", {"point": "shure"}, 404, "there is no operating point 'shure'; did you mean 'sure'?"),
    ("?point=" + "x" * 150, {}, 404, "there are 'default', 'sure', 'tuned'"),
    ("", {"point": 3}, 400, "point: must be a valid string; got 3"),
    ("", {"lam": {"gamma": 0.1}}, 400, "lam lacks 'tau'; this model has gamma in [0, 0.3]"),
    ("", {"lam": {"gamma": 0.1, "tau": 3.1}}, 400, "lam: tau must lie in [0, 3], the trained"),
    ("", {"lam": {"gamma": 0.1, "tau": 3, "self": 1}}, 400, "lam has 'self', which is unknown"),
    ("", {"lam": 3}, 400, "lam: must be a valid dictionary; got 3"),
    ("?lam=0.1,2", {}, 400, "lam must be written as name=number,name=number"),
    ("", {"lam": {"gamma": 0.1, "tau": 1}, "point": "sure"}, 400, "give point or lam, not both"),
    ("?threshold=inf", {}, 400, "threshold: must be a finite number; got 'inf'"),
    ("?threshold=1", {"threshold": 1}, 400, "threshold is given twice"),
    ("?threshold=1&threshold=2", {}, 400, "threshold is given twice"),
    ("?prevalence=0", {}, 400, "prevalence: must be greater than"),
    ("", {"prevalence": True}, 400, "prevalence: must be a valid number; got True"),
    ("?tau=1", {}, 400, "'tau' is unknown; there are"),
]
MISTAKES = BODIES + [(f"/predict{query}", {"rows": [ROW], **more}, *rest) for query, more, *rest in BESIDE_A_ROW]


@pytest.mark.parametrize(("path", "body", "status", "message"), MISTAKES)
def test_a_mistake_is_one_line(client: Client, path: str, body: Any, status: int, message: str) -> None:
    answer = client.post(path, body)
    assert (answer.status, message in answer.error) == (status, True), answer.body
    assert "\n" not in answer.error
    assert len(answer.error) < 600


@pytest.mark.parametrize(
    ("kind", "body", "status", "message"),
    [
        ("text/csv", "age,town\n", 400, "the CSV has no rows"),
        ("text/csv", "age\n1\n", 400, "the data lack 4 column(s) seen in training, 'town'"),
        ("text/csv", "a,b\n1,2,3\n", 400, "the CSV is not a well-formed table"),
        ("text/csv", "age\n" + "1\n" * 501, 413, "501 rows are too many"),
        ("text/csv", b"\xff\n\xff", 400, "the CSV is not UTF-8"),
        ("text/plain", "hello", 415, "the Content-Type must be application/json or text/csv; got 'text/plain'"),
        ("", "{}", 415, "the Content-Type must be"),
        ("image/png", "x", 415, "the Content-Type must be application/json or text/csv"),
    ],
)
def test_other_bodies_too(client: Client, kind: str, body: Any, status: int, message: str) -> None:
    answer = client.post("/predict", body, Content_Type=kind)
    assert (answer.status, message in answer.error) == (status, True), answer.body


def test_names_of_strangers_are_text(client: Client) -> None:
    """HTML in what came is answered as JSON that no browser takes for a page."""
    answer = client.post(f"/predict?point={'%3Cscript%3E'}", {"rows": [ROW]})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "\\u00fc" in client.post("/predict", {"rows": [ROW], "\u00fc": 1}).body.decode()


def test_without_held_out_rows_the_page_and_adapt_say_so(serving: Any, fitted: Any, tmp_path: Any) -> None:
    import dataclasses

    bundle = dataclasses.replace(fitted.bundle_, evidence=None, envelope=None)
    bundle.save(tmp_path / "bare")
    client = serving(tmp_path / "bare")
    page, adapted = client.get("/"), client.post("/adapt", {"prevalence": 0.1})
    assert (page.status, adapted.status) == (409, 409)
    assert "there are no held-out data" in page.error
    assert "there are no held-out data" in adapted.error
    assert client.post("/predict", {"rows": [ROW]}).status == 200


LONG = "x" * 3_000_000


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/predict", {"rows": [ROW], "lam": {f"k{i}": 1 for i in range(200_000)}}, 400),
        ("/predict", {"rows": [ROW], "lam": "a=1," * 200_000}, 400),
        ("/predict", {"rows": [ROW], "threshold": "1" * 3_000_000}, 400),
        ("/predict", {"rows": [ROW | {"age": LONG}]}, 200),
        ("/predict", {"rows": [ROW | {"since": "may " * 700_000}]}, 200),
        ("/predict", {"rows": [ROW | {"town": LONG}]}, 200),
        ("/predict", {"rows": [ROW | {LONG: 1}]}, 400),
        ("/predict", {"rows": [ROW], "point": LONG}, 400),
        ("/decide", {"scores": [LONG]}, 400),
        ("/predict", f"{','.join(ROW)},{LONG}\n54,Ulm,1,2024-03-05,0.1,1\n", 200),  # a CSV with a column not used
        ("/predict", b"a," * 900_000 + b"b\n1\n", 413),
    ],
)
def test_what_is_large_is_answered_in_little(client: Client, path: str, body: Any, status: int) -> None:
    answer = client.post(path, body, Content_Type="application/json" if isinstance(body, dict) else "text/csv")
    assert (answer.status, len(answer.body) < 3_000) == (status, True)


def test_large_bodies_are_encoded_off_the_event_loop(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, encode = [], TableCoder.encode_rows

    def encoded(coder: TableCoder, rows: Any) -> Any:
        threads.append(threading.current_thread().name.partition("_")[0])
        return encode(coder, rows)

    monkeypatch.setattr(TableCoder, "encode_rows", encoded)
    assert client.post("/predict", {"rows": [ROW | {"town": "x" * 100_000}]}).status == 200
    assert threads == ["scoring"]


EXAMPLES = 40  # for each address


def test_schemathesis_finds_no_server_error(client: Client) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    described = client.get("/openapi.json").json
    asked = {path: {"post": methods["post"]} for path, methods in described["paths"].items() if "post" in methods}
    described["paths"] = asked  # the others take nothing
    schema = schemathesis.openapi.from_dict(described)
    base = client.server.address
    statuses: list[int] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            strategy = operation.as_strategy(generation_mode=mode)

            @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=strategy)
            def one(case: object) -> None:
                answer = case.call(base_url=base, timeout=30)  # type: ignore[attr-defined]
                statuses.append(answer.status_code)
                assert answer.status_code < 500, answer.text
                if answer.status_code >= 400:
                    assert set(answer.json()) == {"error"}
                    assert answer.json()["error"]

            one()
    assert len(statuses) > 200
    assert {200, 400} <= set(statuses)
    assert client.get("/health").status == 200
