"""Connections that are waited for only so long: HTTP by uvicorn, with an eye on slow and on greedy clients."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from lossdial.serve.guarding import error_body
from lossdial.serve.limits import Limits

__all__ = ["protocol"]


def protocol(limits: Limits) -> type[H11Protocol]:
    """uvicorn's protocol, which waits for headers and for a reader no longer than the limit says."""

    class Patient(H11Protocol):
        _tick: asyncio.TimerHandle | None = None
        _silent = False  # since the last look, no request was complete
        _unread = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._say(503, f"{limits.connections:,} connections are open already; try again in a moment.")
                return
            self._look_later()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._tick is not None:
                self._tick.cancel()
            super().connection_lost(exc)

        def _look_later(self) -> None:
            self._tick = self.loop.call_later(limits.seconds, self._look)

        def _look(self) -> None:
            """Every so many seconds: is a request's head still not complete, or does nobody take the answer?"""
            if self.transport.is_closing():
                return
            unread = self.transport.get_write_buffer_size()
            if unread and unread == self._unread:
                self.transport.abort()
                return
            waiting = self.cycle is None or self.cycle.response_complete
            if waiting and self._silent and self.timeout_keep_alive_task is None and not unread:
                self._say(408, f"no complete request came within {limits.seconds:g} s.")
                return
            self._silent, self._unread = waiting, unread
            self._look_later()

        def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's own words are not ours)
            self._say(400, "this is not HTTP/1.1, or its head is too long.")

        def _say(self, status: int, text: str) -> None:
            """One answer in our form, and the end of the connection."""
            body = error_body(text)
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                reason = {400: b"Bad Request", 408: b"Request Timeout"}.get(status, b"Service Unavailable")
                output = [
                    self.conn.send(h11.Response(status_code=status, headers=headers, reason=reason)),
                    self.conn.send(h11.Data(data=body)),
                    self.conn.send(h11.EndOfMessage()),
                ]
                self.transport.write(b"".join(part for part in output if part))
            self.transport.close()

    return Patient
