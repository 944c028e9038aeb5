"""A server on a socket, and how it starts and ends."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from lossdial.base.errors import InputError
from lossdial.dial import OperatingPoint
from lossdial.serve.app import Service
from lossdial.serve.guard import Limits, is_loopback
from lossdial.serve.live import Live, PageOf

_SHORTEST = 16  # characters of a token


@dataclass(eq=False)
class Server:
    """A model at an address of this machine, or, with a token, of any.

    Parameters
    ----------
    run : Path
        The folder of a bundle.
    page_of : Callable[[Bundle], Page]
        Makes the explorer page of a state of that bundle.
    host, port : str, int
        Where to answer; port 0 takes a free one.
    token : str, optional
        What every request must bear; 16 characters or more.
    allow_save : bool
        Whether points and the states of monitors may be written into the folder.
    limits : Limits
        What a client can make the server hold or wait for.
    others : Mapping[str, OperatingPoint]
        Points of another model, for its scores at /decide.
    score_is : Mapping[str, str]
        For each of these whose file says so: whether its scores are a "probability" or a "margin".

    Examples
    --------
    >>> from lossdial.explorer import explore
    >>> server = Server("run", lambda bundle: explore(bundle.held_out()), port=0)  # doctest: +SKIP
    >>> server.run_until_stopped(print)  # doctest: +SKIP
    http://127.0.0.1:46123 answers; http://127.0.0.1:46123/docs says what to. Ctrl-C ends it.
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
            remedy = "Without a token, use 127.0.0.1."
            raise InputError("host", "is open to others, which needs a token", got=self.host, remedy=remedy)
        if self.token is not None and (len(self.token) < _SHORTEST or not self.token.isascii()):
            raise InputError("token", f"must have {_SHORTEST} characters of ASCII or more")
        self.live = Live(Path(self.run), self.limits, self.others, self.score_is)
        self.service = Service(self.live, self.limits, self.page_of, self.token, self.allow_save)
        self._socket = _bound(self.host, self.port)
        self.port = self._socket.getsockname()[1]
        seconds = max(1, int(self.limits.seconds))
        config = uvicorn.Config(
            self.service.app(),
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nothing here asks for the client's address
            limit_concurrency=self.limits.connections + 1,
            timeout_keep_alive=seconds,
            timeout_graceful_shutdown=seconds,
            backlog=min(2048, self.limits.connections),
        )
        self._uvicorn = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def run_until_stopped(self, announce: Callable[[str], None] | None = None) -> None:
        """Answer until a signal, or `stop`; requests that were accepted by then are answered.

        `announce` gets a line when the server answers, and one when it has ended.
        """
        say = announce or str
        say(f"{self.address} answers; {self.address}/docs says what to. Ctrl-C ends it.")
        with self._socket, suppress(KeyboardInterrupt):  # uvicorn raises it again once all is answered
            self._uvicorn.run(sockets=[self._socket])
        say("stopped; all accepted requests are answered.")

    def stop(self) -> None:
        """Accept no more requests, answer those that were accepted, and end."""
        self._uvicorn.should_exit = True

    def in_background(self) -> threading.Thread:
        """Run in a thread, for tests and notebooks; returns once it answers."""
        thread = threading.Thread(target=self.run_until_stopped, daemon=True)
        thread.start()
        while not self._uvicorn.started and thread.is_alive():
            thread.join(0.01)
        return thread


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket: who asks from now on is answered as soon as the rest has started."""
    if not 0 <= port <= 65535:
        raise InputError("port", "must lie in [0, 65535]", got=port)
    try:
        bound = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            remedy = "Choose another, or {port=0} for a free one."
            raise InputError("port", f"of {host} is in use", got=port, remedy=remedy) from None
        raise InputError("host", f"cannot be used ({error.strerror})", got=f"{host}:{port}") from None
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small answers go out at once
    return bound
