"""LCTClassifier: scikit-learn's own checks, and everything that fit promises."""

import json
import os
import pickle
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from PIL import Image
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import lossdial.training.loop
from lossdial import Constant, LCTClassifier, Linear, Space, VSLoss
from lossdial.base.errors import InputError
from lossdial.bundle import Bundle
from lossdial.dial import Objective
from lossdial.models import CifarResNet, FiLMConfig, FrozenEncoder
from lossdial.training import Augment, Checkpoint, CheckpointError, Cosine, DivergedError, Flat, OptimizerConfig, Recipe


def expected_failures(_):
    why = "a row of weight two and two rows fall into other mini-batches, and into another share held out"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore:.*(looked for|as many).*:UserWarning")  # scikit-learn's data are balanced
@parametrize_with_checks(
    [
        LCTClassifier(recipe=Recipe(epochs=10), random_state=0),
        LCTClassifier("focal", recipe=Recipe(10), random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def table(n=240, share=0.25, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.standard_normal((n, 4)) + y[:, None], y


def quick(**changes):
    small = {"recipe__epochs": 3, "recipe__batch_size": 32, "random_state": 0}
    network = {} if "network" in changes else {"network__hidden": (8,)}
    return LCTClassifier().set_params(**small | network | changes)


def parameters(clf):
    return [p.detach().clone() for p in clf.bundle_.predictor.model.parameters()]


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(parameters(a), parameters(b), strict=True))


class Recorder(nn.Module):
    """The identity, keeping the first column of all it is shown in training."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        if self.training:
            self.seen.append(x[:, 0].clone())
        return x


def test_it_learns():
    X, y = make_classification(1500, weights=[0.9], class_sep=1.5, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    clf = LCTClassifier(recipe=Recipe(epochs=15), random_state=0).fit(X, y)
    assert roc_auc_score(y_test, clf.decision_function(X_test)) > 0.9
    assert [row["epoch"] for row in clf.history_] == list(range(1, 16))
    assert clf.history_[-1]["auc"] > 0.9


# labels


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), ("no", "yes"), (False, True), (2.0, 5.0)], ids=str)
@pytest.mark.parametrize("positive", [0, 1])
def test_any_two_labels_and_either_one_positive(labels, positive):
    X, y = table()
    reference = quick().fit(X, y)
    named = np.array(labels)[np.where(y == 1, positive, 1 - positive)]
    clf = quick(pos_label=labels[positive]).fit(X, named)
    assert_array_equal(clf.classes_, np.array(labels))  # sorted, whichever is positive
    assert same(clf, reference)
    sign = 1 if positive else -1
    assert_array_equal(clf.decision_function(X), sign * reference.decision_function(X))
    assert_array_equal(clf.predict_proba(X)[:, positive], reference.predict_proba(X)[:, 1])
    assert_array_equal(clf.predict(X), np.array(labels)[np.where(reference.predict(X) == 1, positive, 1 - positive)])
    assert_array_equal(clf.predict(X) == labels[1], clf.decision_function(X) > 0)
    assert clf.bundle_.predictor.classes == (labels[1 - positive], labels[positive])
    assert clf.bundle_.training.prevalence == pytest.approx(y.mean(), abs=0.01)


def test_the_rarer_label_is_looked_for_by_default():
    X, y = table()
    assert same(quick().fit(X, y), quick(pos_label=1).fit(X, y))
    named = np.array(["well", "ill"])[y]  # 'ill' sorts first
    clf = quick().fit(X, named)
    assert clf.bundle_.predictor.classes == ("well", "ill")
    assert_array_equal(clf.classes_, ["ill", "well"])
    assert same(clf, quick(pos_label="ill").fit(X, named))


def test_positives_in_the_majority_where_they_are_asked_for():
    X, y = table(share=0.8)
    clf = quick(pos_label="well").fit(X, np.array(["ill", "well"])[y])
    assert clf.bundle_.training.loss["beta"] < 1
    assert roc_auc_score(y, clf.decision_function(X)) > 0.7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, _: (X, np.zeros(len(X))), r"y holds one class only, 0\.0; two classes are needed"),
        (lambda X, y: (X, y + (np.arange(len(y)) % 2)), "Only binary classification is supported"),
        (lambda X, y: (np.where(X > 2, np.nan, X), y), r"^X is NaN in \d+ of 960 cells; .* pd.DataFrame\(X\)\.$"),
        (lambda X, y: (np.where(X > 2, np.inf, X), y), r"^X is infinite, .* in \d+ of 960 cells; remove .*\.$"),
        (lambda X, y: (X.astype(str).astype(object) + "a", y), "could not convert string to float"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X[:, :, None], y), "dim 3"),
        pytest.param(
            lambda X, y: (X * 1e300, y),
            "too large for float32, in 960 of 960 cells",
            marks=pytest.mark.filterwarnings("ignore::RuntimeWarning"),
        ),
    ],
    ids=["one class", "three classes", "NaN", "inf", "text", "lengths", "three axes", "beyond float32"],
)
def test_wrong_data(make, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(*make(*table()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "hinge"}, "loss must be 'vs', 'focal' or a ConditionalLoss; got 'hinge'"),
        ({"space": Space(alpha=Constant(0.5))}, "VSLoss has no hyperparameter 'alpha'"),
        ({"space": Space(gamma=Linear(-1, 1, 0), tau=Constant(0))}, "gamma must be finite and at least 0"),
        ({"pos_label": "ill"}, r"pos_label must be one of the labels; got 'ill'"),
        ({"validation_fraction": 1.0}, r"validation_fraction must lie in \[0, 1\); got 1.0"),
        ({"head": "flim"}, "unknown head 'flim'; did you mean 'film'"),
        ({"head": "path"}, "head='path' is not trained: an exact solve makes it"),
        (
            {"network": "mpl"},
            "network must be 'table', 'mlp', 'features', a config of one, or a torch module; got 'mpl'",
        ),
        ({"objective": "f1"}, r"objective must be an Objective; got 'f1'. Give Objective\(maximize='f1'\)"),
        ({"recipe__augment": Augment(flip_horizontal=True)}, "only images"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_settings(arguments, message):
    with pytest.raises(ValueError, match=message):
        quick(**arguments).fit(*table())


def test_so_few_positives_that_most_batches_see_none():
    X, y = table(400, share=0)
    y[:6] = 1
    with pytest.warns(UserWarning, match=r"5 of 32. training samples are positive, so about 78% of the batches of 16"):
        quick(recipe__batch_size=16).fit(X, y)


def test_divergence():
    X, y = table()
    with pytest.raises(DivergedError, match=r"step 2 .*learning rate 1e\+25"):
        quick(recipe__optimizer__name="sgd", recipe__optimizer__lr=1e25, recipe__schedule=Flat()).fit(X, y)


# the share held out


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_held_out_rows_are_never_trained_on(share):
    X, y = table()
    X[:, 0] = np.arange(len(X))  # a row's number, which the recorder's features still hold
    clf = quick(network=Recorder(), validation_fraction=share, recipe__optimizer__lr=1e-6).fit(X, y)
    trained = set(torch.cat(clf.bundle_.predictor.model.backbone.seen).int().tolist())
    held = np.array(sorted(set(range(len(X))) - trained))
    assert len(held) == pytest.approx(share * len(X), abs=1)
    assert y[held].mean() == pytest.approx(y.mean(), abs=0.01)  # stratified
    dial = clf.dial()
    assert_array_equal(dial.y, y[held])
    k = 5
    assert_array_equal(dial.surface.score(k), clf.decision_function(X[held], lam=dial.lams[k]))


def test_validation_data_of_ones_own():
    X, y = table()
    X_val, y_val = table(100, seed=1)
    X[:, 0] = np.arange(len(X))
    clf = quick(network=Recorder(), recipe__optimizer__lr=1e-6).fit(X, y, X_val, y_val)
    assert len(set(torch.cat(clf.bundle_.predictor.model.backbone.seen).int().tolist())) == len(
        X
    )  # nothing is held out
    assert_array_equal(clf.bundle_.evidence.y, y_val)
    assert_array_equal(clf.dial().surface.score(7), clf.decision_function(X_val, lam=clf.dial().lams[7]))
    score = clf.decision_function(X_val)
    assert clf.history_[-1]["auc"] == pytest.approx(roc_auc_score(y_val, score), abs=1e-6)


def test_validation_labels_must_come_along():
    X, y = table()
    with pytest.raises(ValueError, match="X_val and y_val go together"):
        quick().fit(X, y, X)
    with pytest.raises(ValueError, match="y holds 7, which was not seen in training"):
        quick().fit(X, y, X, np.full(len(y), 7))


@pytest.mark.parametrize(("positives", "share"), [(4, 0.2), (60, 0.0)])
def test_nothing_is_held_out_where_there_is_nothing_to_share(positives, share):
    X, y = table(share=0)
    y[:positives] = 1
    few = f"{positives} positives among 240 rows: too few to hold any out at validation_fraction=0.2, so no figure"
    with pytest.warns(UserWarning, match=few) if share else nullcontext():
        clf = quick(validation_fraction=share, recipe__batch_size=240).fit(X, y)
    assert clf.bundle_.evidence is None
    assert "auc" not in clf.history_[0]
    with pytest.raises(ValueError, match="there are no held-out data"):
        clf.tune(maximize="f1")


def test_a_single_positive_is_warned_of_in_a_line():
    X, y = table(300, share=0)
    y[7] = 1
    with pytest.warns(UserWarning, match="1 positive among 300 rows: too few") as told:
        quick(recipe__batch_size=300).fit(X, y)
    (line,) = [str(each.message) for each in told if "hold any out" in str(each.message)]
    assert "\n" not in line
    assert line.endswith("To tune, give tune data of its own: tune(X, y, …).")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(recipe__batch_size=300, validation_fraction=0).fit(X, y)  # as asked for


# scikit-learn's company


def test_data_frames():
    X, y = table()
    frame = pd.DataFrame(X, columns=["age", "dose", "weight", "height"])
    frame["age"] = frame["age"].astype(np.float32)
    labels = pd.Series(y).map({0: "well", 1: "ill"})
    clf = quick(pos_label="ill").fit(frame, labels)
    assert_array_equal(clf.feature_names_in_, frame.columns)
    assert set(clf.predict(frame)) <= {"well", "ill"}
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(frame[["dose", "age", "weight", "height"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert_array_equal(clf.predict(frame.to_numpy()), clf.predict(frame))


def test_pipeline_clone_and_pickle():
    X, y = table()
    pipeline = make_pipeline(StandardScaler(), quick(space=Space(gamma=Constant(0.0), tau=Linear(0, 3, 1 / 3))))
    pipeline.fit(X, y)
    copy = clone(pipeline).fit(X, y)
    assert_array_equal(copy.predict_proba(X), pipeline.predict_proba(X))
    restored = pickle.loads(pickle.dumps(pipeline))
    assert_array_equal(restored.predict_proba(X), pipeline.predict_proba(X))
    assert pipeline.score(X, y) == (pipeline.predict(X) == y).mean()
    assert clone(quick(network=Recorder())).get_params(False).keys() == quick().get_params(False).keys()


def test_grid_search():
    X, y = table()
    grid = {"recipe__optimizer__lr": [1e-6, 0.03], "network__hidden": [(8,), (4, 4)]}
    search = GridSearchCV(quick(), grid, cv=2, scoring="roc_auc").fit(X, y)
    assert search.best_params_["recipe__optimizer__lr"] == 0.03
    assert search.best_estimator_.predict(X).shape == (240,)


def test_calibration():
    X, y = table(400)
    clf = quick(recipe__epochs=8).fit(X[:200], y[:200])
    calibrated = CalibratedClassifierCV(FrozenEstimator(clf)).fit(X[200:], y[200:])
    assert calibrated.predict_proba(X[200:])[:, 1].mean() == pytest.approx(y[200:].mean(), abs=0.02)
    assert roc_auc_score(y, calibrated.predict_proba(X)[:, 1]) > 0.8


def test_randomness():
    X, y = table()
    assert same(quick().fit(X, y), quick().fit(X, y))
    assert not same(quick().fit(X, y), quick(random_state=1).fit(X, y))
    rng = np.random.RandomState(0)
    first = quick(random_state=rng).fit(X, y)
    assert same(first, quick(random_state=np.random.RandomState(0)).fit(X, y))
    assert not same(first, quick(random_state=rng).fit(X, y))  # the next draw of the same generator
    state = torch.get_rng_state()
    quick(random_state=None).fit(X, y)
    assert torch.equal(torch.get_rng_state(), state)


# any backbone


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images(dtype):
    X, y = load_digits(return_X_y=True)
    keep = (y == 8) | (np.arange(len(y)) % 4 == 0)
    X, y = (X[keep] * 15).reshape(-1, 1, 8, 8).astype(np.uint8), (y[keep] == 8).astype(int)
    X = X if dtype == np.uint8 else (X / 255).astype(np.float32)
    torch.manual_seed(0)  # a backbone of one's own comes with weights of one's own
    backbone = CifarResNet(8, 4, in_channels=1)
    before = [p.clone() for p in backbone.parameters()]
    recipe = Recipe(12, batch_size=64, optimizer=OptimizerConfig(lr=0.01), augment=Augment(crop_padding=1))
    clf = LCTClassifier(network=backbone, recipe=recipe, random_state=0).fit(X[::2], y[::2])
    assert roc_auc_score(y[1::2], clf.decision_function(X[1::2])) > 0.9
    assert all(torch.equal(p, q) for p, q in zip(before, backbone.parameters(), strict=True))  # it was copied
    # Standardised by the training images' own mean and deviation, on the scale that the network sees.
    assert clf.bundle_.predictor.model.backbone.standardize.mean.item() == pytest.approx(0.29, abs=0.02)
    with pytest.raises(ValueError, match=r"expecting 1 features|shape \(n, 1, height, width\)"):
        clf.predict(np.repeat(X, 3, axis=1))


def test_bytes_and_floats_of_the_same_images_train_the_same():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3 // 2
    X = (rng.integers(0, 150, (60, 1, 8, 8)) + 80 * y[:, None, None, None]).astype(np.uint8)
    torch.manual_seed(0)
    settings = {"network": CifarResNet(8, 2, in_channels=1), "recipe": Recipe(2, batch_size=20), "random_state": 0}
    bytes_, floats = LCTClassifier(**settings).fit(X, y), LCTClassifier(**settings).fit(X / np.float32(255), y)
    np.testing.assert_allclose(bytes_.decision_function(X), floats.decision_function(X / np.float32(255)), atol=1e-3)


def test_sequences_through_a_module_of_ones_own():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3 // 2
    X = rng.standard_normal((90, 3, 10)) + y[:, None, None]

    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(3, 6, 3)

        def forward(self, x):
            return self.conv(x).relu().mean(-1)

    clf = quick(network=Convolution(), recipe__epochs=20, recipe__optimizer__lr=0.02).fit(X, y)
    assert roc_auc_score(y, clf.decision_function(X)) > 0.9
    assert clf.bundle_.predictor.model.n_features == 6


# settings that reach the training


def test_a_loss_of_ones_own():
    X, y = table()
    clf = quick(loss=VSLoss(beta=50.0)).fit(X, y)
    assert clf.bundle_.training.loss == {"name": "vs", "beta": 50.0}
    assert quick().fit(X, y).bundle_.training.loss["beta"] == pytest.approx((y == 0).sum() / (y == 1).sum(), rel=0.02)


@pytest.mark.parametrize(
    "change",
    [
        {"recipe__optimizer__name": "sgd"},
        {"recipe__optimizer__name": "adamw", "recipe__optimizer__weight_decay": 0.5},
        {"recipe__optimizer__sam_rho": 0.1},
        {"recipe__schedule": Cosine(warmup=1)},
        {"recipe__clip_norm": 0.01},
        {"recipe__ema_decay": 0.5},
        {"recipe__lam_per": "batch"},
        {"recipe__batch_size": 16},
        {"head": FiLMConfig(widths=(4,))},
        {"head": FiLMConfig(scale="sigma")},
        {"run__precision": "bf16-mixed"},
        {"recipe__optimizer__lr": 0.01},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_setting_makes_a_difference(change):
    X, y = table()
    reference, clf = quick().fit(X, y), quick(**change).fit(X, y)
    assert not np.array_equal(reference.decision_function(X), clf.decision_function(X))
    assert next(clf.bundle_.predictor.model.parameters()).dtype == torch.float32


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_a_model_of_another_precision_predicts_in_float32(precision, tmp_path):
    X, y = table()
    clf = quick(run__precision=precision).fit(X, y)
    clf.save(tmp_path)
    assert_array_equal(LCTClassifier.load(tmp_path).predict_proba(X), clf.predict_proba(X))
    assert clf.history_[-1]["auc"] == pytest.approx(quick().fit(X, y).history_[-1]["auc"], abs=0.1)


# interrupted and called again


class InterruptedLoss(VSLoss):
    """Gives up at the given evaluation, as Ctrl-C would."""

    evaluations: int = 0
    deadline: int = -1

    def per_sample(self, logits, y, lam):
        self.evaluations += 1
        if self.evaluations == self.deadline:
            raise KeyboardInterrupt
        return super().per_sample(logits, y, lam)


@pytest.fixture
def slow_clock(monkeypatch):
    """Half a minute passes between any two looks at the clock: every step is saved."""
    now = iter(range(0, 10**9, 31))
    monkeypatch.setattr(lossdial.training.loop, "time", SimpleNamespace(monotonic=lambda: next(now)))


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize("random_state", [0, "generator", None])
def test_an_interrupted_fit_goes_on(tmp_path, random_state):
    X, y = table()

    def settings(deadline):
        loss = InterruptedLoss(beta=3.0)
        loss.deadline = deadline
        # A generator in the state it had the first time, as a script run again would have.
        rng = np.random.RandomState(0) if random_state == "generator" else random_state
        return {"loss": loss, "random_state": rng, "run__folder": tmp_path, "recipe__ema_decay": 0.9}

    with pytest.raises(KeyboardInterrupt):
        quick(**settings(11)).fit(X, y)
    arguments = settings(-1)
    clf = quick(**arguments).fit(X, y)
    assert arguments["loss"].evaluations == clf.bundle_.training.steps - 10  # ten steps were done before
    assert not (tmp_path / "checkpoint.pt").exists()  # the finished model is there in its place
    seed = clf.bundle_.training.identity["seed"]
    whole = quick(**settings(-1) | {"run__folder": None, "random_state": seed})
    assert same(clf, whole.fit(X, y))
    assert [json.loads(line)["epoch"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [1, 2, 3]
    assert [row["loss"] for row in clf.history_] == [row["loss"] for row in whole.history_]


def test_a_finished_run_gives_its_model_back(tmp_path):
    X, y = table()
    clf = quick(run__folder=tmp_path).fit(X, y)
    again = quick(run__folder=tmp_path, run__progress=False).fit(X, y)  # what changes no weight may change
    assert same(clf, again)
    assert again.bundle_.training.seconds == clf.bundle_.training.seconds  # it was not trained again


@pytest.mark.parametrize("unfinished", [False, True], ids=["finished", "interrupted"])
def test_a_run_of_other_data_or_settings_is_refused(tmp_path, unfinished):
    X, y = table()
    quick(run__folder=tmp_path).fit(X, y)
    if unfinished:  # as far as the folder tells
        kept = Bundle.load(tmp_path)
        (tmp_path / "bundle.json").unlink()
        model = kept.predictor.model
        checkpoint(model, dict(kept.training.identity)).save(tmp_path)
    error = CheckpointError if unfinished else InputError
    for changes, data, what in (
        ({"recipe__optimizer__lr": 0.01}, (X, y), "recipe__optimizer__lr"),
        ({}, (X + 1e-3, y), "data"),
        ({}, (X, np.roll(y, 1)), "data"),
        ({"random_state": 1}, (X, y), "seed"),
    ):
        with pytest.raises(error, match=rf"other settings \((different: )?{what}"):
            quick(run__folder=tmp_path, **changes).fit(*data)


def test_a_folder_in_cross_validation_is_refused_with_what_to_do(tmp_path):
    X, y = table()
    with pytest.raises(ValueError, match=r"In cross-validation .* give no Run\(folder\) there"):
        cross_val_score(quick(run__folder=tmp_path), X, y, cv=2, error_score="raise")


def checkpoint(model, identity):
    return Checkpoint(0, 0, model.state_dict(), {}, None, {}, 0.0, 0.0, [], identity)


def test_a_folder_in_use_is_refused_with_the_process_that_has_it(tmp_path):
    from lossdial.base.files import claimed

    X, y = table()
    with claimed(tmp_path), pytest.raises(ValueError, match=f"process {os.getpid()} is working in"):
        quick(run__folder=tmp_path).fit(X, y)


# frames, groups, weights


def frame(n=400, seed=0):
    """Numbers, text, booleans, dates and gaps, all of which tell something of y."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    X = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n) + 5 * y,
            "town": np.where(rng.random(n) + 0.3 * y > 0.7, "Ulm", "Bern"),
            "smoker": rng.random(n) + 0.2 * y > 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n) + 200 * y, "D"),
            "dose": np.where(rng.random(n) < 0.2, np.nan, rng.random(n) + y),
        }
    )
    return X, y


def test_a_data_frame_of_every_kind_before_and_after_loading(tmp_path):
    X, y = frame()
    clf = quick(recipe__epochs=10).fit(X, y)
    X_new, y_new = frame(seed=1)
    assert roc_auc_score(y_new, clf.decision_function(X_new)) > 0.85
    clf.save(tmp_path)
    assert_array_equal(LCTClassifier.load(tmp_path).predict_proba(X_new), clf.predict_proba(X_new))


def test_columns_in_another_order_are_never_taken_for_each_other(tmp_path):
    X, y = frame()
    quick().fit(X, y).save(tmp_path)
    loaded = LCTClassifier.load(tmp_path)
    other = X[[*X.columns[::-1]]]
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        loaded.predict(other)
    features = loaded.bundle_.predictor.features(other)  # by name, below scikit-learn's face
    assert torch.equal(features, loaded.bundle_.predictor.features(X))


def test_the_encoder_sees_training_rows_only():
    X, y = frame()
    X["town"] = X["town"].where(np.arange(len(X)) % 40 != 0, [f"village {i}" for i in range(len(X))])
    clf = quick().fit(X, y)
    encoder = clf.bundle_.predictor.schema.encoder
    predictor = clf.bundle_.predictor
    margin = predictor.scores(predictor.features(X)).array()
    trained = np.abs(margin[:, None] - clf.bundle_.evidence.scores).max(axis=2).min(axis=1) > 1e-4
    assert 0.75 < trained.mean() < 0.85
    towns = {name.removeprefix("town=") for name in encoder.get_feature_names_out() if name.startswith("town=")}
    assert towns == set(X["town"][trained])


def test_groups_stay_on_one_side():
    X, y = table(300)
    patients = np.repeat(np.arange(100), 3)
    X[:, 0] = np.arange(300)
    clf = quick(network=Recorder(), recipe__optimizer__lr=1e-6).fit(X, y, groups=patients)
    trained = np.array(sorted(set(torch.cat(clf.bundle_.predictor.model.backbone.seen).int().tolist())))
    held = np.setdiff1d(np.arange(300), trained)
    assert len(held) > 40
    assert not set(patients[trained]) & set(patients[held])
    assert len(np.unique(clf.bundle_.evidence.groups)) == len(set(patients[held]))


def test_copies_of_a_row_stay_on_one_side():
    X, y = table(200)
    X[:, 0] = np.arange(200)
    twice = np.concatenate([X, X])
    clf = quick(network=Recorder(), recipe__optimizer__lr=1e-6).fit(twice, np.concatenate([y, y]))
    trained = set(torch.cat(clf.bundle_.predictor.model.backbone.seen).int().tolist())
    assert len(trained) == pytest.approx(160, abs=2)  # the others were held out with both copies
    assert len(clf.bundle_.evidence.y) == 2 * (200 - len(trained))


def test_weights_count():
    X, y = table(400)
    weight = np.where(X[:, 0] > 0, 5.0, 0.1)
    plain, weighted = quick().fit(X, y), quick().fit(X, y, sample_weight=weight)
    assert not same(plain, weighted)
    assert same(plain, quick().fit(X, y, sample_weight=np.ones(400)))
    assert weighted.bundle_.training.prevalence == pytest.approx(np.average(y, weights=weight), abs=0.05)
    assert weighted.bundle_.evidence.sample_weight is not None


def test_an_aim_in_the_constructor_tunes_inside_fit_and_cross_validation():
    X, y = table(500)
    objective = Objective(maximize="precision", subject_to={"recall": 0.98})
    clf = quick(objective=objective).fit(X, y)
    assert "recall >= 0.98" in str(clf.points["default"])
    modest = Objective(maximize="precision", subject_to={"recall": 0.4})
    high, low = (cross_val_score(quick(objective=a), X, y, scoring="recall", cv=3).mean() for a in (objective, modest))
    assert high > low + 0.1


def test_an_aim_with_too_few_positives_held_out_is_a_warning(tmp_path):
    X, y = table(300, share=0.05)
    untuned = quick().fit(X, y)
    with pytest.warns(UserWarning, match=r"the objective is not tuned for, .*the data to tune on have \d positives"):
        clf = quick(objective=Objective(maximize="f1"), run__folder=tmp_path / "run").fit(X, y)
    assert clf.points["default"] == untuned.points["default"]
    assert np.array_equal(clf.predict(X), untuned.predict(X))
    assert LCTClassifier.load(tmp_path / "run").points["default"] == clf.points["default"]
    with pytest.warns(UserWarning, match=r"the objective is not tuned for, .*there are no held-out data"):
        quick(objective=Objective(maximize="f1"), validation_fraction=0.0).fit(X, y)
    with pytest.raises(ValueError, match="the data to tune on have"):  # who asks for it gets an error
        clf.tune(maximize="f1")


def test_what_is_loaded_reports_the_parameters_it_was_trained_with(tmp_path):
    X, y = table()
    settings = {
        "space": Space(gamma=Constant(0.1), tau=Linear(0, 2, 0.5)),
        "head": FiLMConfig(widths=(5,), scale="sigma"),
        "recipe": Recipe(2, batch_size=50, optimizer=OptimizerConfig("sgd", 0.01), schedule=Flat(warmup=1.0)),
        "objective": Objective(maximize="f1"),
        "validation_fraction": 0.3,
        "random_state": 7,
    }
    LCTClassifier("vs", **settings).fit(X, y).save(tmp_path)
    loaded = LCTClassifier.load(tmp_path)
    for name, value in settings.items():
        assert getattr(loaded, name) == value, name
    assert repr(clone(loaded)) == repr(LCTClassifier("vs", **settings))


# images and frozen networks


def pictures(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(int)
    return (rng.integers(0, 150, (n, 3, 16, 16)) + 80 * y[:, None, None, None]).astype(np.uint8), y


def test_a_frozen_encoder_takes_images_before_and_after_loading(tmp_path):
    X, y = pictures()
    torch.manual_seed(0)
    clf = quick(network=FrozenEncoder(CifarResNet(8, 4))).fit(X, y)
    calls = []
    clf.bundle_.predictor.model.backbone.encoder.register_forward_hook(lambda *_: calls.append(None))
    expected = clf.predict_proba(X)
    assert len(calls) == 1
    clf.save(tmp_path)
    assert_array_equal(LCTClassifier.load(tmp_path).predict_proba(X), expected)
    assert clf.history_[-1]["loss"] < clf.history_[0]["loss"]


def test_files_of_images_are_brought_to_the_size_of_training(tmp_path):
    X, y = pictures()
    paths = []
    for i, image in enumerate(X):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(image.transpose(1, 2, 0)).save(paths[-1])
    clf = quick(network=CifarResNet(8, 2)).fit(X, y)
    assert_array_equal(clf.predict_proba(paths), clf.predict_proba(X))
    with pytest.raises(ValueError, match=r"images must have shape \(n, 3, 16, 16\), as in training, or be paths"):
        clf.predict(X[:, :, :8, :8])
    from_files = quick(network=CifarResNet(8, 2)).fit(paths, y)
    assert from_files.bundle_.predictor.schema.height == 64  # no size was asked for
    assert from_files.predict(paths).shape == (60,)


def test_a_pickled_estimator_carries_no_features():
    X, y = table(2000)
    clf = quick().fit(X, y)
    X_val, y_val = table(2000, seed=1)
    before = len(pickle.dumps(clf))
    clf.tune(X_val, y_val, maximize="f1")
    assert len(pickle.dumps(clf)) < before + 20_000


def test_nested_names_reach_what_is_left_to_its_default():
    clf = LCTClassifier().set_params(head__members=2, objective__maximize="f1", recipe__epochs=3)
    assert (clf.head, clf.objective, clf.recipe) == (FiLMConfig(members=2), Objective(maximize="f1"), Recipe(3))
    with pytest.raises(ValueError, match=r"recipe must be 'exact', an Exact\(…\) or a Recipe\(…\); got 5"):
        LCTClassifier(recipe=5).fit(*table())


def test_what_is_loaded_can_be_trained_and_cross_validated_elsewhere(tmp_path):
    X, y = table()
    quick(run__folder=tmp_path / "run").fit(X, y)
    loaded = LCTClassifier.load(tmp_path / "run")
    assert cross_val_score(loaded, X, y, cv=2, scoring="roc_auc").min() > 0.6


def test_validation_rows_are_matched_by_name():
    X, y = frame()
    X_val, y_val = frame(seed=1)
    clf = quick().fit(X, y, X_val.assign(extra=1)[[*X_val.columns[::-1], "extra"]], y_val)
    assert_array_equal(clf.dial().surface.score(3), clf.dial(X_val, y_val).surface.score(3))
    with pytest.raises(ValueError, match="X_val lacks the column 'town'; "):
        quick().fit(X, y, X_val.drop(columns="town"), y_val)


def test_a_frame_s_columns_as_an_array():
    X, y = frame()
    clf = quick().fit(X, y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert_array_equal(clf.predict_proba(X.to_numpy(dtype=object)), clf.predict_proba(X))


def test_gaps_in_a_frame_are_welcome_where_training_had_a_frame():
    X, y = table()
    gaps = X.copy()
    gaps[:3, 0] = np.nan
    clf = quick().fit(pd.DataFrame(gaps), y)
    assert np.isfinite(clf.predict_proba(pd.DataFrame(gaps))).all()
    with pytest.raises(ValueError, match="X is NaN in 3 of 960 cells"):
        quick().fit(X, y).predict_proba(pd.DataFrame(gaps))


def test_columns_of_one_name_are_refused_with_what_to_do():
    X, y = table()
    twice = pd.DataFrame(X, columns=["a", "a", "b", "c"])
    clf = quick().fit(pd.DataFrame(X, columns=["a", "d", "b", "c"]), y)
    for ask in (lambda: quick().fit(twice, y), lambda: clf.predict(twice)):
        with pytest.raises(ValueError, match=r"X has columns of the same name: \['a'\]. Rename them, or keep"):
            ask()
