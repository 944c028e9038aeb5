"""The files of a bundle, read with suspicion: sizes before contents, contents before meaning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from lossdial.base.codec import Reader
from lossdial.base.errors import warn
from lossdial.base.files import digest, sweep, write, write_json
from lossdial.models import ConditionalClassifier, build_backbone, build_head
from lossdial.spaces import Space

FORMAT: Final = 2
JSON: Final = "bundle.json"
LARGEST_JSON: Final = 64 * 2**20  # bytes; real ones have thousands
AGAIN: Final = "Copy the bundle again."
DELETE: Final = "Delete that file: only tuning without data needs it."


class BundleError(ValueError):
    """A bundle that cannot be read, and what to do about it."""


@dataclass(frozen=True, eq=False)
class Content:
    """What ``bundle.json`` of a folder holds, and which commit of it was read."""

    folder: Path
    fields: Reader
    commit: tuple[int, ...]


def read_content(folder: Path) -> Content:
    """``bundle.json`` of a folder: there, of a sane size, JSON, unaltered, and of a format that is known."""
    path, commit = folder / JSON, commit_of(folder)
    if not folder.exists():
        raise BundleError(
            f"{folder} does not exist; a model is the folder that `lossdial train --out` or save() wrote."
        )
    if not path.exists():
        unfinished = (folder / "checkpoint.pt").exists()
        hint = (
            "its training has not finished: train again with the same settings"
            if unfinished
            else "is it the right one?"
        )
        raise BundleError(f"{folder} holds no {JSON}; {hint}.")
    size = path.stat().st_size
    if size > LARGEST_JSON:
        raise BundleError(f"{path} has {size:,} bytes; a bundle has at most {LARGEST_JSON:,}. It is not lossdial's.")
    try:
        content = json.loads(path.read_bytes())
        _require_format(content, path)
        stated = content.pop("sha256", None)
        unaltered = stated == digest(content)
    except RecursionError:
        raise BundleError(f"{path} is nested too deeply to be a bundle. It is not lossdial's.") from None
    except BundleError:
        raise
    except ValueError as error:
        raise BundleError(f"{path} is truncated or not JSON ({error}). {AGAIN}") from error
    if not unaltered:
        raise BundleError(f"{path} was altered after it was written: its checksum does not match. {AGAIN}")
    return Content(folder, Reader(content, str(path)), commit)


def _require_format(content: Any, path: Path) -> None:
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise BundleError(f"{path} is not a bundle of lossdial.")
    if content["format"] == FORMAT:
        return
    versions = content.get("versions")
    by = versions.get("lossdial") if isinstance(versions, dict) else None
    remedy = "Update lossdial." if content["format"] > FORMAT else "Train it again."
    raise BundleError(
        f"{path} has format {content['format']}, written by lossdial {by}; this version reads {FORMAT}. {remedy}"
    )


def commit_of(folder: Path) -> tuple[int, ...]:
    """What tells one commit of a bundle from the next, whatever is in it; empty where there is none."""
    try:
        file = (folder / JSON).stat()
    except OSError:
        return ()
    return file.st_ino, file.st_size, file.st_mtime_ns


@dataclass(frozen=True, eq=False)
class TensorFile:
    """A file of tensors to be written: its entry in ``bundle.json``, which names it by its content, and its bytes."""

    entry: Mapping[str, Any]
    data: bytes

    @classmethod
    def of(cls, kind: str, tensors: Mapping[str, Tensor]) -> TensorFile:
        # Cloned, because tied weights share memory, which safetensors refuses.
        data = save_tensors({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()})
        sha256 = hashlib.sha256(data).hexdigest()
        return cls({"file": f"{kind}-{sha256[:12]}.safetensors", "bytes": len(data), "sha256": sha256}, data)


def commit(folder: Path, content: Mapping[str, Any], files: Mapping[str, TensorFile]) -> None:
    """Write the files that a folder lacks, then ``bundle.json``, and remove those that it names no more.

    The caller holds the folder's lock. Where a write fails, the folder is as it was.
    """
    present = {file.name for file in folder.iterdir()}
    named = {entry["file"] for entry in (content["weights"], content["evidence"]) if entry}
    try:
        for file in files.values():
            if file.entry["file"] not in present:
                write(folder / file.entry["file"], file.data)
        write_json(folder / JSON, content)
    except BaseException:
        for name in named - present:
            (folder / name).unlink(missing_ok=True)
        raise
    for old in (*folder.glob("weights-*.safetensors"), *folder.glob("evidence-*.safetensors")):
        if old.name not in named:
            old.unlink(missing_ok=True)


def sweep_folder(folder: Path) -> None:
    """Remove what writers that were killed have left; only whoever holds the lock writes these."""
    for name in (JSON, "weights-*.safetensors", "evidence-*.safetensors"):
        sweep(folder / name)


def _tensor_path(folder: Path, entry: Reader) -> Path:
    """The file that an entry names, never outside the folder."""
    return folder / Path(entry.text("file")).name


def _read_tensors(folder: Path, entry: Reader, remedy: str = AGAIN) -> dict[str, Tensor]:
    """The tensors of a file that is there, of the declared size, and unaltered."""
    path = _tensor_path(folder, entry)
    if not path.exists():
        raise BundleError(f"{path} is missing: a bundle is {JSON} and the files it names. {remedy}")
    size, declared = path.stat().st_size, entry.read("bytes", int)
    if size != declared:
        kind = "truncated" if size < declared else "longer than declared"
        raise BundleError(f"{path} is {kind}: {size:,} bytes in place of {declared:,}. {remedy}")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry.text("sha256"):
        raise BundleError(f"{path} was altered after it was written: its checksum does not match. {remedy}")
    try:
        return load_tensors(data)
    except SafetensorError as error:
        raise BundleError(f"{path} is not a file of tensors ({error}). {remedy}") from error


def optional_tensors(content: Content, key: str) -> dict[str, Tensor]:
    """The tensors of a file that predictions can do without; none, with a warning, where it is damaged or removed."""
    if content.fields.get(key) is None:
        return {}
    entry, damage = content.fields.nested(key), None
    try:
        if _tensor_path(content.folder, entry).exists():
            return _read_tensors(content.folder, entry, DELETE)
    except BundleError as error:
        damage = error
    if commit_of(content.folder) != content.commit:
        raise BundleError(f"{content.folder} was replaced while it was read.")
    if damage is not None:
        warn(f"{damage} Predictions are not touched.")
    return {}


def model_to_json(model: ConditionalClassifier) -> dict[str, Any]:
    """What it takes to build the network again; its weights are kept beside."""
    backbone = model.backbone
    recipe = getattr(backbone, "recipe", None)
    own = {"name": "custom", "class": f"{type(backbone).__module__}.{type(backbone).__qualname__}"}
    return {
        "space": model.space.to_json(),
        "network": recipe() if callable(recipe) else own,
        "head": model.head.config.to_json(),
        "n_features": model.n_features,
    }


def model_from_json(content: Content, network: nn.Module | None) -> ConditionalClassifier:
    """The network with its weights, in evaluation mode; what does not fit is found before anything large is made."""
    weights = _read_tensors(content.folder, content.fields.nested("weights"))
    _compare(_build(content, network, "meta"), weights, content.folder)
    model = _build(content, network, "cpu")
    model.load_state_dict(weights)
    return model.eval()


def _build(content: Content, network: nn.Module | None, device: str) -> ConditionalClassifier:
    fields = content.fields
    recipe, n_features = fields.nested("network"), fields.count("n_features")
    head, space = fields.mapping("head"), fields.mapping("space")
    try:
        built_space = Space.from_json(space)
        with torch.device(device):
            if recipe.text("name") != "custom":
                network = build_backbone(recipe.data)
            elif network is None:
                raise BundleError(
                    f"this model's network is a module of your own, {recipe.text('class')}; pass it: "
                    "load(path, network=…)."
                )
            built_head = build_head(head, n_features, built_space.dim)
        return ConditionalClassifier(network, n_features, built_space, built_head)
    except BundleError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{content.folder / JSON} describes no network that can be built: {error}") from error


def _compare(model: nn.Module, weights: dict[str, Tensor], folder: Path) -> None:
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    stored = {name: tuple(value.shape) for name, value in weights.items()}
    for name in sorted(expected.keys() | stored.keys()):
        if expected.get(name) != stored.get(name):
            raise BundleError(
                f"the weights in {folder} do not fit the model it describes: {name} is {stored.get(name, 'missing')} "
                f"there and {expected.get(name, 'unknown')} here."
            )
