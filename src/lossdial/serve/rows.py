"""The rows of a request (JSON, CSV or images), encoded for the predictor's network; and their passes of it.

Requests that wait are scored in one pass. A row's score does not depend on the rows that are scored with it: the
predictor pads a table's rows, and computes in float64 from λ on. Images, whose first layers give no such guarantee, are
passed request by request.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from lossdial.base.errors import InputWarning, closest, shown, warn
from lossdial.bundle import Explanation
from lossdial.bundle.predictor import Predictor
from lossdial.data.encoder.table import TableCoder
from lossdial.data.readers.tables import read_csv
from lossdial.data.schema import ImageSchema, TableSchema
from lossdial.serve.guard import Limits, Refused

if TYPE_CHECKING:
    from lossdial.serve.live import Choice

_MORE_COLUMNS: Final = 1_000  # that a CSV may have beside ten times those of the model
_QUICK: Final = 64  # rows of a table that are scored in less time than a thread takes to wake

#: rows (n, …) for the network, and notes on what was odd about them
Encoded = tuple[NDArray[Any], tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Inputs:
    """At most `n` rows, and how to encode them.

    `quick` says that this takes less than a millisecond, `alone` that they share no pass with other rows.
    """

    n: int
    encode: Callable[[], Encoded]
    quick: bool = False
    alone: bool = False


class RowReader:
    """Reads the rows that a model takes."""

    def __init__(self, predictor: Predictor, target: str | None, limits: Limits) -> None:
        self._schema, self._limits = predictor.schema, limits
        self._coder = predictor.schema.encoder if isinstance(predictor.schema, TableSchema) else None
        names = () if self._coder is None else map(str, self._coder.feature_names_in_)
        self._known = frozenset([*names, *([target] if target else [])])  # columns that may come along

    @property
    def kinds(self) -> tuple[str, ...]:
        """The types that a body may have, or how they begin."""
        images = isinstance(self._schema, ImageSchema)
        return ("multipart/form-data", "image/") if images else ("application/json", "text/csv")

    def json(self, rows: list[Any], large: bool) -> Inputs:
        """Rows of JSON: objects by column for a table, lists of numbers for an array."""
        self._limits.require_few(len(rows), "rows")
        coder = self._coder
        encode = (lambda: self._array(rows)) if coder is None else (lambda: self._table(coder, rows))
        return Inputs(len(rows), encode, quick=len(rows) <= _QUICK and not large)

    def csv(self, body: bytes) -> Inputs:
        """A CSV, read and encoded as the command reads the file."""
        header = body.lstrip().partition(b"\n")[0]
        width = max(header.count(mark) for mark in (b",", b";", b"\t")) + 1
        most = _MORE_COLUMNS + 10 * (len(self._known) or int(np.prod(getattr(self._schema, "shape", ()))))
        if width > most:
            raise Refused(413, f"a header of {width:,} columns is too long; at most {most:,} are read here.")
        lines = body.count(b"\n") + body.count(b"\r") + 1
        return Inputs(min(lines, self._limits.rows), lambda: _with_notes(lambda: self._csv(body)))

    def images(self, files: Sequence[bytes]) -> Inputs:
        """The contents of image files."""
        self._limits.require_few(len(files), "images")
        schema: Any = self._schema
        return Inputs(len(files), lambda: _with_notes(lambda: schema.encode(schema.read_bytes(files))), alone=True)

    def _table(self, coder: TableCoder, rows: list[Any]) -> Encoded:
        known = self._known
        for i, row in enumerate(rows):
            if not isinstance(row, dict):
                raise Refused(400, f"rows[{i}] must be an object of column names and cells; got {shown(row)}.")
            if not known.issuperset(row):
                name = next(name for name in row if name not in known)
                raise Refused(400, f"rows[{i}] has column {name!r:.60}, which is unknown; {closest(name[:60], known)}")
            for name, cell in row.items():
                if isinstance(cell, (list, dict)):
                    legal = "a cell is a number, a text, true, false or null"
                    raise Refused(400, f"rows[{i}], column {name!r:.60}: {legal}; got {shown(cell)}.")
        matrix, remarks = coder.encode_rows(rows)
        return matrix, tuple(remarks)

    def _array(self, rows: list[Any]) -> Encoded:
        try:
            if not all(isinstance(row, list) for row in rows):
                raise TypeError
            matrix = np.array(rows, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            raise Refused(400, "rows must be lists of numbers, all of one length.") from None
        if not (np.abs(matrix) <= np.finfo(np.float32).max).all():
            raise Refused(400, "rows must be finite numbers that float32 can hold.")
        return self._schema.encode(matrix.astype(np.float32)), ()

    def _csv(self, body: bytes) -> NDArray[Any]:
        frame = read_csv(body, "the CSV")
        self._limits.require_few(len(frame), "rows")
        if self._coder is None:
            try:
                return self._schema.encode(frame.to_numpy(dtype=np.float32))
            except (TypeError, ValueError) as error:
                raise Refused(400, f"this model was trained on an array of numbers: {error}") from None
        unused = [str(name) for name in frame if name not in self._known]
        if unused:
            more = ", …" if len(unused) > 5 else ""
            warn(f"not used: {', '.join(map(repr, unused[:5]))}{more}")
        return self._schema.encode(frame)


def _with_notes(encode: Callable[[], NDArray[Any]]) -> Encoded:
    """Encode, and turn warnings into notes. Only one thread may do so at a time: warnings are global."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        matrix = encode()
    return matrix, tuple(str(w.message) for w in caught if issubclass(w.category, InputWarning))


class _InMemory(MultiPartParser):
    # Nothing that a client sends is written to the disk. Starlette has renamed the attribute.
    spool_max_size = max_file_size = 2**40


async def form_files(headers: Headers, body: bytes, most: int) -> list[bytes]:
    """The files of a multipart body."""

    async def stream() -> AsyncIterator[bytes]:
        yield body

    try:
        form = await _InMemory(headers, stream(), max_files=most, max_fields=most).parse()  # type: ignore[arg-type]
    except MultiPartException as error:
        status = 413 if error.message.startswith("Too many") else 400
        raise Refused(status, f"the form cannot be read: {error.message} At most {most:,} files are taken.") from None
    files = [await part.read() for _, part in form.multi_items() if isinstance(part, UploadFile)]
    if not files:
        raise Refused(400, "the form has no files.")
    return files


_PASS: Final = 1024  # rows of one pass that several requests share
_QUICK_JOBS: Final = 16
_NUMBERS: Final = 100  # that explain a row, if a request has as many rows as it may


@dataclass(frozen=True, eq=False)
class Decided:
    """One request's rows (n,): score, probability of the positive class, decision, and notes.

    A decision is whether the positive class is predicted; for a referral band it is clear, refer or act.
    """

    score: NDArray[np.float32]
    probability: NDArray[np.floating[Any]]
    decision: NDArray[np.bool_] | NDArray[np.str_]
    notes: tuple[str, ...]
    explanation: Explanation | None = None


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
        if choice.explain:
            inputs = self._few_enough(inputs, len(choice.predictor.schema.widths()))
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

    def _few_enough(self, inputs: Inputs, columns: int) -> Inputs:
        """Rows to explain: of all their columns, at most a hundred numbers for each row that a request may have."""
        most = max(1, _NUMBERS * self._limits.rows // columns)

        def encode() -> Encoded:
            encoded = inputs.encode()
            if (n := len(encoded[0])) > most:
                text = f"{n:,} rows of {columns:,} columns are too many to explain at once; at most {most:,} are taken."
                raise Refused(413, text)
            return encoded

        return replace(inputs, encode=encode, quick=False)

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
    rows = matrices[0] if len(jobs) == 1 else np.concatenate(matrices)
    features = choice.predictor.embed(rows)
    decided = choice.predictor.decide(features, choice.point, folded=choice.folded)
    decision = decided.positive if decided.action is None else decided.action
    explanation = choice.predictor.explain_encoded(rows, choice.folded) if choice.explain else None
    start = 0
    for job, (matrix, notes) in zip(jobs, encoded, strict=True):
        own = slice(start, start := start + len(matrix))
        answers = decided.margin[own], decided.probability[own], decision[own]
        job.outcome = Decided(*answers, (*choice.notes, *notes), None if explanation is None else explanation[own])
