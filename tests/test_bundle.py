"""A model on disk: the same predictions to the last bit, and an error of its own for every way to break it."""

import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from torch import nn

from lossdial import Bundle, Constant, LCTClassifier, Linear, Space
from lossdial.base.files import digest
from lossdial.bundle import BundleError
from lossdial.models import MLP, CifarResNet, FiLMConfig, FrozenEncoder
from lossdial.training import Augment, Exact, Recipe


def table(n=160, columns=4):
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.3).astype(int)
    return (rng.standard_normal((n, columns)) + y[:, None]).astype(np.float32), y


def images(n=80):
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.3).astype(int)
    return (rng.integers(0, 200, (n, 3, 8, 8)) + 50 * y[:, None, None, None]).astype(np.uint8), y


def frame(n=160):
    X, y = table(n)
    town = np.where(np.arange(n) % 3 == 0, "Ulm", "Bern").astype(object)
    town[5] = None
    return pd.DataFrame({"a": X[:, 0], "town": town, "b": X[:, 1], "smoker": y + X[:, 2] > 0}), y


class OwnBackbone(nn.Module):
    """A user's module, with tied weights and batch normalisation."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.second(self.first(x).relu()))


RIDGE = Space(gamma=Constant(0.0), tau=Linear(0, 2, 0.5), ridge=Linear(-2, 2, 0.25))
VARIANTS = {
    "table": (table, {}),
    "baseline": (table, {"space": Space(gamma=Constant(0.1), tau=Constant(1.0))}),
    "not told λ": (table, {"head": "plain"}),
    "FiLM in every layer of the head": (table, {"head": FiLMConfig(widths=(6, 5), scale="sigma")}),
    "the ridge as a coordinate": (
        table,
        {"head": "polynomial", "space": Space(gamma=Constant(0.0), tau=Linear(0, 2, 0.5), ridge=Linear(-2, 2, 0.25))},
    ),
    "an ensemble": (table, {"head": FiLMConfig(members=3)}),
    "images": (images, {"network": CifarResNet(8, 2), "recipe": Recipe(2, augment=Augment(crop_padding=1))}),
    "a frozen network, solved": (images, {"network": FrozenEncoder(CifarResNet(8, 2)), "recipe": Exact(tol=1e-6)}),
    "features, solved": (frame, {"loss": "focal", "network": "features", "recipe": "exact"}),
    "own network": (table, {"network": OwnBackbone()}),
    "MLP with dropout": (table, {"network": MLP(4, (8,), dropout=0.2)}),
    "a data frame": (frame, {}),
}


def trained(X, y, **arguments):
    settings = {"recipe": Recipe(2, batch_size=32), "random_state": 0, **arguments}
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


def the_file(folder: Path, kind: str) -> Path:
    (path,) = folder.glob(f"{kind}-*.safetensors")
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def rewrite(folder: Path, change) -> None:
    """bundle.json with a change that a stranger could make, checksum and all."""
    path = folder / "bundle.json"
    content = json.loads(path.read_text())
    content.pop("sha256")
    content = change(content) or content
    path.write_text(json.dumps(content | {"sha256": digest(content)}))


@pytest.mark.parametrize("variant", VARIANTS)
def test_predictions_are_bit_identical_after_loading(variant, tmp_path):
    data, arguments = VARIANTS[variant]
    X, y = data()
    clf = trained(X, y, **arguments)
    clf.save(tmp_path / "new" / "folder")
    own = OwnBackbone() if variant == "own network" else None
    loaded = LCTClassifier.load(tmp_path / "new" / "folder", network=own)
    space = clf.bundle_.predictor.space
    assert loaded.bundle_.predictor.space == space
    for lam in (None, *space.sample((3,), torch.Generator().manual_seed(0))):
        assert np.array_equal(clf.decision_function(X, lam=lam), loaded.decision_function(X, lam=lam))
        assert np.array_equal(clf.predict_proba(X, lam=lam), loaded.predict_proba(X, lam=lam))
    assert np.array_equal(clf.predict(X), loaded.predict(X))
    ours, theirs = clf.dial(), loaded.dial()
    assert ours.lams == theirs.lams
    assert np.array_equal(ours.scores, theirs.scores)
    assert np.array_equal(ours.y, theirs.y)
    assert loaded.history_ == clf.history_
    assert not loaded.bundle_.predictor.model.training


def test_nothing_is_lost(classifier, saved):
    before, after = classifier.bundle_, Bundle.load(saved)
    assert set(json.loads((saved / "bundle.json").read_text())["versions"]) >= {"python", "lossdial", "torch", "numpy"}
    with safe_open(the_file(saved, "evidence"), "pt") as file:  # neither rows nor features
        assert set(file.keys()) == {"y", "scores", "models", "seen", "seen_counts", "seen_width"}
    assert after.predictor.classes == before.predictor.classes
    assert after.predictor.schema == before.predictor.schema
    assert after.training == before.training
    assert dict(after.points) == dict(before.points)
    assert after.points.keys() == {"default", "screening"}
    assert all(np.array_equal(a, b) for a, b in zip(vars(after.seen).values(), vars(before.seen).values(), strict=True))
    assert after.envelope.to_json() == before.envelope.to_json()
    again = LCTClassifier.load(saved)
    with pytest.warns(UserWarning, match="positives"):
        point = again.tune(maximize="f1", name="screening")
    assert point == before.points["screening"]


def test_without_evidence(classifier, saved, tmp_path):
    classifier.save(tmp_path / "bare", evidence=False)
    the_file(saved, "evidence").unlink()
    whole = LCTClassifier.from_bundle(classifier.bundle_)
    with pytest.warns(UserWarning, match="positives"):
        point = whole.adapt(prevalence=0.1, cost_fn=5, cost_fp=1, name="clinic")
    for folder in (tmp_path / "bare", saved):
        assert not list(folder.glob("evidence-*"))
        loaded = LCTClassifier.load(folder)
        assert loaded.bundle_.evidence is None
        with pytest.raises(ValueError, match="there are no held-out data"):
            loaded.tune(maximize="f1")
        with pytest.warns(UserWarning, match="positives"):  # the envelope is there all the same
            assert loaded.adapt(prevalence=0.1, cost_fn=5, cost_fp=1, name="clinic") == point


# the numbers of an array of objects are refused by scikit-learn itself
LABELS = [np.array(["healthy", "ill"]), np.array([0, 1]), np.array([-1, 1], dtype=np.int8), np.array([False, True])]


@pytest.mark.parametrize("labels", LABELS, ids=lambda a: f"{a.dtype}-{a[0]}")
@pytest.mark.parametrize("positive", [0, 1])
def test_labels_of_any_kind(labels, positive, tmp_path):
    X, y = table()
    clf = trained(X, labels[np.where(y == 1, positive, 1 - positive)], pos_label=labels[positive], recipe=Recipe(1))
    clf.save(tmp_path)
    loaded = LCTClassifier.load(tmp_path)
    for kept, expected in ((loaded.classes_, labels), (loaded.predict(X), clf.predict(X))):
        assert kept.dtype == expected.dtype
        assert np.array_equal(kept, expected)
    assert loaded.bundle_.predictor.classes == (labels[1 - positive], labels[positive])


def test_a_network_of_ones_own_must_be_given(tmp_path):
    trained(*table(), network=OwnBackbone()).save(tmp_path)
    with pytest.raises(BundleError, match=r"module of your own, .*OwnBackbone; pass it: load\(path, network"):
        Bundle.load(tmp_path)
    with pytest.raises(BundleError, match="do not fit the model it describes"):
        Bundle.load(tmp_path, network=nn.Linear(4, 4))


def flip_last_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut_last_byte(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def move_outside(folder: Path) -> None:
    the_file(folder, "weights").rename(folder.parent / "elsewhere.safetensors")
    rewrite(folder, lambda content: content["weights"].update(file="../elsewhere.safetensors"))


def of_format(version: int):
    return lambda folder: rewrite(folder, lambda c: c | {"format": version, "versions": {"lossdial": "9.9"}})


def text(content: str):
    return lambda folder: (folder / "bundle.json").write_text(content)


DAMAGES = {
    "no folder": (lambda folder: shutil.rmtree(folder), "does not exist; a model is the folder that"),
    "unfinished": (
        lambda folder: (folder / "bundle.json").rename(folder / "checkpoint.pt"),
        "has not finished: train again with the same settings",
    ),
    "no JSON": (lambda folder: (folder / "bundle.json").unlink(), r"holds no bundle\.json; is it the right one\?"),
    "truncated": (lambda folder: cut_last_byte(folder / "bundle.json"), "is truncated or not JSON"),
    **{
        content: (text(content), "is not a bundle of lossdial") for content in ("[]", "{}", '{"format": "one"}', "null")
    },
    "nested": (text("[" * 200_000), "nested too deeply"),
    "nested below": (text('{"format": 2, "a": ' + "[" * 900 + "]" * 900 + "}"), "nested too deeply|does not match"),
    "a terabyte that takes no room": (
        lambda folder: os.truncate(folder / "bundle.json", 2**40),
        r"has 1,099,511,627,776 bytes; a bundle has at most 67,108,864",
    ),
    "an old format": (of_format(1), r"format 1, written by lossdial 9\.9; this version reads 2\. Train it again"),
    "a new format": (of_format(3), r"format 3, written by lossdial 9\.9; this version reads 2\. Update lossdial"),
    "no weights": (lambda folder: the_file(folder, "weights").unlink(), r"weights-.*\.safetensors is missing"),
    "cut weights": (lambda folder: cut_last_byte(the_file(folder, "weights")), r"weights-.* is truncated: .* in place"),
    "altered weights": (lambda folder: flip_last_bit(the_file(folder, "weights")), "weights-.* was altered after"),
    "weights outside the folder": (move_outside, "is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_has_a_message_of_its_own(saved, damage):
    damaged, message = DAMAGES[damage]
    damaged(saved)
    with pytest.raises(BundleError, match=message):
        Bundle.load(saved)


def test_altered_json(saved):
    path = saved / "bundle.json"
    content = json.loads(path.read_text())
    content["n_features"] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match=r"bundle\.json was altered after it was written"):
        Bundle.load(saved)
    content["n_features"] -= 1
    path.write_text(json.dumps(content, indent=4))  # another layout of the same content is no alteration
    Bundle.load(saved)


FIELDS = "space network head n_features schema classes training points envelope weights"


def test_a_field_that_is_missing_or_of_another_type_is_named(saved):
    for key in [
        "space",
        "network",
        "head",
        "n_features",
        "schema",
        "classes",
        "training",
        "points",
        "envelope",
        "weights",
    ]:
        before = (saved / "bundle.json").read_bytes()
        rewrite(saved, lambda content, key=key: content | {key: "text"})
        with pytest.raises(BundleError, match=f"bundle.json: '{key}' must be .*; got 'text'. Copy the bundle again"):
            Bundle.load(saved)
        rewrite(saved, lambda content, key=key: {k: v for k, v in content.items() if k != key})
        with pytest.raises(BundleError, match=f"bundle.json: '{key}' is missing"):
            Bundle.load(saved)
        (saved / "bundle.json").write_bytes(before)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("n_features",), 10**9, "do not fit the model it describes: head"),
        (("network", "hidden"), [10**8, 64], "do not fit the model it describes: backbone"),
        (("network", "hidden"), [-1], "describes no network that can be built: hidden must be"),
        (("network", "name"), "resnet-of-a-stranger", "describes no network that can be built: backbone"),
        (("head", "name"), "flim", "'flim' is unknown, did you mean 'film'"),
        (("head", "evil"), 1, "has no field 'evil'"),
        (("space",), {"gamma": [0, 0.3, 99], "tau": [0]}, "h_b must lie in"),
        (("classes", "values"), [0, 1, 2], "must be the two labels; got 3"),
        (("classes", "values"), [1, 1], "must be two labels that differ"),
        (("classes", "dtype"), "no dtype", "bundle.json"),
        (("schema", "kind"), "letters", "'kind' must be table, array or images; got 'letters'"),
        (("schema", "shape"), [-4], "schema of the inputs: shape must be positive whole numbers"),
        (("points", "screening", "threshold"), float("nan"), "operating point 'screening': 'threshold'"),
        (("training", "steps"), 1.5, "'training': 'steps' must be a whole number; got 1.5"),
        (("training", "history"), None, "'training': 'history' must be a list; got None"),
        (("weights", "bytes"), 12, "longer than declared: .* bytes in place of 12"),
        (("weights", "file"), 7, "'weights': 'file' must be a text; got 7"),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_each_wrong_value_has_its_own_message(saved, place, value, message):
    def change(content):
        target = content
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = value

    rewrite(saved, change)
    with pytest.raises(BundleError, match=message):
        Bundle.load(saved)


@pytest.mark.parametrize(("damage", "word"), [(cut_last_byte, "truncated"), (flip_last_bit, "altered")])
def test_damaged_evidence_does_not_stop_predictions(classifier, saved, damage, word):
    damage(the_file(saved, "evidence"))
    with pytest.warns(UserWarning, match=rf"evidence-.* {word}.*Delete that file.*Predictions are not touched"):
        loaded = LCTClassifier.load(saved)
    assert np.array_equal(loaded.predict_proba(table()[0]), classifier.predict_proba(table()[0]))


def test_what_cannot_be_written_is_noticed_before_anything_is(classifier, saved, tmp_path):
    (tmp_path / "notes").write_text("notes")
    with pytest.raises(BundleError, match="is a file; a model is a folder"):
        classifier.save(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "notes"
    before = files(saved)
    bad = replace(classifier.bundle_, training=replace(classifier.bundle_.training, parameters={"x": object()}))
    with pytest.raises(TypeError):
        bad.save(saved)
    assert files(saved) == before


def test_saving_over_a_bundle_leaves_nothing_of_it(saved):
    (saved / "notes.txt").write_text("mine")
    other = trained(*table(), random_state=1)
    with pytest.raises(BundleError, match="holds another model; choose another folder, or save"):
        other.save(saved)
    assert "screening" in Bundle.load(saved).points
    other.save(saved, replace=True)
    assert sorted(name.split("-")[0] for name in files(saved)) == ["bundle.json", "evidence", "notes.txt", "weights"]
    assert Bundle.load(saved).points.keys() == {"default"}  # those of another network are not its own
    replace(other.bundle_, evidence=None, seen=None).save(saved)  # the same network
    assert Bundle.load(saved).evidence is None  # not that of the model before
    assert not list(saved.glob("evidence-*"))


@pytest.mark.parametrize("size", [100, 2000])
def test_where_the_disk_is_full_the_old_bundle_stays(classifier, saved, full_disk, size):
    before = files(saved)
    other = trained(*table(), random_state=1)
    with full_disk(size), pytest.raises(OSError, match="too large"):
        other.save(saved, replace=True)
    assert files(saved) == before
    assert np.array_equal(LCTClassifier.load(saved).dial().y, classifier.dial().y)


def with_threshold(bundle, name, threshold):
    return bundle.with_point(replace(bundle.points["default"], name=name, threshold=threshold))


def test_writers_change_what_they_changed_and_nothing_else(saved):
    one, two, stale = (Bundle.load(saved) for _ in range(3))
    with_threshold(with_threshold(one, "one", 0.5), "default", 1.5).save(saved)
    with_threshold(two, "two", 0.5).save(saved)
    points = Bundle.load(saved).points
    assert points.keys() == {"default", "screening", "one", "two"}
    assert points["default"].threshold == 1.5
    Bundle.delete_point(saved, "one")
    replace(Bundle.load(saved), evidence=None, seen=None).save(saved)
    replace(stale, points={"default": stale.points["default"]}).save(saved)  # it leaves one out that it had read
    assert Bundle.load(saved).points.keys() == {"default", "two"}
    assert Bundle.load(saved).evidence is None  # which another took away
    assert not list(saved.glob("evidence-*"))
    with pytest.raises(BundleError, match="there is no operating point 'one'; there are default, two"):
        Bundle.delete_point(saved, "one")


def test_an_estimator_that_saves_twice_writes_only_what_it_changed_in_between(classifier, tmp_path):
    for evidence in (True, False):
        mine = LCTClassifier.from_bundle(classifier.bundle_)
        mine.save(tmp_path / "a", evidence=evidence)
        with_threshold(Bundle.load(tmp_path / "a"), "default", 1.5).save(tmp_path / "a")
        mine.keep(replace(mine.points["default"], name="mine"))
        mine = pickle.loads(pickle.dumps(mine))
        mine.save(tmp_path / "a", evidence=evidence)
        assert Bundle.load(tmp_path / "a").points["default"].threshold == 1.5
        assert "mine" in Bundle.load(tmp_path / "a").points
        assert mine.bundle_.evidence is not None
        mine.save(tmp_path / f"elsewhere {evidence}")  # where it knows of nothing, all of it is written
        assert Bundle.load(tmp_path / f"elsewhere {evidence}").points["default"].threshold == 0


@pytest.mark.parametrize("look", range(1, 8))
def test_a_reader_starts_again_where_the_model_is_replaced_under_it(classifier, saved, tmp_path, monkeypatch, look):
    """At one of the moments at which it looks at a file of tensors, the model is another one already."""
    trained(*table(), random_state=1).save(tmp_path / "other")
    other, looks = Bundle.load(tmp_path / "other"), []

    def late(real):
        def method(self, *arguments, **options):
            if self.suffix == ".safetensors" and self.parent == saved:
                looks.append(self)
                if len(looks) == look:
                    other.save(saved, replace=True)
            return real(self, *arguments, **options)

        return method

    for name in ("exists", "stat", "open", "read_bytes"):
        monkeypatch.setattr(Path, name, late(getattr(Path, name)))
    loaded = Bundle.load(saved)
    monkeypatch.undo()
    assert len(looks) > look
    assert loaded.digests() in (classifier.bundle_.digests(), other.digests())  # whole, one or the other


def test_what_killed_writers_left_is_swept_by_the_next(saved):
    others = [".checkpoint.pt-0.tmp", ".mine.tmp"]  # of a training that goes on, and of somebody else
    for name in (".bundle.json-0.tmp", ".weights-0123.safetensors-0.tmp", ".evidence-0.safetensors-0.tmp", *others):
        (saved / name).write_bytes(b"half")
    Bundle.load(saved).save(saved)
    assert sorted(path.name for path in saved.glob(".*.tmp")) == others
