"""A certificate meets outcomes."""

from pathlib import Path

import numpy as np
import pandas as pd

from lossdial import LCTClassifier
from lossdial.dial import Monitor
from tests.cli.conftest import INPUTS


def test_the_state_is_kept_and_the_verdict_printed(own: Path, tables: Path, tmp_path: Path, output, refusal) -> None:
    monitor = ["monitor", own, "--point", "screening"]
    tune = ["tune", own, "--data", tables / "val.csv", "--name", "screening", "--confidence", "0.95"]
    output(*tune, "--maximize", "precision", "--subject-to", "recall=0.85")
    same = refusal(*monitor, "--data", tables / "val.csv")
    assert "chose this point or made its certificate" in same.line
    assert "not refuted" in output(*monitor, "--data", tables / "week.csv")
    state = Monitor.load(Monitor.file(own, "screening"))
    assert sum(test.n for test in state.tests.values()) == 300
    again = refusal(*monitor, "--data", tables / "week.csv")
    assert "these 300 outcomes, or some of them, have been seen already" in again.line
    assert "NO LONGER HOLDS" in output(*monitor, "--data", tables / "bad.csv")

    frame, loaded = pd.read_csv(tables / "week.csv"), LCTClassifier.load(own)
    margin, y = loaded.margin(frame[INPUTS], "screening"), (frame.state == "failing").astype(int)
    dial = loaded.dial(frame[INPUTS], frame.state)
    assert dial.monitor(loaded.points["screening"]).see(margin, y).tests == state.tests  # the same answer in Python
    frame.iloc[np.argsort(margin)].to_csv(tmp_path / "sorted.csv", index=False)
    output(*monitor, "--restart", "--data", tmp_path / "sorted.csv")
    state = Monitor.load(Monitor.file(own, "screening"))
    assert dial.monitor(loaded.points["screening"]).see(margin, y).tests == state.tests  # sorted by score is no change

    output(*tune, "--maximize", "precision", "--subject-to", "recall=0.8")
    assert refusal(*monitor).remedy == "Give the former options, or {restart} to begin anew."
    output(*monitor, "--restart")


def test_only_alerts_have_outcomes(own: Path, tables: Path, tmp_path: Path, output, refusal) -> None:
    floor = ["--maximize", "precision", "--subject-to", "recall=0.85", "--confidence", "0.95"]
    output("tune", own, "--data", tables / "val.csv", *floor)
    frame, loaded = pd.read_csv(tables / "week.csv"), LCTClassifier.load(own)
    frame.loc[loaded.predict(frame[INPUTS]) != "failing", "state"] = None
    frame.to_csv(tmp_path / "alerts.csv", index=False)
    monitor = ["monitor", own, "--alerts-only"]
    text = output(*monitor, "--prevalence", "0.1", "--data", tmp_path / "alerts.csv")
    assert "recall cannot be" in text
    frame.assign(state=None).to_csv(tmp_path / "none.csv", index=False)
    refused = refusal(*monitor, "--prevalence", "0.1", "--data", tmp_path / "none.csv")
    assert refused.argument == "target"
    assert refused.remedy.startswith("Give those whose outcome is known")
    assert refusal(*monitor).argument == "precision"
