"""What a page of another site can do to a server on this machine, in a real browser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lossdial import LCTClassifier
from tests.serve.conftest import Serving

ASK = "async ([path, options]) => { const r = await fetch(path, options); return [r.status, await r.text()] }"


@pytest.mark.parametrize("name", ["127.0.0.1.attacker.example", "localhost.attacker.example", "127.attacker.example"])
def test_a_name_that_was_made_to_point_here_reads_and_writes_nothing(
    browser: Any, serving: Serving, fitted: LCTClassifier, name: str
) -> None:
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
