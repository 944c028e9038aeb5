"""Who may ask, how much may be sent, and how long it may take."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lossdial.serve import Limits
from tests.serve.conftest import Client, Serving, as_json, inputs

ROWS = as_json(inputs(3, 3))
TOKEN = "a-token-of-some-length"
POST = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def raw(port: int, data: bytes, seconds: float = 20.0) -> bytes:
    """What comes back for bytes on a socket, until the server closes it."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(data)
        return rest(connection)


def rest(connection: socket.socket) -> bytes:
    found = b""
    while chunk := connection.recv(65536):
        found += chunk
    return found


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
    assert [client.get(path).status for path in ("/health", "/ready", "/metrics", "/", "/points")] == [
        200,
        200,
        401,
        401,
        401,
    ]


def test_other_names_and_other_sites_are_refused(serving: Serving) -> None:
    client = serving()
    assert client.get("/points", Host="evil.example").status == 403
    assert client.get("/points", Host="localhost:99").status == 200
    assert client.get("/points", Origin="http://evil.example").status == 403
    own = f"127.0.0.1:{client.server.port}"
    assert client.get("/points", Host=own, Origin=f"http://{own}").status == 200
    assert client.get("/points", Host="LOCALHOST", Origin="http://localhost").status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1:80", "localhost", "localhost:1", "[::1]", "[::1]:8000"])
def test_this_machine_s_own_names_are_answered(client: Client, host: str) -> None:
    assert client.get("/points", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1.evil.example",
        "127.evil",
        "localhost.evil",
        "127.0.0.1@evil",
        "evil:127.0.0.1",
        "[::1",
        "[::1]x",
        "[::2]",
        "::1",
        "[127.0.0.1.evil]",
        "0.0.0.0",
        "127.0.0.1:80:80",
        "127.0.0.1, evil",
        "",
        "evil#127.0.0.1",
        "10.0.0.1",
    ],
)
def test_no_other_name_is(client: Client, host: str) -> None:
    answer = client.get("/points", Host=host)
    assert (answer.status, "answers to localhost only" in answer.error) == (403, True)


@pytest.mark.parametrize(
    "origin", ["http://[", "null", "", "http://[::1", "127.0.0.1", "http://evil@localhost", "//", "\u00ff"]
)
def test_a_malformed_origin_is_another_site(client: Client, origin: str) -> None:
    answer = client.get("/points", Host="localhost", Origin=origin)
    assert (answer.status, "a page of another site" in answer.error) == (403, True)


def test_a_gigabyte_is_refused_unread(serving: Serving) -> None:
    client = serving(limits=Limits(body=100_000))
    head = POST
    started = time.perf_counter()
    found = raw(client.server.port, head + b"Content-Length: 1000000000\r\n\r\n" + b"x" * 300_000)
    assert found.startswith(b"HTTP/1.1 413")
    assert b"at most 100,000 bytes are taken" in found
    assert time.perf_counter() - started < 10
    waiting = raw(client.server.port, head + b"Content-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n")
    assert waiting.startswith(b"HTTP/1.1 413")  # and no 100 before it


def test_a_stream_without_end_is_refused_while_it_is_read(serving: Serving) -> None:
    client = serving(limits=Limits(body=100_000))
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"2710\r\n" + b" " * 10_000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", client.server.port), timeout=20) as connection:
        connection.sendall(head + chunk * 20)
        found = rest(connection)
    assert found.startswith(b"HTTP/1.1 413")
    assert client.post("/predict", {"rows": ROWS}).status == 200


def test_slow_clients_are_not_waited_for(serving: Serving) -> None:
    client = serving(limits=Limits(seconds=1.0))
    port = client.server.port
    silent = b""
    half_a_head = b"POST /predict HTTP/1.1\r\nHost: loc"
    half_a_body = (
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{"
    )
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda data: raw(port, data), (silent, half_a_head, half_a_body)))
    assert found[0].startswith(b"HTTP/1.1 408")
    assert found[1].startswith(b"HTTP/1.1 408")
    assert b"no complete request came within 1 s." in found[1]
    assert found[2].startswith(b"HTTP/1.1 408")
    assert b"the body did not arrive within 1 s." in found[2]


def test_a_client_that_does_not_read_is_dropped(serving: Serving) -> None:
    client = serving(limits=Limits(seconds=1.0))
    client.get("/")  # the page is made
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", client.server.port))
        connection.sendall(request * 50)  # some ten megabytes of answers
        deadline = time.monotonic() + 15
        while client.server._uvicorn.server_state.connections and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not client.server._uvicorn.server_state.connections


def test_what_is_not_http_is_told_in_our_form(serving: Serving) -> None:
    found = raw(serving().server.port, b"hello\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 400")
    assert json.loads(found.partition(b"\r\n\r\n")[2]) == {"error": "this is not HTTP/1.1, or its head is too long."}
    assert raw(serving().server.port, b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n").startswith(
        b"HTTP/1.1 400"
    )


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


def test_too_many_connections_are_told(serving: Serving) -> None:
    client = serving(limits=Limits(connections=2))
    held = [socket.create_connection(("127.0.0.1", client.server.port)) for _ in range(2)]
    time.sleep(0.3)
    try:
        assert raw(client.server.port, b"").startswith(b"HTTP/1.1 503")
    finally:
        for connection in held:
            connection.close()


@pytest.mark.parametrize("name", ["body", "rows", "queue", "seconds", "connections"])
def test_a_limit_is_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be greater than 0; got 0"):
        Limits(**{name: 0})


@pytest.mark.parametrize(
    "host", ["localhost.", "127.0.0.1.", "127.1", "2130706433", "0x7f.1", "[::ffff:8.8.8.8]", "[::1%25x]"]
)
def test_odd_spellings_are_other_names(client: Client, host: str) -> None:
    assert client.get("/points", Host=host).status == 403


@pytest.mark.parametrize("path", ["/points/", "/nowhere"])
def test_a_malformed_host_is_no_failure_of_ours(serving: Serving, path: str) -> None:
    """With a token no name is looked at, but the framework made an address of it for a redirect, or a message."""
    client = serving(token=TOKEN)
    for host in ("[", "http://[", "a b", "evil.example"):
        answer = client.get(path, Host=host, Authorization=f"Bearer {TOKEN}")
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
    assert answers[0].headers["retry-after"] == "5"
    assert batcher.rows == 0
    assert client.post("/predict", {"rows": rows}).status == 200
