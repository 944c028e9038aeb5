"""What a person sees while waiting."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_FIRST: Final = 5.0  # seconds until the first line in a log,
_EVERY: Final = 30.0  # and from one to the next


class ProgressBar:
    """A bar on the terminal's error stream that appears once the wait exceeds ``delay`` seconds.

    Where the stream is no terminal, such as a log, it gets a line now and then. Nothing is shown when ``enabled`` is
    false; ``advance`` then costs a comparison.
    """

    def __init__(self, text: str, total: int, enabled: bool = True, delay: float = 1.0) -> None:
        console = Console(stderr=True)
        self._started = time.monotonic()
        self._in_log = not console.is_terminal
        self._next = self._started + max(delay, _FIRST * self._in_log) if enabled else float("inf")
        self._done = 0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._progress.add_task(text, total=total, values="")

    def __enter__(self) -> Self:
        return self

    def advance(self, done: int, values: Mapping[str, float]) -> None:
        """``done`` of the total is finished; ``values`` are shown beside the bar."""
        self._done = done
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_EVERY if self._in_log else 0.1)
        shown = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        if self._in_log:
            task = self._progress.tasks[self._task]
            line = f"{task.description}: {done:,} of {task.total:,.0f} after {now - self._started:.0f} s  {shown}"
            self._progress.console.print(line.rstrip(), soft_wrap=True, markup=False, highlight=False)
            return
        self._progress.start()  # harmless when it runs already
        self._progress.update(self._task, completed=done, values=shown)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress.live.is_started:
            self._progress.update(self._task, completed=self._done)
            self._progress.stop()
