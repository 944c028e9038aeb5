"""Who may ask, how much may be sent, and how long it may take."""

import base64
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lossdial.base.errors import InputError
from lossdial.serve import Limits
from tests.serve.conftest import Client, Serving, as_json, inputs

ROWS = as_json(inputs(3, 3))
TOKEN = "a-token-of-some-length"
POST = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def raw(port: int, data: bytes, seconds: float = 20.0) -> bytes:
    """What comes back for bytes on a socket, until the server closes it."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_token_opens_and_nothing_else_does(serving: Serving) -> None:
    client = serving(token=TOKEN)
    without = client.post("/predict", {"rows": ROWS})
    assert without.status == 401
    assert "Authorization: Bearer" in without.error
    assert without.headers["www-authenticate"].startswith("Basic")
    for wrong in ("Bearer nonsense", f"Bearer {TOKEN}x", "Bearer", f"Digest {TOKEN}", "Basic !!", "Bearer \u00fc"):
        answer = client.post("/predict", {"rows": ROWS}, Authorization=wrong)
        assert (answer.status, answer.error) == (403, "the token is wrong.")
    assert client.post("/predict", {"rows": ROWS}, Authorization=f"Bearer {TOKEN}").status == 200
    browser = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    assert client.get("/docs", Authorization=f"Basic {browser}").status == 200
    statuses = [client.get(path).status for path in ("/health", "/ready", "/metrics", "/", "/points")]
    assert statuses == [200, 200, 401, 401, 401]


OWN = ["127.0.0.1", "127.8.9.1:80", "localhost", "localhost:1", "LOCALHOST", "[::1]", "[::1]:8000"]
OTHERS = """evil.example|127.0.0.1.evil.example|127.evil|localhost.evil|127.0.0.1@evil|evil:127.0.0.1|[::1|[::1]x|[::2]
::1|0.0.0.0|[127.0.0.1.evil]|127.0.0.1:80:80|127.0.0.1, evil||evil#127.0.0.1|10.0.0.1|localhost.|127.0.0.1.|127.1
2130706433|0x7f.1|[::ffff:8.8.8.8]|[::1%25x]"""
ORIGINS = "http://evil.example|http://[|null||http://[::1|127.0.0.1|http://evil@localhost|//|\u00ff"


def test_other_names_and_other_sites_are_refused(client: Client) -> None:
    assert [client.get("/points", Host=host).status for host in OWN] == [200] * len(OWN)
    for host in (host for line in OTHERS.splitlines() for host in line.split("|")):
        answer = client.get("/points", Host=host)
        assert (answer.status, "answers to localhost only" in answer.error) == (403, True), host
    for origin in ORIGINS.split("|"):
        answer = client.get("/points", Host="localhost", Origin=origin)
        assert (answer.status, "a page of another site" in answer.error) == (403, True), origin
    for host in (f"127.0.0.1:{client.server.port}", "LOCALHOST"):
        assert client.get("/points", Host=host, Origin=f"http://{host.lower()}").status == 200


def test_a_large_body_is_refused_unread(serving: Serving) -> None:
    client = serving(limits=Limits(body=100_000))
    announced = POST + b"Content-Length: 1000000000\r\n"
    chunk = b"2710\r\n" + b" " * 10_000 + b"\r\n"
    started = time.perf_counter()
    for sent in (
        announced + b"\r\n" + b"x" * 300_000,
        announced + b"Expect: 100-continue\r\n\r\n",  # and no 100 before the refusal
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 20,
    ):
        found = raw(client.server.port, sent)
        assert found.startswith(b"HTTP/1.1 413")
        assert b"at most 100,000 bytes are taken" in found
    assert time.perf_counter() - started < 20
    assert client.post("/predict", {"rows": ROWS}).status == 200


def test_a_full_queue_is_said(serving: Serving) -> None:
    client = serving(limits=Limits(rows=400, queue=400))
    rows = as_json(inputs(300, 4))
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: client.post("/predict", {"rows": rows}), range(60)))
    refused = [answer for answer in answers if answer.status == 503]
    assert {answer.status for answer in answers} == {200, 503}
    assert all("rows are waiting already, of at most 400" in answer.error for answer in refused)
    assert refused[0].headers["retry-after"] == "1"
    assert client.post("/predict", {"rows": rows}).status == 200


def test_slow_bodies_and_too_many_connections_are_refused(serving: Serving) -> None:
    client = serving(limits=Limits(seconds=1.0))
    answer = raw(client.server.port, POST + b"Content-Length: 90\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"the body did not arrive within 1 s." in answer
    client = serving(limits=Limits(connections=2))
    held = [socket.create_connection(("127.0.0.1", client.server.port)) for _ in range(2)]
    time.sleep(0.3)
    try:
        assert client.get("/health").status == 503
    finally:
        for connection in held:
            connection.close()


@pytest.mark.parametrize("name", ["body", "rows", "queue", "seconds", "connections"])
def test_a_limit_is_positive(name: str) -> None:
    with pytest.raises(InputError) as raised:
        Limits(**{name: 0})
    assert (raised.value.argument, raised.value.got) == (name, "0")


def test_a_malformed_host_is_no_failure_of_ours(serving: Serving) -> None:
    """With a token no name is looked at, but the framework makes an address of it for a redirect, or a message."""
    client = serving(token=TOKEN)
    for host in ("[", "http://[", "a b", "evil.example"):
        answer = client.get("/points/", Host=host, Authorization=f"Bearer {TOKEN}")
        assert answer.status in (400, 404), (host, answer)


def test_bodies_count_until_they_are_answered(serving: Serving) -> None:
    """What waits to be scored is held in memory, too."""
    client = serving(limits=Limits(body=100_000, rows=2_000))
    body = json.dumps({"rows": ROWS + [ROWS[0]] * 700})
    assert 60_000 < len(body) < 100_000
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: client.post("/predict", body), range(120)))
    assert {answer.status for answer in answers} == {200, 503}
    assert any("too many large bodies at once" in answer.error for answer in answers if answer.status == 503)
    assert client.post("/predict", body).status == 200


def test_what_takes_too_long_is_given_up(serving: Serving) -> None:
    """Requests behind a slow pass get a 503 in time, and others are answered meanwhile."""
    client = serving(limits=Limits(seconds=1.0))
    batcher, passed = client.server.service.batcher, threading.Event()
    slow = batcher._pool.submit(passed.wait, 30)  # the one thread that scores is busy
    rows = as_json(inputs(300, 4))
    try:
        with ThreadPoolExecutor(5) as pool:
            waiting = [pool.submit(client.post, "/predict", {"rows": rows}) for _ in range(5)]
            while not all(request.done() for request in waiting):
                started = time.perf_counter()
                assert client.get("/health").status == 200
                assert time.perf_counter() - started < 5
                time.sleep(0.05)
        answers = [request.result() for request in waiting]
    finally:
        passed.set()
        slow.result()
    assert {answer.status for answer in answers} == {503}
    assert "there was no answer within 1 s" in answers[0].error
    assert answers[0].headers["retry-after"] == "1"
    assert batcher.rows == 0
    assert client.post("/predict", {"rows": rows}).status == 200


ASK = "async ([path, options]) => { const r = await fetch(path, options); return [r.status, await r.text()] }"


@pytest.mark.parametrize("name", ["127.0.0.1.attacker.example", "localhost.attacker.example", "127.attacker.example"])
def test_a_name_that_was_made_to_point_here_reads_and_writes_nothing(browser, serving, fitted, name):
    client = serving(allow_save=True)
    before = client.get("/points").body
    point = fitted.points["tuned"].to_json() | {"name": "default"}
    body = json.dumps({"format": "lossdial points 1", "points": [point]})
    post = {"method": "POST", "body": body, "headers": {"Content-Type": "application/json"}}
    page = browser.new_page()
    try:
        page.goto(f"http://{name}:{client.server.port}/health")  # whatever is answered, the page's origin is the name
        read = page.evaluate(ASK, ["/points", {}])
        written = page.evaluate(ASK, ["/points?replace=true", post])
        assert [read[0], written[0]] == [403, 403]
        assert "this server answers to localhost only" in read[1]
        page.goto(f"http://127.0.0.1:{client.server.port}/health")
        assert page.evaluate(ASK, ["/points", {}])[0] == 200
        assert page.evaluate(ASK, ["/points", post])[0] == 409  # there is another default already
    finally:
        page.close()
    assert client.get("/points").body == before
