"""The bar is there for a person at a terminal; a log gets a line now and then."""

import os
import sys
import threading
import time

import pytest
import torch

from lossdial.base.progress import ProgressBar
from lossdial.losses import VSLoss
from lossdial.models import MLP, ConditionalClassifier
from lossdial.training import Recipe, fit
from lossdial.training.batches import ArrayBatches


class Terminal:
    """A real pseudo-terminal in place of the error stream, and all that appears on it."""

    def __init__(self, monkeypatch):
        pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
        self._ours, theirs = pty.openpty()
        self._stream = os.fdopen(theirs, "w")
        self._shown = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        monkeypatch.setattr(sys, "stderr", self._stream)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")

    def _read(self):
        while True:
            try:
                part = os.read(self._ours, 65536)
            except OSError:  # the other end is closed
                return
            self._shown += part

    def close(self) -> str:
        self._stream.close()
        self._reader.join(timeout=30)
        os.close(self._ours)
        return self._shown.decode()


@pytest.mark.parametrize(("enabled", "delay", "shown"), [(True, 0.05, True), (False, 0.0, False), (True, 60.0, False)])
def test_appears_on_a_terminal_unless_turned_off_or_the_wait_is_short(monkeypatch, enabled, delay, shown):
    terminal = Terminal(monkeypatch)
    with ProgressBar("training", 4, enabled, delay) as bar:
        for i in range(1, 5):
            bar.advance(i, {"loss": 0.5 / i, "auc": 0.9125})
            time.sleep(0.12)
    text = terminal.close()
    assert all(part in text for part in ("training", "4/4", "loss 0.125", "auc 0.9125")) if shown else text == ""


@pytest.mark.parametrize(
    ("enabled", "steps", "lines"),
    [(True, range(1, 5), []), (True, range(1, 101), [5, 35, 65, 95]), (True, [40, 41], [40]), (False, range(100), [])],
)
def test_a_log_gets_a_line_now_and_then(monkeypatch, capfd, enabled, steps, lines):
    """By a clock that is at second i when step i is done."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with ProgressBar("training", 1200, enabled) as bar:
        for i in steps:
            clock[0] = float(i)
            bar.advance(i, {"loss": 0.5 / i if i else 0, "auc": 0.9125})
    told = capfd.readouterr()
    expected = [f"training: {i} of 1,200 after {i} s  loss {0.5 / i:.4g}  auc 0.9125\n" for i in lines]
    assert told == ("", "".join(expected))


@pytest.mark.parametrize("progress", [True, False])
def test_training_shows_loss_and_validation(monkeypatch, progress):
    terminal = Terminal(monkeypatch)
    loss = VSLoss(beta=2.0)
    model = ConditionalClassifier(MLP(3, (4,)), 4, loss.default_space())
    batches = ArrayBatches(torch.randn(30, 3), torch.arange(30) % 3 // 2, 10)

    def slow(_):
        time.sleep(1.1)  # long enough for the bar to appear
        return {"auc": 0.75}

    fit(model, loss, batches, Recipe(2), validate=slow, progress=progress)
    shown = terminal.close()
    assert ("6/6" in shown and "loss " in shown and "auc 0.75" in shown) == progress
    assert progress or shown == ""
