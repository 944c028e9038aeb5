"""The command: where it answers, what it refuses, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lossdial import LCTClassifier
from lossdial.base.errors import InputError
from lossdial.cli import main
from lossdial.explorer import explore
from lossdial.serve import Server
from tests.serve.conftest import as_json, ask, inputs

ROWS = as_json(inputs(300, 3))


@contextmanager
def command(*words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """``lossdial serve`` in a process of its own, and its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lossdial", "serve", *words, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+:(\d+) answers", line)
        assert found, line + process.stdout.read()
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


def test_the_command_answers_and_finishes_what_it_took(run: Path, fitted) -> None:
    with command(str(run)) as (process, port):
        expected = fitted.predict(inputs(300, 3)).tolist()
        assert ask(port, "POST", "/predict", {"rows": ROWS}).json["prediction"] == expected
        done: list[object] = []

        def many() -> None:
            try:
                while True:
                    done.append(ask(port, "POST", "/predict", {"rows": ROWS}).json["prediction"] == expected)
            except OSError as error:  # refused or closed, once it is going down
                done.append(error)

        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        output, _ = process.communicate(timeout=30)
        assert "Traceback" not in output
        answers = [entry for entry in done if isinstance(entry, bool)]
        assert answers
        assert all(answers)  # each was whole and right, or its client saw the connection fail
        assert sum(isinstance(entry, OSError) for entry in done) == 4


def test_ctrl_c_ends_it_in_a_line(run: Path) -> None:
    with command(str(run)) as (process, port):
        ask(port, "POST", "/predict", {"rows": ROWS[:1]})
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
        assert "Traceback" not in output
        assert len(output.strip().splitlines()) == 1


def test_a_port_in_use_and_a_folder_without_a_model_are_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(run), "--port", str(port)]) == 2
    message = capsys.readouterr().err
    assert (f"got {port}" in message, len(message.splitlines())) == (True, 1)
    assert main(["serve", str(run.parent)]) == 2
    assert "holds no bundle.json" in capsys.readouterr().err


def test_what_cannot_be_served_is_refused(run: Path, fitted: LCTClassifier) -> None:
    for options, argument, got in (
        ({"host": "0.0.0.0"}, "host", "'0.0.0.0'"),
        ({"host": "::"}, "host", "'::'"),
        ({"port": 70_000}, "port", "70000"),
        ({"host": "0.0.0.0", "token": "short"}, "token", None),
    ):
        with pytest.raises(InputError) as raised:
            Server(run, lambda bundle: explore(bundle.held_out()), **options)
        assert (raised.value.argument, raised.value.got) == (argument, got)
    with pytest.raises(ValueError, match="the point 'tuned' is both of"):
        Server(run, lambda _: None, port=0, others={"tuned": fitted.points["tuned"]})
