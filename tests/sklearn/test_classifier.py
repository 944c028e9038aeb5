"""LCTClassifier: scikit-learn's own checks, labels, any backbone, and what a trained model answers at any λ."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from PIL import Image
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, recall_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from lossdial import Constant, LCTClassifier, Linear, Space
from lossdial.dial import Objective
from lossdial.models import CifarResNet, FiLMConfig, FrozenEncoder, PathHead, TableFeatures
from lossdial.training import Augment, Cosine, OptimizerConfig, Recipe


def expected_failures(_):
    why = "a row of weight two and two rows fall into other batches or folds, and into another share held out"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore:.*(looked for|as many|copies).*:UserWarning")  # scikit-learn's data are balanced
@parametrize_with_checks(
    [
        LCTClassifier(random_state=0),
        LCTClassifier(network="features", random_state=0),
        LCTClassifier("focal", recipe="exact"),
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
    return (rng.standard_normal((n, 4)) + y[:, None]).astype(np.float32), y


def quick(**changes):
    small = {"recipe__epochs": 3, "recipe__batch_size": 32, "random_state": 0}
    network = {} if "network" in changes else {"network__hidden": (8,)}
    return LCTClassifier().set_params(**small | network | changes)


def parameters(clf):
    return [p.detach().clone() for p in clf.bundle_.predictor.model.parameters()]


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(parameters(a), parameters(b), strict=True))


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, _: (X, np.zeros(len(X))), r"y holds one class only, 0\.0; two classes are needed"),
        (lambda X, y: (X, y + (np.arange(len(y)) % 2)), "Only binary classification is supported"),
        (lambda X, y: (np.where(X > 2, np.nan, X), y), r"^X is NaN in \d+ of 960 cells; .* pd.DataFrame\(X\)\.$"),
        (lambda X, y: (np.where(X > 2, np.inf, X), y), r"^X is infinite, .* in \d+ of 960 cells"),
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
        ({"validation_fraction": 1.0}, r"validation_fraction must be None or lie in \[0, 1\); got 1.0"),
        ({"head": "flim"}, r"^head .*'flim'.*did you mean 'film'"),
        ({"head": "path"}, "head 'path' is not trained: an exact solve makes it"),
        (
            {"network": "mpl"},
            "network must be 'table', 'mlp', 'features', a config of one, or a torch module; got 'mpl'",
        ),
        ({"objective": "f1"}, r"objective must be an Objective, such as Objective\(maximize='f1'\); got 'f1'"),
        ({"recipe__augment": Augment(flip_horizontal=True)}, "must be images"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_settings(arguments, message):
    with pytest.raises(ValueError, match=message):
        quick(**arguments).fit(*table())


# scikit-learn's company


def test_pipeline_clone_and_pickle():
    X, y = table()
    pipeline = make_pipeline(StandardScaler(), quick(space=Space(gamma=Constant(0.0), tau=Linear(0, 3, 1 / 3))))
    pipeline.fit(X, y)
    copy = clone(pipeline).fit(X, y)
    assert_array_equal(copy.predict_proba(X), pipeline.predict_proba(X))
    restored = pickle.loads(pickle.dumps(pipeline))
    assert_array_equal(restored.predict_proba(X), pipeline.predict_proba(X))
    assert pipeline.score(X, y) == (pipeline.predict(X) == y).mean()


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


# settings that reach the training


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


def test_weights_count():
    X, y = table(400)
    weight = np.where(X[:, 0] > 0, 5.0, 0.1)
    plain, weighted = quick().fit(X, y), quick().fit(X, y, sample_weight=weight)
    assert not same(plain, weighted)
    assert same(plain, quick().fit(X, y, sample_weight=np.ones(400)))
    assert weighted.bundle_.training.prevalence == pytest.approx(np.average(y, weights=weight), abs=0.05)
    assert weighted.bundle_.evidence.sample_weight is not None


def test_an_objective_with_too_few_held_out_positives_is_a_warning(tmp_path):
    X, y = table(300, share=0.05)
    untuned = quick().fit(X, y)
    with pytest.warns(UserWarning, match=r"the objective is not tuned for, .*y must have at least 5 positives"):
        clf = quick(objective=Objective(maximize="f1"), run__folder=tmp_path / "run").fit(X, y)
    assert clf.points["default"] == untuned.points["default"]
    assert np.array_equal(clf.predict(X), untuned.predict(X))
    assert LCTClassifier.load(tmp_path / "run").points["default"] == clf.points["default"]
    with pytest.warns(UserWarning, match=r"the objective is not tuned for, .*there are no held-out data"):
        quick(objective=Objective(maximize="f1"), validation_fraction=0.0).fit(X, y)
    with pytest.raises(ValueError, match="at least 5 positives to tune on"):  # who asks for it gets an error
        clf.tune(maximize="f1")


# frames


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


def test_a_data_frame_of_every_kind():
    X, y = frame()
    labels = pd.Series(y).map({0: "well", 1: "ill"})
    clf = quick(recipe__epochs=10, pos_label="ill").fit(X, labels)
    assert_array_equal(clf.feature_names_in_, X.columns)
    X_new, y_new = frame(seed=1)
    assert roc_auc_score(y_new, -clf.decision_function(X_new)) > 0.85
    assert set(clf.predict(X_new)) <= {"well", "ill"}
    other = X[[*X.columns[::-1]]]
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        clf.predict(other)
    features = clf.bundle_.predictor.features(other)  # by name, below scikit-learn's face
    assert torch.equal(features, clf.bundle_.predictor.features(X))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert_array_equal(clf.predict_proba(X.to_numpy(dtype=object)), clf.predict_proba(X))


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


def test_validation_rows_are_matched_by_name():
    X, y = frame()
    X_val, y_val = frame(seed=1)
    clf = quick().fit(X, y, X_val.assign(extra=1)[[*X_val.columns[::-1], "extra"]], y_val)
    assert_array_equal(clf.dial().surface.score(3), clf.dial(X_val, y_val).surface.score(3))
    with pytest.raises(ValueError, match="X_val lacks the column 'town'; "):
        quick().fit(X, y, X_val.drop(columns="town"), y_val)


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


# what a trained model answers


@pytest.fixture(scope="module")
def fitted():
    return quick(recipe__epochs=4).fit(*table(600))


@pytest.fixture
def clf(fitted):
    """A copy to tune: the points live in the bundle, which is replaced, never changed."""
    return LCTClassifier.from_bundle(fitted.bundle_)


X_VAL, Y_VAL = table(500, seed=1)

LAMS = [{"gamma": 0.0, "tau": 0.0}, {"gamma": 0.3, "tau": 3.0}, {"gamma": 0.12, "tau": 1.7}]


@pytest.mark.parametrize("lam", LAMS, ids=str)
@pytest.mark.parametrize("arguments", [{}, {"head": FiLMConfig(widths=(6,))}], ids=["folded", "blocks"])
def test_scores_are_those_of_the_whole_network(lam, arguments):
    """Against the full forward pass, which neither folds nor caches anything."""
    clf = quick(**arguments).fit(*table(600))
    model = clf.bundle_.predictor.model.eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(X_VAL), model.space.point(**lam)).numpy()
    margin = logits[:, 1] - logits[:, 0]
    np.testing.assert_allclose(clf.decision_function(X_VAL, lam=lam), margin, atol=1e-5)
    probability = clf.predict_proba(X_VAL, lam=lam)
    np.testing.assert_allclose(probability[:, 1], expit(margin), atol=1e-5)
    np.testing.assert_allclose(probability.sum(1), 1, rtol=1e-12)


def test_lambda_outside_the_trained_range_is_warned_of_by_how_much(fitted):
    with pytest.warns(UserWarning, match=r"outside the trained range: tau by 0\.5 \(trained on \[0, 3\]\)"):
        fitted.predict_proba(X_VAL, lam={"gamma": 0.1, "tau": 3.5})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict_proba(X_VAL, lam={"gamma": 0.3, "tau": 3.0})  # the ends belong to it


def test_a_row_scores_the_same_alone_as_in_company(fitted):
    whole = fitted.decision_function(X_VAL, lam=LAMS[2])
    for i in (0, 17, 499):
        assert fitted.decision_function(X_VAL[i : i + 1], lam=LAMS[2])[0] == whole[i]
    assert_array_equal(
        np.concatenate([fitted.decision_function(part, lam=LAMS[2]) for part in np.split(X_VAL, 20)]), whole
    )


def test_before_training():
    for method in ("predict", "predict_proba", "decision_function", "dial"):
        with pytest.raises(NotFittedError):
            getattr(LCTClassifier(), method)(X_VAL)
    with pytest.raises(NotFittedError):
        LCTClassifier().save("nowhere")


def test_the_untuned_point_is_cross_entropys(fitted):
    point = fitted.points["default"]
    assert point.lam == {"gamma": 0.0, "tau": 0.0}
    assert point.threshold == 0
    assert_array_equal(fitted.decision_function(X_VAL), fitted.decision_function(X_VAL, lam=LAMS[0]))


def test_of_equally_good_lambda_the_dial_takes_the_one_nearest_to_cross_entropy(fitted):
    plain = {"gamma": 0.0, "tau": 0.0}
    for dial in (fitted.dial(), fitted.dial(X_VAL, Y_VAL)):
        assert dial.lams[dial.surface.by_plainness[0]] == dial.surface.plain == plain
    assert fitted.bundle_.envelope.vertices[0].lam == plain


def test_tuning_finds_the_best_of_all_lambda_and_thresholds(clf):
    lams = clf.bundle_.predictor.model.space.grid(gamma=[0.0, 0.1, 0.3], tau=[0.0, 1.5, 3.0])
    point = clf.keep(clf.dial(X_VAL, Y_VAL, lams=lams).tune(maximize="f1"))
    naive = {}
    for lam in lams:
        score = clf.decision_function(X_VAL, lam=lam)
        accepted = score[None, :] >= score[:, None]  # at every threshold, one a row
        hits = (accepted & (Y_VAL == 1)).sum(1)
        naive[tuple(lam.as_dict().values())] = float(np.max(2 * hits / (accepted.sum(1) + Y_VAL.sum())))
    assert f1_score(Y_VAL, clf.predict(X_VAL)) == pytest.approx(max(naive.values()))
    assert naive[tuple(point.lam.values())] == pytest.approx(max(naive.values()))
    assert_array_equal(clf.predict(X_VAL) == 1, clf.decision_function(X_VAL) > 0)


@pytest.mark.filterwarnings("ignore:only .* positives to tune on")
def test_without_data_tuning_uses_the_share_held_out(clf, fitted):
    holdout = fitted.bundle_.evidence
    point = clf.tune(maximize="balanced_accuracy")
    assert (point.n_positive, point.n_negative) == (int(holdout.y.sum()), int((1 - holdout.y).sum()))
    assert point.n_positive + point.n_negative == 120  # a fifth
    assert point == LCTClassifier.from_bundle(fitted.bundle_).tune(maximize="balanced_accuracy")
    # Other scores under the same labels choose otherwise: it is these that were read.
    other = replace(fitted.bundle_, evidence=replace(holdout, scores=holdout.scores[::-1]))
    assert LCTClassifier.from_bundle(other).tune(maximize="balanced_accuracy") != point


def test_wrong_calls(clf):
    with pytest.raises(ValueError, match="X and y go together"):
        clf.tune(X_VAL, maximize="f1")
    with pytest.raises(ValueError, match="y holds 3, which was not seen in training"):
        clf.tune(X_VAL, np.full(500, 3), maximize="f1")
    with pytest.raises(ValueError, match="X has 2 features, but LCTClassifier is expecting 4"):
        clf.tune(X_VAL[:, :2], Y_VAL, maximize="f1")
    few = np.zeros(500, int)
    few[:4] = 1
    with pytest.raises(ValueError, match="there are 4"):
        clf.tune(X_VAL, few, maximize="f1")
    with pytest.raises(ValueError, match="X is NaN in 8 of 8 cells; an array must hold numbers only"):
        clf.predict(np.full((2, 4), np.nan))
    with pytest.raises(ValueError, match=r"X is infinite, or too large for float32, in 8 of 8 cells"):
        clf.predict(np.full((2, 4), np.inf))


def test_features_asked_about_twice_are_computed_once_and_never_confused():
    X, y = table(600)
    clf = quick(recipe__epochs=1).fit(X, y)
    calls = []
    clf.bundle_.predictor.model.backbone.register_forward_hook(lambda *_: calls.append(None))
    first = clf.dial(X_VAL, Y_VAL)
    assert calls
    calls.clear()
    again = clf.dial(X_VAL, Y_VAL)
    assert not calls
    assert_array_equal(first.surface.score_rows(0, 3), again.surface.score_rows(0, 3))
    for seed in range(4):  # models come and go, and addresses come again
        clf.set_params(random_state=seed).fit(X, y)
        dial = clf.dial(X_VAL, Y_VAL)
        assert_array_equal(dial.surface.score(5), clf.decision_function(X_VAL, lam=dial.lams[5]))


@pytest.mark.parametrize("positive", [0, 1])
def test_a_tuned_point_speaks_of_the_positive_class(positive):
    """Recall of the class looked for, whichever side of classes_ it stands on."""
    X, y = table(600)
    labels = np.array(["a", "b"])
    clf = quick(pos_label=labels[positive]).fit(X, labels[np.where(y == 1, positive, 1 - positive)])
    y_val = labels[np.where(Y_VAL == 1, positive, 1 - positive)]
    clf.tune(X_VAL, y_val, maximize="precision", subject_to={"recall": 0.9})
    predicted = clf.predict(X_VAL)
    assert recall_score(y_val, predicted, pos_label=labels[positive]) >= 0.9
    assert_array_equal(predicted == "b", clf.decision_function(X_VAL) > 0)


# the default on tables


def mixed(n=900, seed=0):
    """Two columns that tell the class together only, one of text, one with gaps."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    kind = rng.choice(["a", "b", "c"], n)
    odds = 3.5 * ((x[:, 0] > 0) ^ (x[:, 1] > 0)) + (kind == "b") - 3.5
    frame = pd.DataFrame(x, columns=["u", "v", "w"]).assign(kind=kind)
    frame.loc[rng.random(n) < 0.1, "w"] = np.nan
    return frame, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)


@pytest.fixture(scope="module")
def by_default():
    return LCTClassifier(random_state=0).fit(*mixed())


def test_features_of_trees_and_an_exact_head_are_the_default(by_default):
    model = by_default.bundle_.predictor.model
    assert isinstance(model.backbone, TableFeatures)
    assert isinstance(model.head, PathHead)
    assert model.space.free == ("ridge",)
    assert by_default.get_params()["network__boosted"] == 200


def test_a_row_scores_alone_as_among_others(by_default):
    frame, _ = mixed(150, seed=1)
    together = by_default.decision_function(frame)
    alone = np.concatenate([by_default.decision_function(frame.iloc[[i]]) for i in range(len(frame))])
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize(
    "settings",
    [{"head": "film"}, {"recipe": Recipe(epochs=1)}, {"space": Space(gamma=Constant(0), tau=Constant(1))}],
    ids=str,
)
def test_settings_of_a_training_are_refused_beside_table(settings):
    X, y = mixed(200)
    with pytest.raises(ValueError, match=r"learned from labelled rows.*network='mlp'"):
        LCTClassifier(network="table", **settings).fit(X, y)
