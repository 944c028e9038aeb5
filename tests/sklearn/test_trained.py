"""What a trained classifier answers, at any λ and at the points that tuning chose."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, precision_score, recall_score
from torch import nn

from lossdial import LCTClassifier
from lossdial.models import FiLMConfig


def table(n=600, share=0.25, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return (rng.standard_normal((n, 4)) + y[:, None]).astype(np.float32), y


def quick(**changes):
    small = {"recipe__epochs": 4, "recipe__batch_size": 64, "network__hidden": (8,), "random_state": 0}
    return LCTClassifier().set_params(**small | changes)


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    return quick().fit(X, y)


@pytest.fixture
def clf(fitted):
    """A copy to tune: the points live in the bundle, which is replaced, never changed."""
    return LCTClassifier.from_bundle(fitted.bundle_)


X_VAL, Y_VAL = table(500, seed=1)
LAMS = [{"gamma": 0.0, "tau": 0.0}, {"gamma": 0.3, "tau": 3.0}, {"gamma": 0.12, "tau": 1.7}]


# λ


@pytest.mark.parametrize("lam", LAMS, ids=str)
@pytest.mark.parametrize("arguments", [{}, {"head": FiLMConfig(widths=(6,))}], ids=["folded", "blocks"])
def test_scores_are_those_of_the_whole_network(lam, arguments):
    """Against the full forward pass, which neither folds nor caches anything."""
    clf = quick(**arguments).fit(*table())
    model = clf.bundle_.predictor.model.eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(X_VAL), model.space.point(**lam)).numpy()
    margin = logits[:, 1] - logits[:, 0]
    np.testing.assert_allclose(clf.decision_function(X_VAL, lam=lam), margin, atol=1e-5)
    probability = clf.predict_proba(X_VAL, lam=lam)
    np.testing.assert_allclose(probability[:, 1], expit(margin), atol=1e-5)
    np.testing.assert_allclose(probability.sum(1), 1, rtol=1e-12)


def test_lambda_matters(fitted):
    scores = [fitted.decision_function(X_VAL, lam=lam).mean() for lam in LAMS]
    assert max(scores) - min(scores) > 0.1


def test_lambda_outside_the_trained_range_is_warned_of_by_how_much(fitted):
    with pytest.warns(UserWarning, match=r"outside the trained range: tau by 0\.5 \(trained on \[0, 3\]\)"):
        fitted.predict_proba(X_VAL, lam={"gamma": 0.1, "tau": 3.5})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict_proba(X_VAL, lam={"gamma": 0.3, "tau": 3.0})  # the ends belong to it


def test_a_lambda_that_the_loss_lacks(fitted):
    with pytest.raises(ValueError, match="lam has no 'phi'; this space has gamma, tau"):
        fitted.predict_proba(X_VAL, lam={"gamma": 0.1, "tau": 1.0, "phi": 2.0})
    with pytest.raises(ValueError, match="lam needs a value for tau"):
        fitted.decision_function(X_VAL, lam={"gamma": 0.1})


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


# tuning


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


def test_a_floor_on_recall(clf):
    clf.tune(X_VAL, Y_VAL, maximize="precision", subject_to={"recall": 0.9}, name="screening")
    predicted = clf.predict(X_VAL, point="screening")
    assert recall_score(Y_VAL, predicted) >= 0.9
    assert precision_score(Y_VAL, predicted) > Y_VAL.mean()
    assert clf.points.keys() == {"default", "screening"}
    with pytest.raises(ValueError, match="must name an operating point; there are 'default', 'screening'"):
        clf.predict(X_VAL, point="triage")


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


def test_tuning_never_calls_the_backbone_on_held_out_data(fitted):
    class Silent(nn.Module):
        def forward(self, _):
            raise AssertionError("the features of the share held out are kept")

    clf = LCTClassifier.from_bundle(fitted.bundle_)
    backbone, clf.bundle_.predictor.model.backbone = clf.bundle_.predictor.model.backbone, Silent()
    try:
        assert clf.dial().scores.shape == (120, 121)  # an even grid of 11 x 11
    finally:
        clf.bundle_.predictor.model.backbone = backbone


def test_tuning_on_the_training_data_is_warned_of(clf):
    X, y = table()
    with pytest.warns(UserWarning, match=r"about 4\d\d of these 600 samples \((79|80|81)%\) were trained on"):
        clf.tune(X, y, maximize="f1")
    with pytest.warns(UserWarning, match="trained on"):  # whatever they are held in
        clf.tune(X.astype(np.float64).tolist(), y.tolist(), maximize="f1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.tune(X_VAL, Y_VAL, maximize="f1")


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
    X, y = table()
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


def test_a_bundle_is_never_changed_by_tuning(fitted, clf):
    before = dict(fitted.bundle_.points)
    clf.tune(X_VAL, Y_VAL, maximize="f1", name="other")
    assert dict(fitted.bundle_.points) == before


@pytest.mark.parametrize("positive", [0, 1])
def test_a_tuned_point_speaks_of_the_positive_class(positive):
    """Recall of the class looked for, whichever side of classes_ it stands on."""
    X, y = table()
    labels = np.array(["a", "b"])
    clf = quick(pos_label=labels[positive]).fit(X, labels[np.where(y == 1, positive, 1 - positive)])
    y_val = labels[np.where(Y_VAL == 1, positive, 1 - positive)]
    clf.tune(X_VAL, y_val, maximize="precision", subject_to={"recall": 0.9})
    predicted = clf.predict(X_VAL)
    assert recall_score(y_val, predicted, pos_label=labels[positive]) >= 0.9
    assert_array_equal(predicted == "b", clf.decision_function(X_VAL) > 0)
