"""Requests that wait are scored in one pass of the network.

A row's score does not depend on the rows that are scored with it (the predictor pads a table's rows and computes from λ
on in float64), so nobody can tell. Images, whose first layers promise no such thing, are passed request by request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lossdial.bundle.predictor import Predictor
from lossdial.serve.choosing import Chosen
from lossdial.serve.inputs import Encoded, Inputs
from lossdial.serve.limits import Limits, Refused

__all__ = ["Batcher", "Decided"]

_PASS: Final = 1024  # rows of one pass that several requests share


@dataclass(frozen=True, eq=False)
class Decided:
    """Of one request's rows (n,): score, probability of the positive class, whether it is predicted, or what a referral
    band says; and notes."""

    score: NDArray[np.float32]
    probability: NDArray[np.floating[Any]]
    decision: NDArray[np.bool_] | NDArray[np.str_]
    notes: tuple[str, ...]


@dataclass(eq=False)
class _Job:
    predictor: Predictor
    chosen: Chosen
    inputs: Inputs
    future: asyncio.Future[Decided]
    encoded: Encoded | None = None
    outcome: Decided | Exception | None = None


class Batcher:
    """Two lanes: rows that take less than waking a thread are passed on the event loop, at its next turn; the rest in
    one thread. What arrives while a pass runs shares the next one."""

    def __init__(self, limits: Limits, seen: Callable[[int], None]) -> None:
        self._limits, self._seen = limits, seen
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._quick: list[_Job] = []
        self._slow: list[_Job] = []
        self._busy = False
        self._passing: asyncio.Task[None] | None = None
        self.rows = 0  # waited for now
        self.closing = False

    async def decide(self, predictor: Predictor, chosen: Chosen, inputs: Inputs) -> Decided:
        """What the point says of the rows; 503 where too many wait already."""
        if self.closing:
            raise Refused(503, "the server is shutting down.", {"Retry-After": "5"})
        if self.rows and self.rows + inputs.n > self._limits.queue:
            raise Refused(
                503,
                f"{self.rows:,} rows are waiting already, of at most {self._limits.queue:,}; try again in a moment.",
                {"Retry-After": "1"},
            )
        loop = asyncio.get_running_loop()
        job = _Job(predictor, chosen, inputs, loop.create_future())
        if inputs.quick:
            job.encoded = inputs.encode()  # a mistake in the rows is told at once
        self.rows += inputs.n
        try:
            if inputs.quick:
                self._quick.append(job)
                if len(self._quick) == 1:
                    loop.call_soon(self._pass_quick)
            else:
                self._slow.append(job)
                if not self._busy:
                    self._busy = True
                    self._passing = loop.create_task(self._pass_slow())
            async with asyncio.timeout(self._limits.seconds):
                return await job.future
        except TimeoutError:
            text = f"there was no answer within {self._limits.seconds:g} s; send fewer at once, or try again later."
            raise Refused(503, text, {"Retry-After": "5"}) from None
        finally:
            self.rows -= inputs.n

    def _pass_quick(self) -> None:
        """One turn of the loop after the first came. To wait longer for company costs more than it gains: clients and
        server then take turns where they could work at once."""
        jobs, self._quick = self._quick, []
        for start in range(0, len(jobs), _PASS // 64):
            part = jobs[start : start + _PASS // 64]
            _score(part)
            self._settle(part)

    async def _pass_slow(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._slow:
                jobs = _taken(self._slow)
                self._slow = self._slow[len(jobs) :]
                await loop.run_in_executor(self._pool, _score, jobs)
                self._settle(jobs)
        finally:
            self._busy = False

    def _settle(self, jobs: Sequence[_Job]) -> None:
        self._seen(sum(job.inputs.n for job in jobs))
        for job in jobs:
            if job.future.cancelled():
                continue
            if isinstance(job.outcome, Decided):
                job.future.set_result(job.outcome)
            else:
                job.future.set_exception(job.outcome or RuntimeError("no outcome"))

    def close(self) -> None:
        """Wait for the pass that runs."""
        self._pool.shutdown(wait=True)


def _taken(jobs: Sequence[_Job]) -> list[_Job]:
    """The first jobs that one pass takes: one of images, or several of rows."""
    total, count = 0, 0
    for job in jobs:
        total += job.inputs.n
        if count and (job.inputs.alone or jobs[0].inputs.alone or total > _PASS):
            break
        count += 1
    return list(jobs[:count])


def _score(jobs: Sequence[_Job]) -> None:
    """Encode what is not yet, then pass together what has one network; a job's error is its own."""
    groups: dict[int, list[_Job]] = {}
    for job in jobs:
        if job.future.cancelled():  # nobody waits for it any more
            continue
        try:
            job.encoded = job.encoded or job.inputs.encode()
        except Exception as error:
            job.outcome = error
            continue
        groups.setdefault(id(job.predictor), []).append(job)
    for group in groups.values():
        try:
            _decide(group)
        except Exception as error:
            for job in group:
                job.outcome = error


def _decide(jobs: Sequence[_Job]) -> None:
    predictor = jobs[0].predictor
    matrices = [job.encoded.matrix for job in jobs if job.encoded is not None]
    features = predictor.embed(matrices[0] if len(matrices) == 1 else np.concatenate(matrices))
    ends = np.cumsum([len(matrix) for matrix in matrices])
    rows = [slice(int(end) - len(matrix), int(end)) for matrix, end in zip(matrices, ends, strict=True)]
    by_point: dict[int, list[int]] = {}
    for i, job in enumerate(jobs):
        by_point.setdefault(id(job.chosen), []).append(i)
    for indices in by_point.values():
        chosen = jobs[indices[0]].chosen
        whole = len(indices) == len(jobs)
        part = (
            features if whole else features[np.concatenate([np.arange(rows[i].start, rows[i].stop) for i in indices])]
        )
        decision: NDArray[np.bool_] | NDArray[np.str_]
        if chosen.band is not None:
            referred = predictor.refer(part, chosen.band, chosen.folded)
            margin, probability, decision = referred.margin, referred.probability, referred.action
        else:
            decided = predictor.decide(part, chosen.point, folded=chosen.folded)
            margin, probability, decision = decided.margin, decided.probability, decided.positive
        start = 0
        for i in indices:
            here = slice(start, start + len(matrices[i]))
            start = here.stop
            notes = (*chosen.notes, *(jobs[i].encoded or Encoded(matrices[i])).notes)
            jobs[i].outcome = Decided(margin[here], probability[here], decision[here], notes)
