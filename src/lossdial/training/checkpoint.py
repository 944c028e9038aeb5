"""Checkpoints: everything that a run needs to resume as if it had never stopped.

A checkpoint is a file of torch's, followed by its SHA-256 in hexadecimal, because torch does not notice altered bits.
The one before is kept too, for a run whose newest is damaged.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from lossdial.base.errors import warn
from lossdial.base.files import file_sha256, replacing, sweep

_FORMAT: Final = 3
_NAME: Final = "checkpoint.pt"
_BEFORE: Final = "checkpoint-before.pt"
_DIGEST: Final = 64  # characters after the file that torch wrote


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, and what to do about it."""


@dataclass
class Checkpoint:
    """The state of a run: the next batch is ``batch`` of ``epoch``."""

    epoch: int
    batch: int
    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    ema: dict[str, Tensor] | None
    random: dict[str, Any]
    loss_sum: float
    seconds: float
    history: list[dict[str, float]]
    identity: dict[str, Any] = field(default_factory=dict)
    #: of a stack of settings, by member: why it is no longer trained
    diverged: dict[int, str] = field(default_factory=dict)

    @staticmethod
    def exists(run_dir: Path) -> bool:
        """Whether there is a checkpoint in this folder to resume from."""
        return (run_dir / _NAME).exists() or (run_dir / _BEFORE).exists()

    def save(self, run_dir: Path) -> None:
        """Write to a temporary name, then rename, so that the earlier checkpoint stays readable whatever happens.

        The earlier one is kept, unless it is damaged; then the one before it is.
        """
        # A shallow dict: asdict would copy every tensor.
        state = {name: getattr(self, name) for name in self.__dataclass_fields__}
        state["history"], state["identity"] = json.dumps(self.history), json.dumps(self.identity)
        sweep(run_dir / _NAME)
        try:
            with replacing(run_dir / _NAME) as temporary:
                torch.save({"format": _FORMAT, **state}, temporary)
                digest = file_sha256(temporary)
                with temporary.open("ab") as file:
                    file.write(digest.encode())
                _keep(run_dir / _NAME)
        except RuntimeError as error:  # torch's own word for a write that fails
            raise OSError(f"{run_dir / _NAME} cannot be written, perhaps for want of space ({error})") from error

    @classmethod
    def load(cls, run_dir: Path, identity: Mapping[str, Any], device: torch.device) -> Checkpoint | None:
        """The checkpoint in ``run_dir``, or None where there is none; it must be of the run described."""
        path = run_dir / _NAME
        remedy = f"Delete {path.with_stem('checkpoint*')} to train from the start, or train into another folder."
        checkpoint = _newest(run_dir, device, remedy)
        if checkpoint is None:
            return None
        expected = json.loads(json.dumps(dict(identity)))
        changed = [
            f"{key}: {checkpoint.identity.get(key)!r} then, {expected.get(key)!r} now"
            for key in sorted(checkpoint.identity.keys() | expected.keys())
            if checkpoint.identity.get(key) != expected.get(key)
        ]
        if changed:
            raise CheckpointError(f"{path} belongs to a run with other settings ({'; '.join(changed)}). {remedy}")
        return checkpoint

    @staticmethod
    def identity_in(run_dir: Path) -> dict[str, Any] | None:
        """The settings of the run whose checkpoint lies in ``run_dir``; None where there is none to be read."""
        try:
            checkpoint = _newest(run_dir, torch.device("cpu"), "", warn_of_damage=False)
        except CheckpointError:  # load() will say so
            return None
        return None if checkpoint is None else checkpoint.identity

    @staticmethod
    def remove(run_dir: Path) -> None:
        for name in (_NAME, _BEFORE):
            (run_dir / name).unlink(missing_ok=True)


def _newest(run_dir: Path, device: torch.device, remedy: str, warn_of_damage: bool = True) -> Checkpoint | None:
    """The checkpoint of a folder; the one before where it is damaged, or was being renamed when the run was killed."""
    damage = None
    for name in (_NAME, _BEFORE):
        try:
            checkpoint = _read(run_dir / name, device, remedy)
        except CheckpointError as error:
            damage = damage or error
            continue
        if checkpoint is not None:
            if damage is not None and warn_of_damage:
                place = f"the checkpoint before it, at epoch {checkpoint.epoch + 1}"
                warn(f"{run_dir / _NAME} is damaged: this training goes on from {place}.")
            return checkpoint
    if damage is not None:
        raise damage
    return None


def _keep(path: Path) -> None:
    """The checkpoint that is there as the one before, under both names until it is replaced."""
    if not path.exists() or not _unaltered(path):
        return
    linked = path.with_name(f".{_NAME}-linked.tmp")
    try:
        os.link(path, linked)
    except OSError:  # a file system without links
        linked = path
    linked.replace(path.with_name(_BEFORE))


def _unaltered(path: Path) -> bool:
    """Whether a file ends in the checksum of what comes before, read in parts."""
    sha256, left = hashlib.sha256(), path.stat().st_size - _DIGEST
    with path.open("rb") as file:
        while left > 0 and (part := file.read(min(left, 2**20))):
            sha256.update(part)
            left -= len(part)
        return file.read() == sha256.hexdigest().encode()


def _read(path: Path, device: torch.device, remedy: str) -> Checkpoint | None:
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location=device, weights_only=True)
        version = int(state.pop("format"))
    except Exception as error:  # torch raises a dozen types for a damaged file
        raise CheckpointError(f"{path} is damaged and cannot be read ({type(error).__name__}). {remedy}") from error
    if version != _FORMAT:
        raise CheckpointError(f"{path} has format {version}; this version of lossdial reads {_FORMAT}. {remedy}")
    if not _unaltered(path):
        raise CheckpointError(f"{path} is damaged: its checksum does not match. {remedy}")
    try:
        state["history"], state["identity"] = json.loads(state["history"]), json.loads(state["identity"])
        return Checkpoint(**state)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: it lacks what a checkpoint holds ({error}). {remedy}") from error
