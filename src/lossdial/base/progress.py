"""What a person sees while waiting."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["ProgressBar"]


class ProgressBar:
    """A bar on the terminal's error stream that appears once the wait exceeds ``delay`` seconds.

    Nothing is drawn where the stream is not a terminal, nor when ``enabled`` is false; ``advance`` then costs
    a comparison.
    """

    def __init__(self, text: str, total: int, enabled: bool = True, delay: float = 1.0) -> None:
        console = Console(stderr=True)
        self._next = time.monotonic() + delay if enabled and console.is_terminal else float("inf")
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
        if time.monotonic() < self._next:
            return
        self._progress.start()  # harmless when it runs already
        self._next = time.monotonic() + 0.1
        shown = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        self._progress.update(self._task, completed=done, values=shown)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress.live.is_started:
            self._progress.update(self._task, completed=self._done)
            self._progress.stop()
