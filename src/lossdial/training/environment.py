"""The surroundings of a run: its device and precision, the global generators, threads, and Ctrl-C.

Dropout draws from torch's global generator, and the transforms of a DataLoader may draw from those of NumPy and Python.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import torch
from torch.utils.data import DataLoader

from lossdial.base.errors import InputError, closest
from lossdial.models import Network
from lossdial.training.batches import ArrayBatches

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_SMALL_STEP: Final = 2**24  # multiplications: about a millisecond on one core
_PRECISIONS: Final = ("32-true", "bf16-mixed", "bf16-true", "64-true")
_NO_FLOAT16: Final = "cannot be float16, whose scaling of the loss does not work with step(closure)"


class Interrupt:
    """Whether Ctrl-C was pressed; it takes effect where `now` is called."""

    pressed = False

    def now(self) -> None:
        if self.pressed:
            self.pressed = False
            raise KeyboardInterrupt


@contextmanager
def interrupt_later(possible: bool) -> Iterator[Interrupt]:
    """Delay Ctrl-C until `Interrupt.now`, so that the current step is finished and kept; a second one is immediate.

    Where another handler is installed, or this is not the main thread, nothing is changed.
    """
    stop = Interrupt()

    def press(*_: object) -> None:
        if stop.pressed:
            raise KeyboardInterrupt
        stop.pressed = True

    main = threading.current_thread() is threading.main_thread()
    if not (possible and main and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
        yield stop
        return
    signal.signal(signal.SIGINT, press)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    stop.now()


def make_fabric(accelerator: str = "auto", precision: str = "32-true") -> Fabric:
    """One device at one precision, as Lightning's Fabric.

    Parameters
    ----------
    accelerator
        cpu, cuda (or gpu), mps, or auto for the best one available.
    precision
        32-true, bf16-mixed, bf16-true or 64-true. float16 is refused: it needs a scaler of the loss, which an optimiser
        that calls a closure (SAM) cannot have.

    Raises
    ------
    InputError
        Where the device or the precision is not available; no other is used instead.

    Examples
    --------
    >>> make_fabric("cpu").device
    device(type='cpu')
    """
    from lightning_fabric import Fabric  # here, for it costs as much as torch itself

    if precision in ("16-mixed", "16-true"):  # Fabric on a CPU would run it as bfloat16 with a warning
        remedy = "Use 'bf16-mixed' for half the memory, or '32-true'."
        raise InputError("precision", _NO_FLOAT16, got=precision, remedy=remedy)
    if precision not in _PRECISIONS:
        raise InputError("precision", f"{precision!r} is unknown; {closest(precision, _PRECISIONS)}")
    try:
        return Fabric(accelerator=accelerator, devices=1, precision=cast(Any, precision))
    except (ImportError, RuntimeError, ValueError) as error:
        problem = f"{accelerator!r} cannot be used here: {error}"
        raise InputError("accelerator", problem, remedy="Use 'cpu', or 'auto'.") from error


def require_no_scaler(fabric: Fabric) -> None:
    """Refuse a Fabric at float16, made elsewhere."""
    if fabric.strategy.precision.precision == "16-mixed":
        raise InputError("precision", _NO_FLOAT16, remedy="Use {precision='bf16-mixed'} or '32-true'.")


def only_passes_on(fabric: Fabric) -> bool:
    """Whether Fabric's wrappers do nothing, as on one device at full precision: they take 5 % of a small step."""
    from lightning_fabric.plugins import Precision
    from lightning_fabric.strategies.single_device import SingleDeviceStrategy

    return type(fabric.strategy) is SingleDeviceStrategy and type(fabric.strategy.precision) is Precision


def seed_random(seed: int) -> None:
    """Start every generator anew."""
    torch.manual_seed(seed)  # every device's too
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (a transform that uses the global generator knows no other)


def get_random(device: torch.device) -> dict[str, Any]:
    """The states of the generators, as values that a checkpoint can hold without pickling an object."""
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002 (as above)
    states: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": {**numpy, "state": {**numpy["state"], "key": numpy["state"]["key"].tolist()}},
    }
    if device.type != "cpu":
        states["device"] = getattr(torch, device.type).get_rng_state()
    return states


def set_random(states: dict[str, Any], device: torch.device) -> None:
    """Go back to states that :func:`get_random` gave."""
    torch.set_rng_state(states["torch"].cpu())
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002 (as above)
    if device.type != "cpu" and "device" in states:  # a checkpoint may come from another kind of device
        getattr(torch, device.type).set_rng_state(states["device"].cpu())


@contextmanager
def forked_random(device: torch.device) -> Iterator[None]:
    """Leave the global generators as they were before the block."""
    states = get_random(device)
    try:
        yield
    finally:
        set_random(states, device)


@contextmanager
def threads_for(model: Network, batches: ArrayBatches | DataLoader[Any]) -> Iterator[None]:
    """One thread for a network whose step is less work than it takes several threads to meet.

    On a busy machine waiting threads spin, and a step of a small MLP becomes ten times slower, not faster. The update
    of a large head does not count: it waits for memory, which several threads hardly speed up.
    """
    trained = sum(p.numel() for p in model.backbone.parameters() if p.requires_grad)
    work = trained + 2 * model.n_features * model.head.members  # per row of a table; images do more
    table = isinstance(batches, ArrayBatches) and batches.x.dim() == 2
    before = torch.get_num_threads()
    torch.set_num_threads(1 if table and (batches.batch_size or 0) * work < _SMALL_STEP else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
