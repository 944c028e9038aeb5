"""What an installation without extras must do; `make wheel` runs it in an environment of its own, outside the tree."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import lossdial
from lossdial import Dial, DialedClassifier, LCTClassifier


def command(*words: str) -> str:
    """What the command prints."""
    done = subprocess.run([sys.executable, "-m", "lossdial", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """Train, tune and predict, in Python and by the command."""
    assert "site-packages" in lossdial.__file__, lossdial.__file__
    assert "train" in command("--help")
    rng = np.random.default_rng(0)
    y = (rng.random(800) < 0.1).astype(int)
    X = pd.DataFrame({"a": rng.normal(size=800) + y, "b": rng.choice(["x", "y"], 800)})
    clf = LCTClassifier(random_state=0).fit(X, y)
    point = clf.tune(X_val := X.sample(400, random_state=1), y[X_val.index], maximize="f1")
    assert clf.predict(X).shape == (800,)
    assert Dial(y, X["a"].to_numpy()).tune(maximize="f1").threshold != point.threshold
    assert DialedClassifier is not None
    with tempfile.TemporaryDirectory() as folder:
        table, run, out = (str(Path(folder) / name) for name in ("table.csv", "run", "scored.csv"))
        X.assign(label=y).to_csv(table, index=False)
        command("train", "--data", table, "--target", "label", "--out", run)
        command("tune", run, "--data", table, "--maximize", "f1")
        command("predict", run, "--data", table, "--out", out)
        assert len(pd.read_csv(out)) == 800
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
