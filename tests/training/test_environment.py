"""The global generators and threads around a run."""

import random

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.accelerators import ACCELERATOR_REGISTRY
from lightning_fabric.plugins import MixedPrecision
from torch import nn

from lossdial.base.errors import InputError
from lossdial.models import MLP, ConditionalClassifier
from lossdial.spaces import Linear, Space
from lossdial.training.batches import ArrayBatches
from lossdial.training.environment import (
    forked_random,
    get_random,
    make_fabric,
    require_no_scaler,
    seed_random,
    set_random,
    threads_for,
)

CPU = torch.device("cpu")


def draw():
    """From each generator, whole and Gaussian: NumPy and Python keep half of a Gaussian pair for later."""
    numpy = np.random.rand(), np.random.randn()  # noqa: NPY002 (the global generator is what is tested)
    return torch.rand(()).item(), torch.randn(()).item(), random.random(), random.gauss(0, 1), *numpy


def test_seed():
    seed_random(2**63 - 1)
    first = draw()
    seed_random(2**63 - 1)
    assert draw() == first
    seed_random(1)
    assert not set(draw()) & set(first)


def test_states_go_back_even_through_a_file(tmp_path):
    draw()
    torch.save(get_random(CPU), tmp_path / "states.pt")
    first = draw(), draw()
    set_random(torch.load(tmp_path / "states.pt", weights_only=True), CPU)
    assert (draw(), draw()) == first


def test_forked():
    def failing():
        with forked_random(CPU):
            draw()
            raise KeyError

    states = get_random(CPU)
    expected = draw()
    set_random(states, CPU)
    with pytest.raises(KeyError):
        failing()
    assert draw() == expected


def test_a_small_table_gets_one_thread():
    space = Space(tau=Linear(0, 3, 1 / 3))
    small = ConditionalClassifier(MLP(4, (8,)), 8, space)
    large = ConditionalClassifier(MLP(4, (2000, 2000)), 2000, space)
    image = ConditionalClassifier(nn.Conv2d(4, 8, 1), 8, space)
    rows, pixels = (
        ArrayBatches(torch.zeros(9, 4), torch.zeros(9)),
        ArrayBatches(torch.zeros(9, 4, 2, 2), torch.zeros(9)),
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for model, batches, expected in [(small, rows, 1), (large, rows, 2), (image, pixels, 2)]:
            with threads_for(model, batches):
                assert torch.get_num_threads() == expected
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true", "64-true"])
def test_a_precision_runs_as_itself(precision: str) -> None:
    assert make_fabric("cpu", precision).strategy.precision.precision == precision


@pytest.mark.parametrize(
    ("arguments", "argument", "problem"),
    [
        (("cpu", "16-mixed"), "precision", "cannot be float16"),  # Fabric on a CPU would run it as bfloat16
        (("cpu", "16-true"), "precision", "cannot be float16"),
        (("cpu", "bf61-mixed"), "precision", "did you mean 'bf16-mixed'"),
        (("cudda",), "accelerator", "'cudda' cannot be used here"),
    ],
)
def test_what_is_not_available_is_refused(arguments: tuple[str, ...], argument: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        make_fabric(*arguments)
    assert raised.value.argument == argument
    assert problem in raised.value.problem


@pytest.mark.parametrize("accelerator", ["cuda", "gpu", "mps", "tpu"])
def test_a_device_that_is_not_there(accelerator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("cuda", "mps", "tpu"):
        monkeypatch.setattr(ACCELERATOR_REGISTRY[kind]["accelerator"], "is_available", staticmethod(lambda: False))
    with pytest.raises(InputError) as raised:
        make_fabric(accelerator)
    assert raised.value.argument == "accelerator"
    assert make_fabric("auto").device.type == "cpu"


def test_a_fabric_that_scales_the_loss_is_refused() -> None:
    plugin = MixedPrecision("16-mixed", device="cpu", scaler=torch.amp.GradScaler("cpu"))
    with pytest.raises(InputError, match="precision cannot be float16"):
        require_no_scaler(Fabric(accelerator="cpu", devices=1, plugins=plugin))
