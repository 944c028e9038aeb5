"""Requests that wait are scored in one pass of the network.

A row's score does not depend on the rows that are scored with it: the predictor pads a table's rows, and computes in
float64 from λ on. Images, whose first layers give no such guarantee, are passed request by request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lossdial.serve.choices import Choice
from lossdial.serve.guard import Limits, Refused
from lossdial.serve.rows import Encoded, Inputs

_PASS: Final = 1024  # rows of one pass that several requests share
_QUICK_JOBS: Final = 16


@dataclass(frozen=True, eq=False)
class Decided:
    """One request's rows (n,): score, probability of the positive class, decision, and notes.

    A decision is whether the positive class is predicted; for a referral band it is clear, refer or act.
    """

    score: NDArray[np.float32]
    probability: NDArray[np.floating[Any]]
    decision: NDArray[np.bool_] | NDArray[np.str_]
    notes: tuple[str, ...]


@dataclass(eq=False)
class _Job:
    choice: Choice
    inputs: Inputs
    future: asyncio.Future[Decided]
    encoded: Encoded | None = None
    outcome: Decided | Exception | None = None


class Batcher:
    """Scores the rows of requests in two lanes.

    Rows that take less time than waking a thread are scored on the event loop at its next turn, the others in one
    thread. Requests that arrive during a pass share the next one.
    """

    def __init__(self, limits: Limits, passed: Callable[[int], None]) -> None:
        self._limits, self._passed = limits, passed
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._quick: list[_Job] = []
        self._slow: list[_Job] = []
        self._task: asyncio.Task[None] | None = None
        self.rows = 0  # that wait now

    async def decide(self, choice: Choice, inputs: Inputs) -> Decided:
        """What the point says of the rows; refused with 503 where too many wait already."""
        most = self._limits.queue
        if self.rows and self.rows + inputs.n > most:
            raise Refused(503, f"{self.rows:,} rows are waiting already, of at most {most:,}; try again in a moment.")
        loop = asyncio.get_running_loop()
        job = _Job(choice, inputs, loop.create_future())
        if inputs.quick:
            job.encoded = inputs.encode()  # so that a mistake in the rows is an error of this request alone
        self.rows += inputs.n
        try:
            if inputs.quick:
                self._quick.append(job)
                if len(self._quick) == 1:
                    loop.call_soon(self._pass_quick)
                return await job.future
            self._slow.append(job)
            if self._task is None:
                self._task = loop.create_task(self._pass_slow())
            async with asyncio.timeout(self._limits.seconds):
                return await job.future
        except TimeoutError:
            text = f"there was no answer within {self._limits.seconds:g} s; send fewer at once, or try again later."
            raise Refused(503, text) from None
        finally:
            self.rows -= inputs.n

    def close(self) -> None:
        """Wait for the pass that runs."""
        self._pool.shutdown(wait=True)

    def _pass_quick(self) -> None:
        """Pass one turn of the loop after the first request came; to wait longer costs more than it gains."""
        jobs, self._quick = self._quick, []
        for start in range(0, len(jobs), _QUICK_JOBS):
            batch = jobs[start : start + _QUICK_JOBS]
            _score(batch)
            self._settle(batch)

    async def _pass_slow(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._slow:
                batch = _next_batch(self._slow)
                self._slow = self._slow[len(batch) :]
                await loop.run_in_executor(self._pool, _score, batch)
                self._settle(batch)
        finally:
            self._task = None

    def _settle(self, jobs: Sequence[_Job]) -> None:
        self._passed(sum(job.inputs.n for job in jobs))
        for job in jobs:
            if job.future.cancelled():
                continue
            if isinstance(job.outcome, Decided):
                job.future.set_result(job.outcome)
            else:
                job.future.set_exception(job.outcome or RuntimeError("no outcome"))


def _next_batch(jobs: Sequence[_Job]) -> list[_Job]:
    """The first jobs that one pass takes: one of images, or several of rows."""
    rows, count = 0, 0
    for job in jobs:
        rows += job.inputs.n
        if count and (job.inputs.alone or jobs[0].inputs.alone or rows > _PASS):
            break
        count += 1
    return list(jobs[:count])


def _score(jobs: Sequence[_Job]) -> None:
    """Encode what is not encoded yet, then pass together the jobs of one choice; an error stays with its job."""
    groups: dict[int, list[_Job]] = {}
    for job in jobs:
        if job.future.cancelled():  # nobody waits for it any more
            continue
        try:
            job.encoded = job.encoded or job.inputs.encode()
        except Exception as error:
            job.outcome = error
        else:
            groups.setdefault(id(job.choice), []).append(job)
    for group in groups.values():
        try:
            _decide(group[0].choice, group, [job.encoded for job in group if job.encoded])
        except Exception as error:
            for job in group:
                job.outcome = error


def _decide(choice: Choice, jobs: Sequence[_Job], encoded: Sequence[Encoded]) -> None:
    """Decide the rows of all jobs at once."""
    matrices = [matrix for matrix, _ in encoded]
    features = choice.predictor.embed(matrices[0] if len(jobs) == 1 else np.concatenate(matrices))
    decided = choice.predictor.decide(features, choice.point, folded=choice.folded)
    decision = decided.positive if decided.action is None else decided.action
    start = 0
    for job, (matrix, notes) in zip(jobs, encoded, strict=True):
        own = slice(start, start := start + len(matrix))
        answers = decided.margin[own], decided.probability[own], decision[own]
        job.outcome = Decided(*answers, (*choice.notes, *notes))
