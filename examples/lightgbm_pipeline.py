"""A scikit-learn pipeline with LightGBM, and the dial around it: somebody else's scores, the same questions.

python examples/lightgbm_pipeline.py
"""

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from lossdial import DialedClassifier


def claims(n: int, seed: int = 0) -> pd.DataFrame:
    """Claims of which one in thirty is a fraud."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 1 / 30
    return pd.DataFrame(
        {
            "amount": rng.lognormal(6 + 0.8 * fraud, 0.7),
            "hour": (rng.normal(14, 4, n) + 6 * fraud).round() % 24,
            "channel": rng.choice(["web", "phone", "branch"], n),
            "fraud": fraud.astype(int),
        }
    )


def main() -> dict[str, float]:
    table = claims(12_000)
    train, rest = train_test_split(table, test_size=0.5, random_state=0, stratify=table["fraud"])
    val, test = train_test_split(rest, test_size=0.5, random_state=0, stratify=rest["fraud"])
    inputs = ["amount", "hour", "channel"]
    columns = make_column_transformer((OneHotEncoder(sparse_output=False), ["channel"]), remainder="passthrough")
    trees = LGBMClassifier(n_estimators=60, verbose=-1, n_jobs=1, random_state=0)
    pipeline = make_pipeline(columns.set_output(transform="pandas"), trees)

    model = DialedClassifier(pipeline).fit(train[inputs], train["fraud"])
    tuned = model.tune(val[inputs], val["fraud"], maximize="precision", subject_to={"recall": 0.6})
    print(tuned)
    # Next year one claim in a hundred is a fraud, and one that slips through costs twenty checks.
    moved = model.adapt(val[inputs], val["fraud"], prevalence=0.01, cost_fn=20, cost_fp=1, name="next year")
    print(moved)
    flagged = {name: float(model.predict(test[inputs], point=name).mean()) for name in ("default", "next year")}
    print({name: f"{share:.1%} of claims are looked at" for name, share in flagged.items()})
    return flagged


if __name__ == "__main__":
    main()
