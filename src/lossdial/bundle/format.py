"""The files of a bundle, read with suspicion: sizes before contents, contents before meaning."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from lossdial.base.files import digest
from lossdial.models import ConditionalClassifier, build_backbone, build_head
from lossdial.spaces import Space

__all__ = [
    "JSON",
    "BundleError",
    "Content",
    "commit_of",
    "describe",
    "model_from_json",
    "model_to_json",
    "read_content",
    "read_tensors",
    "shapes",
    "tensor_path",
]

FORMAT: Final = 2
JSON: Final = "bundle.json"
LARGEST_JSON: Final = 64 * 2**20  # bytes; real ones have thousands
_AGAIN: Final = "Copy the bundle again."
_NAMES: Final = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
T = TypeVar("T")


class BundleError(ValueError):
    """A bundle that cannot be read, and what to do about it."""


class Content:
    """An object of JSON whose entries are asked for by name and type; what is wrong is said with the place."""

    def __init__(self, data: Mapping[str, Any], place: str, commit: tuple[int, ...] = ()) -> None:
        self.data, self.place, self.commit = data, place, commit

    def get(self, key: str, *kinds: type[T]) -> T:
        """The entry ``key``, which must be of one of the kinds; a whole number may stand for a number."""
        if key not in self.data:
            raise BundleError(f"{self.place} lacks {key!r}. {_AGAIN}")
        value: Any = self.data[key]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if float in kinds and whole:
            value = float(value)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(_NAMES.get(kind, kind.__name__) for kind in kinds)
            raise BundleError(
                f"{key!r} in {self.place} must be {wanted}; got {_NAMES.get(type(value), 'something else')}. {_AGAIN}"
            )
        return value

    def part(self, key: str) -> Content:
        """The object under ``key``."""
        return Content(self.get(key, dict), f"{key!r} of {self.place}")

    def optional(self, key: str) -> Content | None:
        """The object under ``key``, or None for null."""
        return None if self.get(key, dict, type(None)) is None else self.part(key)


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
    except RecursionError:
        raise BundleError(f"{path} is nested too deeply to be a bundle. It is not lossdial's.") from None
    except ValueError as error:
        raise BundleError(f"{path} is truncated or not JSON ({error}). {_AGAIN}") from error
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise BundleError(f"{path} is not a bundle of lossdial.")
    if content["format"] != FORMAT:
        versions = content.get("versions")
        by = versions.get("lossdial") if isinstance(versions, dict) else None
        remedy = "Update lossdial." if content["format"] > FORMAT else "Train it again."
        raise BundleError(
            f"{path} has format {content['format']}, written by lossdial {by}; this version reads {FORMAT}. {remedy}"
        )
    stated = content.pop("sha256", None)
    try:
        actual = digest(content)
    except RecursionError:
        raise BundleError(f"{path} is nested too deeply to be a bundle. It is not lossdial's.") from None
    if stated != actual:
        raise BundleError(f"{path} was altered after it was written: its checksum does not match. {_AGAIN}")
    return Content(_with_bands_as_points(content), str(path), commit)


def _with_bands_as_points(content: dict[str, Any]) -> dict[str, Any]:
    """A bundle of version 0.1 kept referral bands beside the points; here they are points with two cuts."""
    bands = content.pop("bands", None)
    if not isinstance(bands, dict) or not isinstance(content.get("points"), dict):
        return content
    try:
        return content | {"points": content["points"] | {name: _point_of_band(band) for name, band in bands.items()}}
    except (KeyError, TypeError) as error:
        raise BundleError(f"a referral band of the bundle is damaged: {error}. {_AGAIN}") from error


def _point_of_band(band: Mapping[str, Any]) -> dict[str, Any]:
    ends = {"npv": band["low"], "precision": band["high"]}
    bounds = [
        {"metric": name, "value": band[name], "at_least": True, "hits": 0, "n": 0, "risk": 1 - band["confidence"]}
        for name, end in ends.items()
        if end not in ("inf", "-inf")
    ]
    certificate = {name: band[name] for name in ("confidence", "n_positive", "n_negative", "data", "unit", "note")}
    shares = {"cleared": [band["cleared"]] * 3, "referred": band["workload"], "acted": [band["acted"]] * 3}
    same = ("name", "lam", "n_positive", "n_negative", "calibration", "prevalence", "shift")
    return {
        **{name: band[name] for name in same},
        "threshold": band["high"],
        "lower": band["low"],
        "objective": f"a referral band at prevalence {band['prevalence']:g}",
        "aim": None,
        "metrics": shares | {"missed": [band["missed"]] * 3},
        "feasible": True,
        "note": "",
        "missed": [],
        "crossfit": {},
        "certificate": {**certificate, "bounds": bounds},
        "chosen_on": "",
        "holding": "",
    }


def commit_of(folder: Path) -> tuple[int, ...]:
    """What tells one commit of a bundle from the next, whatever is in it; empty where there is none."""
    try:
        file = (folder / JSON).stat()
    except OSError:
        return ()
    return file.st_ino, file.st_size, file.st_mtime_ns


def describe(kind: str, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], bytes]:
    """An entry of ``bundle.json`` for a file of tensors, whose name is made from its content, and that content."""
    # Cloned, because tied weights share memory, which safetensors refuses.
    data = save_tensors({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()})
    sha256 = hashlib.sha256(data).hexdigest()
    return {"file": f"{kind}-{sha256[:12]}.safetensors", "bytes": len(data), "sha256": sha256}, data


def tensor_path(folder: Path, entry: Content) -> Path:
    """The file that an entry names, never outside the folder."""
    return folder / Path(entry.get("file", str)).name


def shapes(path: Path, entry: Content, remedy: str = _AGAIN) -> dict[str, tuple[int, ...]]:
    """The shapes that a file of tensors declares, once its size is the declared one; nothing is read but its header."""
    size, declared = path.stat().st_size, entry.get("bytes", int)
    if size != declared:
        kind = "truncated" if size < declared else "longer than declared"
        raise BundleError(f"{path} is {kind}: {size:,} bytes in place of {declared:,}. {remedy}")
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > size:
                raise ValueError(f"a header of {length:,} bytes")
            header = json.loads(file.read(length))
        return {name: tuple(value["shape"]) for name, value in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise BundleError(f"{path} is not a file of tensors ({error}). {remedy}") from error


def read_tensors(folder: Path, entry: Content, remedy: str = _AGAIN) -> dict[str, Tensor]:
    """The tensors of a file that is there, of the declared size, and unaltered."""
    path = tensor_path(folder, entry)
    if not path.exists():
        raise BundleError(f"{path} is missing: a bundle is {JSON} and the files it names. {remedy}")
    shapes(path, entry, remedy)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry.get("sha256", str):
        raise BundleError(f"{path} was altered after it was written: its checksum does not match. {remedy}")
    return load_tensors(data)


def model_to_json(model: ConditionalClassifier) -> dict[str, Any]:
    """What it takes to build the network again; its weights are kept beside."""
    backbone = model.backbone
    recipe = getattr(backbone, "recipe", None)
    own = {"name": "custom", "class": f"{type(backbone).__module__}.{type(backbone).__qualname__}"}
    return {
        "space": model.space.to_json(),
        "network": recipe() if callable(recipe) else own,
        "head": model.head.recipe(),
        "n_features": model.n_features,
    }


def model_from_json(content: Content, folder: Path, network: nn.Module | None) -> ConditionalClassifier:
    """The network with its weights, in evaluation mode; what does not fit is found before anything large is made."""
    entry = content.part("weights")
    path = tensor_path(folder, entry)
    if path.exists():
        _compare(_build(content, network, "meta"), shapes(path, entry), folder)
    model = _build(content, network, "cpu")
    weights = read_tensors(folder, entry)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise BundleError(f"the weights in {folder} do not fit the model it describes: {error}") from error
    return model.eval()


def _build(content: Content, network: nn.Module | None, device: str) -> ConditionalClassifier:
    recipe, n_features = content.part("network"), content.get("n_features", int)
    try:
        space = Space.from_json(content.get("space", dict))
        with torch.device(device):
            if recipe.get("name", str) != "custom":
                network = build_backbone(recipe.data)
            elif network is None:
                raise BundleError(
                    f"this model's network is a module of your own, {recipe.get('class', str)}; pass it: "
                    "load(path, network=…)."
                )
            head = build_head(content.get("head", dict), n_features, space.dim)
        return ConditionalClassifier(network, n_features, space, head)
    except BundleError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{content.place} describes no network that can be built: {error}") from error


def _compare(model: nn.Module, found: dict[str, tuple[int, ...]], folder: Path) -> None:
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise BundleError(
                f"the weights in {folder} do not fit the model it describes: {name} is {found.get(name, 'missing')} "
                f"there and {wanted.get(name, 'unknown')} here."
            )
