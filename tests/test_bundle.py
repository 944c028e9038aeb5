"""A model on disk: the same predictions to the last bit, and an error of its own for every way to break it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from lossdial import Bundle, Constant, LCTClassifier, Space
from lossdial.bundle import BundleError, Holdout
from lossdial.data import TableEncoder
from lossdial.models import MLP, CifarResNet
from lossdial.training.batches import Augment


def table(n=160, columns=4):
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.3).astype(int)
    return (rng.standard_normal((n, columns)) + y[:, None]).astype(np.float32), y


def images(n=80):
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.3).astype(int)
    return (rng.integers(0, 200, (n, 3, 8, 8)) + 50 * y[:, None, None, None]).astype(np.uint8), y


class OwnBackbone(nn.Module):
    """A user's module, with tied weights and batch normalisation."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.second(self.first(x).relu()))


VARIANTS = {
    "table": (table, {}),
    "focal": (table, {"loss": "focal"}),
    "baseline": (table, {"space": Space(gamma=Constant(0.1), tau=Constant(1.0))}),
    "one constant": (table, {"space": Space.from_json({"gamma": [0.1], "tau": [0, 3, 0.2]})}),
    "FiLM in every layer of the head": (table, {"head_widths": (6, 5), "film_scale": "sigma"}),
    "images": (images, {"backbone": CifarResNet(8, 2), "augment": Augment(crop_padding=1)}),
    "own backbone": (table, {"backbone": OwnBackbone()}),
    "MLP with dropout": (table, {"backbone": MLP(4, (8,), dropout=0.2)}),
}


def trained(X, y, **arguments):
    settings = {"epochs": 2, "batch_size": 32, "hidden": (8,), "random_state": 0, **arguments}
    return LCTClassifier(**settings).fit(X, y)


@pytest.fixture(scope="module")
def classifier():
    clf = trained(*table())
    with pytest.warns(UserWarning, match="positives"):
        clf.tune(maximize="f1", name="screening")
    return clf


@pytest.fixture
def saved(classifier, tmp_path) -> Path:
    classifier.save(tmp_path / "bundle")
    return tmp_path / "bundle"


def weights_file(folder: Path) -> Path:
    (path,) = folder.glob("weights-*.safetensors")
    return path


def validation_file(folder: Path) -> Path:
    (path,) = folder.glob("validation-*.safetensors")
    return path


@pytest.mark.parametrize("variant", VARIANTS)
def test_predictions_are_bit_identical_after_loading(variant, tmp_path):
    data, arguments = VARIANTS[variant]
    X, y = data()
    clf = trained(X, y, **arguments)
    clf.save(tmp_path / "new" / "folder")
    own = OwnBackbone() if variant == "own backbone" else None
    loaded = LCTClassifier.load(tmp_path / "new" / "folder", backbone=own)
    space = clf.bundle_.model.space
    assert loaded.bundle_.model.space == space
    for lam in (None, *space.sample((3,), torch.Generator().manual_seed(0))):
        assert np.array_equal(clf.decision_function(X, lam), loaded.decision_function(X, lam))
        assert np.array_equal(clf.predict_proba(X, lam), loaded.predict_proba(X, lam))
    assert np.array_equal(clf.predict(X), loaded.predict(X))
    ours, theirs = clf.surface(), loaded.surface()
    assert ours.lams == theirs.lams
    assert np.array_equal(ours.score_rows(0, len(ours.lams)), theirs.score_rows(0, len(theirs.lams)))
    assert np.array_equal(ours.y, theirs.y)
    assert loaded.history_ == clf.history_
    assert not loaded.bundle_.model.training


def test_nothing_is_lost(classifier, saved):
    before, after = classifier.bundle_, Bundle.load(saved)
    for name in ("loss", "classes", "prevalence", "points", "envelope", "encoder", "feature_names", "training"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.points.keys() == {"default", "screening"}
    assert torch.equal(after.holdout.features, before.holdout.features)
    again = LCTClassifier.load(saved)
    assert again.hidden == (8,)
    with pytest.warns(UserWarning, match="positives"):
        point = again.tune(maximize="f1", name="screening")
    assert point == before.points["screening"]


def test_the_encoder_of_a_table_comes_along(classifier, tmp_path):
    frame = pd.DataFrame({"age": [30.0, None, 51.0], "city": ["Kyiv", "Ghent", None], "dose": [1, 2, 3]})
    bundle = replace(classifier.bundle_, encoder=TableEncoder().fit(frame))
    bundle.save(tmp_path)
    assert np.array_equal(Bundle.load(tmp_path).encode(frame), bundle.encode(frame))
    with pytest.raises(BundleError, match="trained on arrays, not on a table"):
        classifier.bundle_.encode(frame)


def test_a_loaded_estimator_can_be_trained_again(tmp_path):
    X, y = table()
    trained(X, y, head_widths=(6,), film_scale="sigma").save(tmp_path)
    loaded = LCTClassifier.load(tmp_path).set_params(epochs=1, random_state=0)
    head = loaded.fit(X, y).bundle_.model.head
    assert (head.config.widths, head.config.scale) == ((6,), "sigma")


def test_versions_are_noted(saved):
    content = json.loads((saved / "bundle.json").read_text())
    assert content["versions"]["torch"] == torch.__version__
    assert set(content["versions"]) == {"python", "lossdial", "torch", "numpy", "scikit-learn", "safetensors"}


@pytest.mark.parametrize(
    "labels",  # the numbers of an array of objects are refused by scikit-learn itself
    [
        np.array(["healthy", "ill"]),
        np.array(["healthy", "ill"], dtype=object),
        np.array([0, 1]),
        np.array([-1, 1], dtype=np.int8),
        np.array([False, True]),
        np.array([1.0, 2.0]),
    ],
    ids=lambda a: f"{a.dtype}-{a[0]}",
)
@pytest.mark.parametrize("positive", [0, 1])
def test_labels_of_any_kind(labels, positive, tmp_path):
    X, y = table()
    clf = trained(X, labels[np.where(y == 1, positive, 1 - positive)], pos_label=labels[positive], epochs=1)
    clf.save(tmp_path)
    loaded = LCTClassifier.load(tmp_path)
    assert loaded.classes_.dtype == clf.classes_.dtype
    assert np.array_equal(loaded.classes_, labels)
    predicted = loaded.predict(X)
    assert predicted.dtype == clf.predict(X).dtype
    assert np.array_equal(predicted, clf.predict(X))
    assert loaded.bundle_.classes == (labels[1 - positive], labels[positive])


def test_a_backbone_of_ones_own_must_be_given(tmp_path):
    trained(*table(), backbone=OwnBackbone()).save(tmp_path)
    with pytest.raises(
        BundleError, match=r"backbone is a module of your own, .*OwnBackbone; pass it: load\(path, back"
    ):
        Bundle.load(tmp_path)
    with pytest.raises(BundleError, match="do not fit the model it describes"):
        Bundle.load(tmp_path, backbone=nn.Linear(4, 4))


# every way to break it


def test_missing_folder(tmp_path):
    with pytest.raises(BundleError, match="nowhere does not exist; a bundle is the folder that"):
        Bundle.load(tmp_path / "nowhere")


def test_missing_json(tmp_path):
    with pytest.raises(BundleError, match=r"holds no bundle\.json; is it the right one\?"):
        Bundle.load(tmp_path)
    (tmp_path / "checkpoint.pt").write_bytes(b"")
    with pytest.raises(BundleError, match="has not finished: give the same train command again"):
        Bundle.load(tmp_path)


def test_truncated_json(saved):
    path = saved / "bundle.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BundleError, match=r"bundle\.json is truncated or not JSON .*Copy the bundle again"):
        Bundle.load(saved)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": "one"}', "null"])
def test_json_of_something_else(saved, text):
    (saved / "bundle.json").write_text(text)
    with pytest.raises(BundleError, match="is not a bundle of lossdial"):
        Bundle.load(saved)


def test_altered_json(saved):
    path = saved / "bundle.json"
    content = json.loads(path.read_text())
    content["prevalence"] += 1e-9
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match=r"bundle\.json was altered after it was written"):
        Bundle.load(saved)
    content["prevalence"] -= 1e-9
    path.write_text(json.dumps(content, indent=4))  # another layout of the same content is no alteration
    Bundle.load(saved)


def test_newer_format(saved):
    path = saved / "bundle.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({"format": content["format"] + 1, "versions": {"lossdial": "9.9"}}))
    with pytest.raises(
        BundleError, match=r"has format 2, written by lossdial 9\.9; this version reads up to 1. Update"
    ):
        Bundle.load(saved)


def test_missing_weights(saved):
    weights_file(saved).unlink()
    with pytest.raises(BundleError, match=r"weights-.*\.safetensors is missing"):
        Bundle.load(saved)


def test_truncated_weights(saved):
    path = weights_file(saved)
    size = path.stat().st_size
    os.truncate(path, size - 1)
    with pytest.raises(BundleError, match=rf"weights-.* is truncated: {size - 1:,} of {size:,} bytes"):
        Bundle.load(saved)


def test_altered_weights(saved):
    path = weights_file(saved)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(BundleError, match=r"weights-.* was altered after it was written"):
        Bundle.load(saved)


def test_weights_are_never_read_from_outside_the_folder(saved, tmp_path):
    from lossdial.bundle import _digest

    path = saved / "bundle.json"
    content = json.loads(path.read_text())
    weights_file(saved).rename(tmp_path / "elsewhere.safetensors")
    content["weights"]["file"] = "../elsewhere.safetensors"
    content["sha256"] = _digest(content)
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match="is missing"):
        Bundle.load(saved)


def test_without_its_validation_file_a_bundle_is_complete(saved):
    validation_file(saved).unlink()
    assert Bundle.load(saved).holdout is None
    with pytest.raises(ValueError, match="there are no held-out data"):
        LCTClassifier.load(saved).tune(maximize="f1")


@pytest.mark.parametrize(
    ("damage", "word"), [(lambda data: data[:-1], "truncated"), (lambda d: d[:-1] + bytes([d[-1] ^ 1]), "altered")]
)
def test_damaged_validation_file(saved, damage, word):
    path = validation_file(saved)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BundleError, match=rf"validation-.* {word}.*Delete it: only tuning without data needs it"):
        Bundle.load(saved)
    path.unlink()
    Bundle.load(saved)


# writing


def test_a_file_is_not_a_folder(classifier, tmp_path):
    (tmp_path / "bundle").write_text("notes")
    with pytest.raises(BundleError, match="is a file; a bundle is a folder"):
        classifier.save(tmp_path / "bundle")
    assert (tmp_path / "bundle").read_text() == "notes"


def test_saving_over_a_bundle_leaves_nothing_of_it(saved):
    (saved / "notes.txt").write_text("mine")
    other = trained(*table(), random_state=1)
    other.save(saved)
    assert sorted(p.name.split("-")[0] for p in saved.iterdir()) == [
        "bundle.json",
        "notes.txt",
        "validation",
        "weights",
    ]
    assert torch.equal(Bundle.load(saved).holdout.features, other.bundle_.holdout.features)
    replace(other.bundle_, holdout=None).save(saved)
    assert Bundle.load(saved).holdout is None  # not that of the model before
    assert not list(saved.glob("validation-*"))


class DiskFull(OSError):
    pass


@pytest.mark.parametrize("failing", ["weights", "validation", "bundle"])
@pytest.mark.parametrize("moment", ["write", "rename"])
def test_when_a_write_fails_the_old_bundle_stays(classifier, saved, monkeypatch, failing, moment):
    before = {p.name: p.read_bytes() for p in saved.iterdir()}
    expected = classifier.predict_proba(table()[0])
    other = trained(*table(), random_state=1)
    fsync, rename, synced = os.fsync, Path.replace, []

    def failing_fsync(file):
        synced.append(file)
        if len(synced) == 1 + ["weights", "validation", "bundle"].index(failing):
            raise DiskFull
        fsync(file)

    def failing_rename(self, target):
        if failing in self.name:
            raise DiskFull
        return rename(self, target)

    if moment == "write":
        monkeypatch.setattr(os, "fsync", failing_fsync)
    else:
        monkeypatch.setattr(Path, "replace", failing_rename)
    with pytest.raises(DiskFull):
        other.save(saved)
    monkeypatch.undo()
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == before
    loaded = LCTClassifier.load(saved)
    assert np.array_equal(loaded.predict_proba(table()[0]), expected)
    assert np.array_equal(loaded.surface().y, classifier.surface().y)


@pytest.mark.parametrize("size", [100, 2000])
def test_a_disk_that_is_full_for_real(saved, full_disk, size):
    before = {p.name: p.read_bytes() for p in saved.iterdir()}
    other = trained(*table(), random_state=1)
    with full_disk(size), pytest.raises(OSError, match="too large"):
        other.save(saved)
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == before


def test_what_cannot_be_written_is_noticed_before_anything_is(classifier, saved):
    before = {p.name: p.read_bytes() for p in saved.iterdir()}
    bad = replace(classifier.bundle_, holdout=Holdout(torch.zeros(1, 8), np.array([1])), training={"x": object()})
    with pytest.raises(TypeError):
        bad.save(saved)
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == before
