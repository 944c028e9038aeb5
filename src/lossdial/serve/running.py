"""A server on a socket: bound before anything else is done, and stopped when all that it took is answered."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from lossdial.dial import OperatingPoint
from lossdial.serve.app import Service
from lossdial.serve.guarding import is_loopback
from lossdial.serve.limits import Limits
from lossdial.serve.live import Live, PageOf
from lossdial.serve.patience import protocol

__all__ = ["Server", "serve"]

_SHORTEST = 16


@dataclass(eq=False)
class Server:
    """A model at an address of this machine, or, with a token, of any.

    run: the folder of a bundle. page_of: the explorer page of a state of it.
    others: points of another model, for its scores at /decide. score_is: of each whose file says so, whether those are
    a "probability" or a "margin". allow_save: whether points may be written there.
    """

    run: Path
    page_of: PageOf
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    allow_save: bool = False
    limits: Limits = field(default_factory=Limits)
    others: Mapping[str, OperatingPoint] = field(default_factory=dict)
    score_is: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise ValueError(f"host {self.host} is open to others: that needs a token. Without one, use 127.0.0.1.")
        if self.token is not None and (len(self.token) < _SHORTEST or not self.token.isascii()):
            raise ValueError(f"the token must have {_SHORTEST} characters of ASCII or more.")
        self.live = Live(Path(self.run), self.limits, self.others, self.score_is)
        self.service = Service(self.live, self.limits, self.page_of, self.token, self.allow_save)
        self._socket = _bound(self.host, self.port)
        self.port = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self.service.app(),
            http=protocol(self.limits),
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nothing here asks who a proxy says it is
            timeout_keep_alive=max(1, int(self.limits.seconds)),
            timeout_graceful_shutdown=max(1, int(self.limits.seconds)),
            backlog=min(2048, self.limits.connections),
        )
        self._uvicorn = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def run_until_stopped(self) -> None:
        """Answer until a signal, or `stop`; what was taken by then is answered."""
        try:
            self._uvicorn.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Take no more, answer what was taken, and end."""
        self._uvicorn.should_exit = True

    def in_background(self) -> threading.Thread:
        """Run in a thread, as tests and notebooks want it; returns once it answers."""
        thread = threading.Thread(target=self.run_until_stopped, daemon=True)
        thread.start()
        while not self._uvicorn.started and thread.is_alive():
            thread.join(0.01)
        return thread


def serve(server: Server, announce: Callable[[str], None] = print) -> None:
    """Run a server, saying where."""
    announce(f"{server.address} answers; {server.address}/docs says what to. Ctrl-C ends it.")
    with suppress(KeyboardInterrupt):  # uvicorn raises it again once all is answered
        server.run_until_stopped()
    announce("stopped; what was taken is answered.")


def _bound(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ValueError(f"port must lie in [0, 65535]; got {port}.")
    # With the protocol named, for asyncio to send small answers at once (TCP_NODELAY).
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen()  # who asks from now on is answered, as soon as the rest is up
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} of {host} is in use; choose another, or port=0 for a free one.") from None
        raise ValueError(f"{host}:{port} cannot be used: {error.strerror}.") from None
    return found
