"""Checkpoints: what they give back, what they refuse, and what a failed write leaves."""

import random

import pytest
import torch

from lossdial.base.files import file_sha256
from lossdial.training import Checkpoint, CheckpointError
from lossdial.training.environment import get_random, set_random

CPU = torch.device("cpu")


def make(identity: dict[str, object], weight: float = 1.0) -> Checkpoint:
    return Checkpoint(
        epoch=3,
        batch=2,
        model={"w": torch.full((1000,), weight)},
        optimizer={"state": {0: {"step": torch.tensor(5.0)}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999)}]},
        ema=None,
        random=get_random(CPU),
        loss_sum=1.25,
        seconds=9.5,
        history=[{"epoch": 1, "auc": float("nan"), "loss": 0.1}],
        identity=identity,
    )


def test_round_trip(tmp_path):
    saved = make({"lr": 0.1, "hidden": (64, 64)})
    saved.save(tmp_path / "new" / "run")
    loaded = Checkpoint.load(tmp_path / "new" / "run", {"hidden": (64, 64), "lr": 0.1}, CPU)
    assert torch.equal(loaded.model["w"], saved.model["w"])
    assert loaded.optimizer == saved.optimizer
    assert (loaded.epoch, loaded.batch, loaded.ema) == (3, 2, None)
    assert (loaded.loss_sum, loaded.seconds) == (1.25, 9.5)
    assert loaded.history[0]["loss"] == 0.1
    drawn = torch.rand(3)
    set_random(loaded.random, CPU)
    assert torch.equal(torch.rand(3), drawn)
    assert [file.name for file in (tmp_path / "new" / "run").iterdir()] == ["checkpoint.pt"]


def test_a_bit_that_is_flipped_anywhere_is_noticed(tmp_path):
    """Of 100 flips torch itself notices about twenty."""
    make({}).save(tmp_path)
    path, rng = tmp_path / "checkpoint.pt", random.Random(0)
    data = path.read_bytes()
    for _ in range(100):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(CheckpointError, match=r"damaged|has format"):
            Checkpoint.load(tmp_path, {}, CPU)


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_where_the_newest_is_damaged_the_one_before_goes_on(tmp_path, damage):
    for weight in (1.0, 2.0, 3.0):
        make({"seed": 7}, weight).save(tmp_path)
    path = tmp_path / "checkpoint.pt"
    if damage == "remove":  # by a kill between two renames
        path.unlink()
        assert Checkpoint.load(tmp_path, {"seed": 7}, CPU).model["w"][0] == 2
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        with pytest.warns(UserWarning, match="is damaged: this training goes on from the checkpoint before it"):
            assert Checkpoint.load(tmp_path, {"seed": 7}, CPU).model["w"][0] == 2
    assert Checkpoint.exists(tmp_path)
    assert Checkpoint.identity_in(tmp_path) == {"seed": 7}
    make({"seed": 7}, 4.0).save(tmp_path)
    assert torch.load(tmp_path / "checkpoint-before.pt", weights_only=True)["model"]["w"][0] == 2  # not the damaged one
    assert Checkpoint.load(tmp_path, {"seed": 7}, CPU).model["w"][0] == 4
    with pytest.raises(CheckpointError, match="other settings"):
        Checkpoint.load(tmp_path, {"seed": 8}, CPU)
    Checkpoint.remove(tmp_path)
    assert not list(tmp_path.iterdir())


def write_with_checksum(state, path):
    torch.save(state, path)
    path.write_bytes(path.read_bytes() + file_sha256(path).encode())


def test_other_settings_are_named(tmp_path):
    make({"lr": 0.1, "epochs": 5, "data": 1, "gone": 2}).save(tmp_path)
    with pytest.raises(CheckpointError, match="other settings") as caught:
        Checkpoint.load(tmp_path, {"lr": 0.2, "epochs": 5, "data": 1, "new": "x"}, CPU)
    message = str(caught.value)
    assert "lr: 0.1 then, 0.2 now" in message
    assert "gone: 2 then, None now" in message
    assert "new: None then, 'x' now" in message
    assert "epochs" not in message
    assert "Delete" in message


def test_a_failed_write_keeps_the_earlier_checkpoint_and_leaves_nothing_half(tmp_path, full_disk):
    make({}, weight=1.0).save(tmp_path)
    with full_disk(2000), pytest.raises(OSError, match=r"checkpoint\.pt cannot be written|too large"):
        make({}, weight=2.0).save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]
    assert Checkpoint.load(tmp_path, {}, CPU).model["w"][0] == 1
    make({}, weight=3.0).save(tmp_path)  # and the next one succeeds
    assert Checkpoint.load(tmp_path, {}, CPU).model["w"][0] == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["checkpoint-before.pt", "checkpoint.pt"]


def test_whether_anything_was_kept(tmp_path):
    """What a face may say after Ctrl-C: only what is on disk."""
    (tmp_path / ".checkpoint.pt-1.tmp").write_bytes(b"half of one")
    for folder in (tmp_path / "nowhere", tmp_path):
        assert not Checkpoint.exists(folder)
        assert Checkpoint.load(folder, {}, CPU) is None
        assert Checkpoint.identity_in(folder) is None
    make({"seed": 7}).save(tmp_path)
    assert Checkpoint.exists(tmp_path)
    assert Checkpoint.identity_in(tmp_path) == {"seed": 7}
    (tmp_path / "checkpoint.pt").write_bytes(b"")
    assert Checkpoint.identity_in(tmp_path) is None
    Checkpoint.remove(tmp_path)
    Checkpoint.remove(tmp_path)  # nothing to remove is no error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        *((lambda path, n=n: path.write_bytes(path.read_bytes()[:n]), "is damaged") for n in (0, 10, 1000, -1)),
        (lambda path: write_with_checksum({"format": 3, "weights": torch.ones(3)}, path), "damaged: it lacks"),
        (lambda path: write_with_checksum([1, 2], path), "damaged"),
        (lambda path: torch.save({"format": 1, "model": torch.nn.Linear(2, 2)}, path), "UnpicklingError"),
        (lambda path: torch.save({"format": 9, "shape of the future": 1}, path), "has format 9; .* reads 3"),
    ],
)
def test_what_is_no_checkpoint_is_refused_and_never_unpickled(tmp_path, write, message):
    make({}).save(tmp_path)
    write(tmp_path / "checkpoint.pt")
    with pytest.raises(CheckpointError, match=message):
        Checkpoint.load(tmp_path, {}, CPU)
