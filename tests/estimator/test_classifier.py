"""LCTClassifier: scikit-learn's own checks, and everything that fit promises."""

import json
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import lossdial.training.loop
from lossdial import Constant, LCTClassifier, Linear, Space, VSLoss
from lossdial.models import CifarResNet
from lossdial.training import CheckpointError, Cosine, DivergedError, Flat
from lossdial.training.batches import Augment


def expected_failures(_):
    why = "a row of weight two and two rows fall into other mini-batches, and into another share held out"
    return {"check_sample_weight_equivalence_on_dense_data": why}


@pytest.mark.filterwarnings("ignore:.*(looked for|as many).*:UserWarning")  # scikit-learn's data are balanced
@parametrize_with_checks(
    [LCTClassifier(recipe=Recipe(epochs=10), random_state=0), LCTClassifier("focal", recipe=Recipe(10), random_state=0)],
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
        (lambda X, _: (X, np.zeros(len(X))), r"y holds one class only, 0\.0; two are needed"),
        (lambda X, y: (X, y + (np.arange(len(y)) % 2)), "Only binary classification is supported"),
        (lambda X, y: (np.where(X > 2, np.nan, X), y), "Input X contains NaN"),
        (lambda X, y: (np.where(X > 2, np.inf, X), y), "Input X contains infinity"),
        (lambda X, y: (X.astype(str).astype(object) + "a", y), "could not convert string to float"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X[:, :, None], y), "dim 3"),
        pytest.param(
            lambda X, y: (X * 1e300, y),
            "infinity or a value too large for dtype",
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
        ({"pos_label": "ill"}, r"pos_label='ill' is not one of the labels \[0, 1\]"),
        ({"validation_fraction": 1.0}, r"validation_fraction must lie in \[0, 1\); got 1.0"),
        ({"head": "flim"}, "unknown head 'flim'; did you mean 'film'"),
        ({"network": "mlp"}, "network must be an MLPConfig or a torch module; got 'mlp'"),
        ({"aim": "f1"}, r"aim must be an Objective, such as Objective\(maximize='f1'\); got 'f1'"),
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
    with pytest.warns(UserWarning, match=r"5 of 320 training samples are positive, so about 78% of the batches of 16"):
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
    assert_array_equal(dial.surface.score(k), clf.decision_function(X[held], dial.lams[k]))


def test_validation_data_of_ones_own():
    X, y = table()
    X_val, y_val = table(100, seed=1)
    X[:, 0] = np.arange(len(X))
    clf = quick(network=Recorder(), recipe__optimizer__lr=1e-6).fit(X, y, X_val, y_val)
    assert len(set(torch.cat(clf.bundle_.predictor.model.backbone.seen).int().tolist())) == len(X)  # nothing is held out
    assert_array_equal(clf.bundle_.evidence.y, y_val)
    assert_array_equal(clf.dial().surface.score(7), clf.decision_function(X_val, clf.dial().lams[7]))
    score = clf.decision_function(X_val)
    assert clf.history_[-1]["auc"] == pytest.approx(roc_auc_score(y_val, score), abs=1e-6)


def test_validation_labels_must_come_along():
    X, y = table()
    with pytest.raises(ValueError, match="pass X_val and y_val together"):
        quick().fit(X, y, X)
    with pytest.raises(ValueError, match="y holds 7, which was not seen in training"):
        quick().fit(X, y, X, np.full(len(y), 7))


@pytest.mark.parametrize(("positives", "share"), [(4, 0.2), (60, 0.0)])
def test_nothing_is_held_out_where_there_is_nothing_to_share(positives, share):
    X, y = table(share=0)
    y[:positives] = 1
    clf = quick(validation_fraction=share, recipe__batch_size=240).fit(X, y)
    assert clf.bundle_.evidence is None
    assert "auc" not in clf.history_[0]
    with pytest.raises(ValueError, match="there are no held-out data"):
        clf.tune(maximize="f1")


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
    assert clone(quick(network=Recorder())).get_params().keys() == quick().get_params().keys()


def test_grid_search():
    X, y = table()
    search = GridSearchCV(quick(), {"recipe__optimizer__lr": [1e-6, 0.03], "network__hidden": [(8,), (4, 4)]}, cv=2, scoring="roc_auc").fit(X, y)
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
    assert same(first, quick().fit(X, y))
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
        {"recipe__lam_per": "sample"},
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
    assert arguments["loss"].evaluations == 18 - 10  # three epochs of six batches, ten steps done before
    seed = json.loads(torch.load(tmp_path / "checkpoint.pt", weights_only=True)["identity"])["seed"]
    whole = quick(**settings(-1) | {"run__folder": None})
    whole._seed = lambda: seed
    assert same(clf, whole.fit(X, y))
    assert [json.loads(line)["epoch"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [1, 2, 3]
    assert [row["loss"] for row in clf.history_] == [row["loss"] for row in whole.history_]


def test_a_run_of_other_data_or_settings_is_refused(tmp_path):
    X, y = table()
    quick(run__folder=tmp_path).fit(X, y)
    quick(run__folder=tmp_path, run__progress=False).fit(X, y)  # what changes no weight may change
    with pytest.raises(CheckpointError, match=r"other settings \(lr: '0.003' then, '0.01' now\)"):
        quick(run__folder=tmp_path, recipe__optimizer__lr=0.01).fit(X, y)
    with pytest.raises(CheckpointError, match=r"other settings \(data: \d+ then, \d+ now\)"):
        quick(run__folder=tmp_path).fit(X + 1e-3, y)
    with pytest.raises(CheckpointError, match=r"other settings \(data: \d+ then, \d+ now\)"):
        quick(run__folder=tmp_path).fit(X, np.roll(y, 1))
    with pytest.raises(CheckpointError, match=r"other settings \(seed: \d+ then, \d+ now\)"):
        quick(run__folder=tmp_path, random_state=1).fit(X, y)
