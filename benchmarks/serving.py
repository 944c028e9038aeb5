"""`lossdial serve` under load, beside an empty FastAPI endpoint under the same load in the same run.

    python benchmarks/serving.py            about five minutes on two cores; --quick: a tenth of every count

A table model with text, gaps and dates answers requests of one row; the peer is a FastAPI application whose one
endpoint returns {}, sent the very same bytes. Each is a process of its own under uvicorn; a third process sends, over
16 connections, the next request on each as soon as the last is answered. Servers take turns, nine each, and a ratio is
of medians over the turns; the processor's time that a request costs each server is told, too.

Then: 10,000 malformed requests must each get a 4xx with a message; a server that is ended in mid-load, politely and
by force, must have answered every request whole, or its client sees the connection fail; and memory must be
flat over 100,000 requests. All traffic goes to 127.0.0.1. Exits with 1 when a bar is missed.
"""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

CONNECTIONS, TURNS = 16, 9
QUICK = 10 if "--quick" in sys.argv else 1
LOAD, MALFORMED, LONG = 2_000 // QUICK, 10_000 // QUICK, 100_000 // QUICK
RATE, P99, GROWTH_MB = 0.5, 4.0, 8.0
EMPTY = """
import socket, sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/predict")
async def predict(): return {}
sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
sock.bind(("127.0.0.1", 0)); sock.listen()
print(f"http://127.0.0.1:{sock.getsockname()[1]} answers", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[sock])
"""
CHARACTERS = '{}[]":,.0123456789eE-+ \\abc<>\u00fc'


@dataclass
class Seen:
    """What clients saw: seconds of each answer, answers by status, messages that are not as they should be."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    failed: int = 0
    odd: list[bytes] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        return float(np.quantile(self.seconds, share))


class Served:
    """A server in a process of its own."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        found = re.search(r"http://\S+:(\d+) answers", self.process.stdout.readline())
        if found is None:
            sys.exit("the server did not start")
        self.port = int(found[1])

    def memory(self) -> float:
        """Megabytes that the process holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024

    def cpu(self) -> float:
        """Seconds of the processor that it has taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of one answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    return int(head[9:12]), body


def request(body: bytes, path: str = "/predict") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def load(port: int, requests: list[bytes], count: int, malformed: bool = False, into: Seen | None = None) -> Seen:
    """Send so many requests over the connections, each as soon as the last on its connection is answered."""
    seen, left = into or Seen(), iter(range(count))

    async def client() -> None:
        reader = writer = None
        for i in left:
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                started = time.perf_counter()
                writer.write(requests[i % len(requests)])
                status, body = await answer(reader)
                seen.seconds.append(time.perf_counter() - started)
                seen.statuses[status] = seen.statuses.get(status, 0) + 1
                if malformed and status != 200 and not (json.loads(body).get("error") and len(json.loads(body)) == 1):
                    seen.odd.append(body)
                if not malformed and status == 200 and not body.endswith(b"}"):
                    seen.odd.append(body)
            except (OSError, asyncio.IncompleteReadError):
                seen.failed += 1
                if writer is not None:
                    writer.close()
                reader = writer = None
        if writer is not None:
            writer.close()

    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    return seen


def trained(folder: Path) -> tuple[Path, list[dict[str, Any]]]:
    """A small model of a table with ten columns, and rows for it."""
    from lossdial import LCTClassifier, Recipe

    rng = np.random.default_rng(0)
    n = 4000
    ill = rng.random(n) < 0.1
    frame = pd.DataFrame({f"x{i}": (rng.normal(size=n) + 0.3 * i * ill).round(3) for i in range(7)})
    frame["town"] = np.where(rng.random(n) + 0.3 * ill > 0.6, "Ulm", "Bern")
    frame["dose"] = np.where(rng.random(n) < 0.1, np.nan, rng.random(n).round(3))
    frame["since"] = (pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 90, n), "D")).strftime("%Y-%m-%d")
    with warnings.catch_warnings(action="ignore"):
        clf = LCTClassifier(recipe=Recipe(3), random_state=0).fit(frame, np.where(ill, "ill", "well"))
        clf.tune(maximize="f1")
    clf.save(folder / "run")
    return folder / "run", [
        {k: None if pd.isna(v) else v for k, v in r.items()} for r in frame[:200].to_dict("records")
    ]


def broken(rows: list[dict[str, Any]], seed: int) -> bytes:
    """A request with something wrong about it; what comes out right by chance is not counted."""
    rng = random.Random(seed)
    path = rng.choice(["/predict"] * 4 + ["/decide", "/adapt", "/points", "/outcomes", "/nowhere", "/predict?point=x"])
    body = json.dumps({"rows": [rng.choice(rows)]})
    kind = rng.randrange(4)
    if kind == 0:  # other characters here and there
        cells = list(body)
        for _ in range(rng.randint(1, 6)):
            cells[rng.randrange(len(cells))] = rng.choice(CHARACTERS)
        return request("".join(cells).encode(), path)
    if kind == 1:  # cut short
        return request(body[: rng.randrange(len(body))].encode(), path)
    if kind == 2:  # bytes
        return request(rng.randbytes(rng.randrange(200)), path)
    row = dict(rng.choice(rows))
    row[rng.choice(list(row))] = rng.choice([[], {}, [1], 1e300, float("inf"), float("nan"), 10**40])
    more = {
        rng.choice(["lam", "point", "threshold", "prevalence", "row"]): rng.choice([3, "x", [], {}, -1, {"tau": 99}])
    }
    return request(json.dumps({"rows": [row], **more}).encode(), path)


def main() -> int:
    console = Console(width=110)
    table = Table("what", "measured", "bar")
    missed = False

    def row(what: str, value: str, bar: str, good: bool) -> None:
        nonlocal missed
        missed |= not good
        table.add_row(what, value, bar if good else f"{bar}, missed")

    with tempfile.TemporaryDirectory() as name:
        run, rows = trained(Path(name))
        requests = [request(json.dumps({"rows": [r]}).encode()) for r in rows]
        command = ("-m", "lossdial", "serve", str(run), "--port", "0")
        ours, peer = Served(*command), Served("-c", EMPTY)
        found: dict[str, list[tuple[float, float, float]]] = {"ours": [], "peer": []}
        errors = 0
        for server in (ours, peer):
            asyncio.run(load(server.port, requests, LOAD // 2))  # warm
        for _ in range(TURNS):
            for who, server in (("ours", ours), ("peer", peer)):
                started, before = time.perf_counter(), server.cpu()
                seen = asyncio.run(load(server.port, requests, LOAD))
                elapsed, spent = time.perf_counter() - started, server.cpu() - before
                found[who].append((LOAD / elapsed, 1000 * seen.percentile(0.99), 1e6 * spent / LOAD))
                if who == "ours":
                    errors += seen.failed + len(seen.odd) + LOAD - seen.statuses.get(200, 0)
        (rate, slow, cpu), (peer_rate, peer_slow, peer_cpu) = (np.median(found[who], axis=0) for who in found)
        share, slower = rate / peer_rate, slow / peer_slow
        shown = f"{rate:,.0f} / {peer_rate:,.0f} = {share:.2f}"
        row("requests per second / empty FastAPI endpoint", shown, f"≥ {RATE}", share >= RATE)
        row("p99 / its p99", f"{slow:.1f} / {peer_slow:.1f} ms = {slower:.2f}", f"≤ {P99:g}", slower <= P99)
        row("processor's time of a request / its", f"{cpu:.0f} / {peer_cpu:.0f} µs = {cpu / peer_cpu:.2f}", "", True)
        row(f"errors in {TURNS * LOAD:,} requests", str(errors), "0", errors == 0)
        peer.end()

        wrong = asyncio.run(load(ours.port, [broken(rows, i) for i in range(MALFORMED)], MALFORMED, malformed=True))
        refused = sum(n for status, n in wrong.statuses.items() if 400 <= status < 500)
        worse = wrong.failed + len(wrong.odd) + sum(n for status, n in wrong.statuses.items() if status >= 500)
        row(
            f"of {MALFORMED:,} malformed requests: 4xx with a message; right by chance; anything else",
            f"{refused:,}; {wrong.statuses.get(200, 0):,}; {worse}",
            "0 of the last",
            worse == 0,
        )

        asyncio.run(load(ours.port, requests, LONG // 10))
        before = ours.memory()
        for part in range(9):
            seen = asyncio.run(load(ours.port, requests, LONG // 10))
            errors += seen.failed + LONG // 10 - seen.statuses.get(200, 0)
            if part in (3, 8):
                console.print(f"{(part + 2) * LONG // 10:,} requests: {ours.memory():.1f} MB")
        grown = ours.memory() - before
        row(
            f"memory that {LONG - LONG // 10:,} more requests take, MB",
            f"{grown:.1f} of {before:.0f}",
            f"≤ {GROWTH_MB:g}",
            grown <= GROWTH_MB,
        )
        row("errors among them", str(errors), "0", errors == 0)
        ours.end()

        for kill in (signal.SIGTERM, signal.SIGKILL):
            server = Served(*command)

            async def ended(server: Served = server, kill: int = kill) -> Seen:
                seen = Seen()
                going = asyncio.create_task(load(server.port, requests, LOAD, into=seen))
                while len(seen.seconds) < LOAD // 3 and not going.done():
                    await asyncio.sleep(0.005)
                server.process.send_signal(kill)
                return await asyncio.wait_for(going, 60)

            seen = asyncio.run(ended())
            server.process.wait(60)
            whole = seen.statuses.get(200, 0)
            lost = LOAD - whole - seen.failed
            row(
                f"{signal.Signals(kill).name} in mid-load: answered whole; connection failed; neither",
                f"{whole:,}; {seen.failed:,}; {lost + len(seen.odd)}",
                "0 of the last",
                lost + len(seen.odd) == 0,
            )
    console.print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
