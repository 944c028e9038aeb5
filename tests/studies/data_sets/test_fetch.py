"""Downloads from a real server on the loopback address: whole, cut, resumed, refused, wrong."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from lossdial_studies.data_sets.fetch import Archive, fetch_archive

CONTENT = np.random.default_rng(0).bytes(1_000_003)


@dataclass
class Server:
    """What the server does, and what it was asked."""

    url: str = ""
    ranges: bool = True
    cut_after: int | None = None
    status: int | None = None
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            if state.status is not None:
                self.send_error(state.status)
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and state.ranges else 0
            if start >= len(CONTENT):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(CONTENT) - start))
            self.end_headers()
            body = CONTENT[start:]
            self.wfile.write(body if state.cut_after is None else body[: state.cut_after])

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{httpd.server_port}/set.tar.gz"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield state
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def archive_at(server: Server, content: bytes = CONTENT) -> Archive:
    return Archive("set.tar.gz", server.url, md5(content).hexdigest())


def test_download_with_a_bar(tmp_path: Path, server: Server) -> None:
    stream = StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    path = fetch_archive(archive_at(server), tmp_path / "new" / "folder", console)
    assert path == tmp_path / "new" / "folder" / "set.tar.gz"
    assert path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["set.tar.gz"]
    assert "1.0/1.0 MB" in stream.getvalue()
    assert fetch_archive(archive_at(server), path.parent) == path
    assert server.asked == [None]  # the second call only checked the file


def test_cut_connection_is_resumed(tmp_path: Path, server: Server) -> None:
    server.cut_after = 400_000
    with pytest.raises(ConnectionError, match=r"400,000 bytes are kept in .*set\.tar\.gz\.part; run it again"):
        fetch_archive(archive_at(server), tmp_path)
    assert not (tmp_path / "set.tar.gz").exists()
    with pytest.raises(ConnectionError, match="800,000 bytes are kept"):
        fetch_archive(archive_at(server), tmp_path)
    server.cut_after = None
    assert fetch_archive(archive_at(server), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=400000-", "bytes=800000-"]
    assert not (tmp_path / "set.tar.gz.part").exists()


def test_server_that_knows_no_ranges_starts_anew(tmp_path: Path, server: Server) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(b"x" * 1000)
    server.ranges = False
    assert fetch_archive(archive_at(server), tmp_path).read_bytes() == CONTENT


def test_wrong_checksum_leaves_nothing(tmp_path: Path, server: Server) -> None:
    with pytest.raises(ValueError, match=r"has md5 .*; the published one is .*download http://127"):
        fetch_archive(archive_at(server, b"other"), tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "set.tar.gz").write_bytes(b"something else")
    with pytest.raises(ValueError, match="delete it and download"):
        fetch_archive(archive_at(server), tmp_path)


def test_refusal_and_silence(tmp_path: Path, server: Server) -> None:
    server.status = 404
    with pytest.raises(ConnectionError, match=r"failed: HTTP Error 404.* put it at .*set\.tar\.gz"):
        fetch_archive(archive_at(server), tmp_path)
    nobody = Archive("set.tar.gz", "http://127.0.0.1:9/set.tar.gz", "0")
    with pytest.raises(ConnectionError, match="0 bytes are kept"):
        fetch_archive(nobody, tmp_path)
