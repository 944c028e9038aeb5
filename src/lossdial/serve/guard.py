"""What stands before the application: who may ask, how large a request may be, and one form for every refusal."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from ipaddress import ip_address
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lossdial.base.errors import InputError

_OPEN: Final = ("/health", "/ready")  # these need no token, and reveal nothing
_LINGER: Final = 2.0  # seconds in which the rest of a refused body is read and dropped, so that its sender sees why
_LONGEST: Final = 2_000  # characters of a message
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_HOST: Final = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(?::\d*)?")


@dataclass(frozen=True)
class Limits:
    """Bounds on what a client can make a server hold or wait for.

    Parameters
    ----------
    body : int
        Bytes of one request. The bodies of all unanswered requests may have eight times as many together.
    rows : int
        Rows, images or scores of one request.
    queue : int
        Rows that wait at once.
    seconds : float
        For a body to arrive, and for its rows to be scored. An idle connection is closed after them, too.
    connections : int
        Connections that are open at once.

    Examples
    --------
    >>> Limits(rows=500).rows
    500
    """

    body: int = 10 * 2**20
    rows: int = 10_000
    queue: int = 50_000
    seconds: float = 30.0
    connections: int = 1_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise InputError(field.name, "must be greater than 0", got=value)

    def require_few(self, n: int, what: str) -> None:
        """Refuse more rows, images or scores than one request may have."""
        if n > self.rows:
            raise Refused(413, f"{n:,} {what} are too many; at most {self.rows:,} are taken at once.")


class Refused(HTTPException):
    """A refusal: an HTTP status and one plain message."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers or ({"Retry-After": "1"} if status == 503 else None))


def shortened(message: str) -> str:
    """A message of at most 2,000 characters: text that a client sent comes back in part."""
    return message if len(message) <= _LONGEST else message[:_LONGEST] + "…"


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Every error: an object with one message."""
    return Response(json.dumps({"error": shortened(message)}), status, headers, "application/json")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone: localhost, or a loopback address. No other name is, wherever it leads.

    >>> is_loopback("127.0.0.2"), is_loopback("127.0.0.1.attacker.example")
    (True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """The outermost layer. It checks token, host, origin and size before the application sees a request.

    A dependency of FastAPI would come too late: FastAPI reads the body before it asks its dependencies.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        token: str | None,
        paths: frozenset[str],
        answered: Callable[[str, int, float], None],
    ) -> None:
        self._app, self._limits, self._paths, self._answered = app, limits, paths, answered
        self._token = None if token is None else token.encode()
        self._held = 0  # bytes of bodies that are not answered yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0
        chunks: list[bytes] = []

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            try:
                self._admit(scope)
                await self._read(receive, chunks)
            except Refused as refusal:
                await _refuse(refusal, receive, counted)
            else:
                await self._app(scope, _replay(b"".join(chunks), receive), counted)
        finally:
            self._held -= sum(map(len, chunks))
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._answered(path, status, time.perf_counter() - started)

    def _admit(self, scope: Scope) -> None:
        """Refuse by the headers alone."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"localhost").decode("latin-1").lower()
        if self._token is not None:
            if scope["path"] not in _OPEN:
                self._require_token(headers.get(b"authorization"), self._token)
        elif not is_loopback(_host(host)):  # a name that somebody made to lead here
            raise Refused(403, "this server answers to localhost only; another name needs a token.")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in (f"http://{host}", f"https://{host}"):
            raise Refused(403, "a page of another site may not ask this server.")
        self._require_small(int(headers.get(b"content-length", 0)))

    def _require_token(self, header: bytes | None, token: bytes) -> None:
        if header is None:
            headers = {"WWW-Authenticate": 'Basic realm="lossdial", charset="UTF-8"'}
            raise Refused(401, "a token is needed: send the header Authorization: Bearer TOKEN.", headers)
        if not hmac.compare_digest(_sent_token(header), token):
            raise Refused(403, "the token is wrong.")

    def _require_small(self, size: int) -> None:
        most = self._limits.body
        if size > most:
            raise Refused(413, f"the body is too large; at most {most:,} bytes are taken. Send fewer rows at once.")

    async def _read(self, receive: Receive, chunks: list[bytes]) -> None:
        """Add the body to `chunks`, if it has the size that is accepted and arrives in time."""
        size, more = 0, True
        try:
            async with asyncio.timeout(self._limits.seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the connection was closed before the body was complete.")
                    chunk = message.get("body", b"")
                    more = message.get("more_body", False)
                    chunks.append(chunk)
                    size += len(chunk)
                    self._held += len(chunk)
                    self._require_small(size)
                    if self._held > 8 * self._limits.body:
                        raise Refused(503, "too many large bodies at once; try again.")
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {self._limits.seconds:g} s.") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """What gives a body that was read already, then what comes after it."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


def _sent_token(header: bytes) -> bytes:
    """The token of `Bearer TOKEN`, or, for browsers, the password of `Basic …`."""
    scheme, _, value = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        with suppress(binascii.Error):
            return base64.b64decode(value, validate=True).partition(b":")[2]
    return b""


def _host(header: str) -> str:
    """The host of a Host header, without its port; empty where the header is malformed."""
    match = _HOST.fullmatch(header)
    return "" if match is None else match["v6"] or match["name"]


async def _refuse(refusal: Refused, receive: Receive, send: Send) -> None:
    """Answer with a refusal, and close the connection.

    A connection that is closed while its client still sends is reset, and the message is lost. So the answer goes out
    first, and what still arrives is dropped for a moment.
    """
    response = error_response(refusal.status_code, refusal.detail, {"Connection": "close", **(refusal.headers or {})})
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            while (await receive()).get("more_body", False):
                pass
    await send({"type": "http.response.body", "body": b""})
