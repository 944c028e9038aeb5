"""What stands before the application: who may ask, how much may be sent, and errors in one form."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any, Final

from lossdial.serve.limits import Limits, Refused, shortened

__all__ = ["Bodies", "Guard", "Receive", "Scope", "Send", "error_body", "is_loopback", "refuse"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OPEN: Final = ("/health", "/ready")  # need no token, and tell nothing
_LINGER: Final = 2.0  # seconds in which what a refused client still sends is thrown away, so that it can read why
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone: localhost, or an address that is one. No other name is, wherever it leads.

    >>> is_loopback("127.0.0.2"), is_loopback("127.0.0.1.attacker.example")
    (True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Bodies:
    """Reads bodies; those of all requests that are not answered yet are together no more than eight of the largest."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._held = limits, 0

    @asynccontextmanager
    async def read(self, receive: Receive) -> AsyncIterator[bytes]:
        """The body of a request, of the size that is taken and in time, held until it is answered."""
        parts: list[bytes] = []
        size = 0
        try:
            try:
                async with asyncio.timeout(self._limits.seconds):
                    while True:
                        message = await receive()
                        if message["type"] == "http.disconnect":
                            raise Refused(400, "the connection was closed before the body was complete.")
                        part: bytes = message.get("body", b"")
                        parts.append(part)
                        size += len(part)
                        self._held += len(part)
                        if size > self._limits.body:
                            raise too_large(self._limits)
                        if self._held > 8 * self._limits.body:
                            raise Refused(503, "too many large bodies at once; try again.", {"Retry-After": "1"})
                        if not message.get("more_body", False):
                            break
            except TimeoutError:
                text = f"the body did not arrive within {self._limits.seconds:g} s."
                raise Refused(408, text, {"Connection": "close"}) from None
            yield parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self._held -= size


def too_large(limits: Limits) -> Refused:
    """What a body beyond the limit is told."""
    text = f"the body is too large; at most {limits.body:,} bytes are taken. Send fewer rows at once."
    return Refused(413, text, {"Connection": "close"})


class Guard:
    """The outermost layer: token, host and size are looked at before anything is read; every answer is counted."""

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
        limits: Limits,
        token: str | None,
        paths: frozenset[str],
        answered: Callable[[str, int, float], None],
    ) -> None:
        self._app, self._limits, self._token, self._paths, self._answered = app, limits, token, paths, answered
        self._secret = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            self._look(scope)
            await self._app(scope, receive, counted)
        except Refused as refusal:
            if not status:
                await refuse(refusal, receive, counted)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._answered(path, status, time.perf_counter() - started)

    def _look(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"localhost").decode("latin-1").lower()
        if self._secret is not None:
            if scope["path"] not in OPEN:
                self._require_token(headers.get(b"authorization"), self._secret)
        else:
            if not is_loopback(_host(host)):  # a name that somebody made point here
                raise Refused(403, "this server answers to localhost only; another name needs a token.")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in (f"http://{host}", f"https://{host}"):
            raise Refused(403, "a page of another site may not ask this server.")
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._limits.body:
            raise too_large(self._limits)

    def _require_token(self, given: bytes | None, secret: bytes) -> None:
        if given is None:
            headers = {"WWW-Authenticate": 'Basic realm="lossdial", charset="UTF-8"'}
            raise Refused(401, "a token is needed: send the header Authorization: Bearer TOKEN.", headers)
        if not hmac.compare_digest(_token(given), secret):
            raise Refused(403, "the token is wrong.")


def _token(given: bytes) -> bytes:
    """The token of `Bearer TOKEN`, or, for browsers, the password of `Basic …`."""
    scheme, _, value = given.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except (ValueError, binascii.Error):
            return b""
    return b""


_HOST: Final = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(?::\d*)?")


def _host(header: str) -> str:
    """The host of a Host header, without its port; empty where the header is malformed."""
    found = _HOST.fullmatch(header)
    return "" if found is None else found["v6"] or found["name"]


def error_body(message: str) -> bytes:
    """Every error: an object with one message."""
    return json.dumps({"error": shortened(message)}).encode()


async def refuse(refusal: Refused, receive: Receive, send: Send) -> None:
    """Answer with a refusal."""
    body = error_body(refusal.message)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in refusal.headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    if refusal.headers.get("Connection") != "close":
        await send({"type": "http.response.body", "body": body})
        return
    # A connection that is closed while its client still sends is reset, and the message lost. So: answer first, then
    # listen a little.
    await send({"type": "http.response.body", "body": body, "more_body": True})
    try:
        async with asyncio.timeout(_LINGER):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b""})
