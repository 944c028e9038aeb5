"""A trained model on disk: weights as safetensors, everything else as JSON, nothing that can run code.

A folder holds ``bundle.json`` and the files it names, each under a name made from its content. The JSON file is written
last and by renaming, so at any moment the folder is either the old bundle or the new one. ``weights-….safetensors`` is
the network. ``validation-….safetensors`` keeps the features of the samples held out in training, so that the dial can
be turned without data; a bundle is complete without it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from lossdial.base.files import write
from lossdial.data import TableEncoder
from lossdial.dial import Envelope, FoldedScores, OperatingPoint, Scores, Surface
from lossdial.models import ConditionalClassifier, build_backbone, build_head
from lossdial.spaces import Lam, Space

__all__ = ["Bundle", "BundleError", "Holdout"]

_FORMAT: Final = 1
_JSON: Final = "bundle.json"
_LIBRARIES: Final = ("lossdial", "torch", "numpy", "scikit-learn", "safetensors")


class BundleError(ValueError):
    """A bundle that cannot be read, and what to do about it."""


@dataclass(frozen=True)
class Holdout:
    """Features (n, c) and labels (n,) in {0, 1} of samples that training has not seen."""

    features: Tensor
    y: NDArray[np.int64]


@dataclass(frozen=True)
class Bundle:
    """All that is needed to predict, and to choose again how to predict."""

    model: ConditionalClassifier
    #: which loss, and its constants: {"name": "vs", "beta": 42.0}
    loss: Mapping[str, Any]
    #: the two label values, the negative class first
    classes: tuple[Any, Any]
    #: the share of positives in training
    prevalence: float
    points: Mapping[str, OperatingPoint] = field(default_factory=dict)
    #: what adapting to other costs and prevalences needs, where it has been computed
    envelope: Envelope | None = None
    #: turns a table into the network's input; None where the input is an array already
    encoder: TableEncoder | None = None
    feature_names: tuple[str, ...] | None = None
    holdout: Holdout | None = None
    #: how it was trained: recipe, seconds, source of the data
    training: Mapping[str, Any] = field(default_factory=dict)

    def encode(self, table: pd.DataFrame) -> NDArray[np.float32]:
        """The network's input from a table with the columns seen in training."""
        if self.encoder is None:
            raise BundleError("this model was trained on arrays, not on a table; use LCTClassifier.load in Python.")
        return self.encoder.transform(table)

    def margins(self, features: Tensor, lam: Lam) -> NDArray[np.float32]:
        """z₊ − z₋ of features (n, c) at one λ: (n,)."""
        model = self.model
        with torch.no_grad():
            if not model.head.foldable or model.members > 1:
                return model.margins(features, lam.at(None))[:, 0].numpy()
            weights, biases = model.fold(lam.at(None))
            # In float64, so that the last bit does not depend on how many samples came together.
            return torch.addmv(biases[0].double(), features.double(), weights[0, 0].double()).float().numpy()

    def surface(self, data: Holdout, lams: Lam | None = None) -> Surface:
        """The scores of features and labels at every λ of (m,), by default an even grid over the trained range."""
        lams = self.model.space.even_grid() if lams is None else lams
        dicts = tuple(lam.as_dict() for lam in lams)
        scores: Scores
        with torch.no_grad():
            if self.model.head.foldable and self.model.members == 1:
                weights, biases = self.model.fold(lams)
                scores = FoldedScores(data.features.numpy(), weights[0].numpy(), biases[0].numpy())
            else:
                scores = _HeadScores(self.model, data.features, lams)
        return Surface(data.y, scores, dicts)

    def with_point(self, point: OperatingPoint) -> Bundle:
        """The same bundle with one more operating point, or another one under that name."""
        return replace(self, points={**self.points, point.name: point})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bundle into the folder ``path``, in place of one that may be there."""
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise BundleError(f"{folder} is a file; a bundle is a folder. Choose another name.")
        folder.mkdir(parents=True, exist_ok=True)
        # Cloned, because tied weights share memory, which safetensors refuses.
        files = {"weights": save_tensors({k: v.detach().cpu().clone() for k, v in self.model.state_dict().items()})}
        if self.holdout is not None:
            y = torch.from_numpy(self.holdout.y.astype(np.int64))
            files["validation"] = save_tensors({"features": self.holdout.features.contiguous(), "y": y})
        content = self._to_json() | {kind: _describe(kind, data) for kind, data in files.items()}
        content["sha256"] = _digest(content)
        before = {file.name for file in folder.iterdir()}
        names = {content[kind]["file"] for kind in files}
        try:
            for kind, data in files.items():
                write(folder / content[kind]["file"], data)
            write(folder / _JSON, json.dumps(content, indent=1, ensure_ascii=False).encode())
        except BaseException:
            for name in names - before:
                (folder / name).unlink(missing_ok=True)
            raise
        for old in (*folder.glob("weights-*.safetensors"), *folder.glob("validation-*.safetensors")):
            if old.name not in names:
                old.unlink()

    @classmethod
    def load(cls, path: str | os.PathLike[str], backbone: nn.Module | None = None) -> Bundle:
        """Read a bundle. ``backbone``: the module, where the model was trained with one of the user's own."""
        folder = Path(path)
        content = _read_json(folder)
        model = _build_model(content, backbone)
        weights = _read_weights(folder, content["weights"])
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise BundleError(f"the weights in {folder} do not fit the model it describes: {error}") from error
        model.eval()
        encoder = content["encoder"]
        return cls(
            model=model,
            loss=content["loss"],
            classes=_decode_classes(content["classes"]),
            prevalence=content["prevalence"],
            points={name: OperatingPoint.from_json(point) for name, point in content["points"].items()},
            envelope=None if content["envelope"] is None else Envelope.from_json(content["envelope"]),
            encoder=None if encoder is None else TableEncoder.from_json(encoder),
            feature_names=None if content["feature_names"] is None else tuple(content["feature_names"]),
            holdout=_read_holdout(folder, content["validation"]),
            training=content["training"],
        )

    def _to_json(self) -> dict[str, Any]:
        backbone = self.model.backbone
        kind = type(backbone)
        recipe = getattr(backbone, "recipe", None)
        return {
            "format": _FORMAT,
            "space": self.model.space.to_json(),
            "loss": dict(self.loss),
            "backbone": recipe()
            if callable(recipe)
            else {"name": "custom", "class": f"{kind.__module__}.{kind.__name__}"},
            "head": self.model.head.recipe(),
            "n_features": self.model.n_features,
            "classes": _encode_classes(self.classes),
            "prevalence": self.prevalence,
            "points": {name: point.to_json() for name, point in self.points.items()},
            "envelope": None if self.envelope is None else self.envelope.to_json(),
            "encoder": None if self.encoder is None else self.encoder.to_json(),
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "training": dict(self.training),
            "validation": None,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES},
        }


@dataclass(frozen=True)
class _HeadScores:
    """Scores of a head that does not fold, computed when asked for."""

    model: ConditionalClassifier
    features: Tensor
    lams: Lam

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.features), len(self.lams)

    def columns(self, start: int, stop: int) -> NDArray[np.float32]:
        with torch.no_grad():
            return self.model.margins(self.features, self.lams.at(slice(start, stop))).numpy()

    def rows(self, index: NDArray[np.intp]) -> _HeadScores:
        return replace(self, features=self.features[torch.from_numpy(index)])


def _describe(kind: str, data: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    return {"file": f"{kind}-{digest[:12]}.safetensors", "bytes": len(data), "sha256": digest}


def _digest(content: Mapping[str, Any]) -> str:
    body = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _read_json(folder: Path) -> dict[str, Any]:
    path = folder / _JSON
    if not folder.exists():
        raise BundleError(
            f"{folder} does not exist; a bundle is the folder that `lossdial train --out` or save() wrote."
        )
    if not path.exists():
        unfinished = (folder / "checkpoint.pt").exists()
        hint = (
            "its training has not finished: give the same train command again" if unfinished else "is it the right one?"
        )
        raise BundleError(f"{folder} holds no {_JSON}; {hint}.")
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise BundleError(f"{path} is truncated or not JSON ({error}). Copy the bundle again.") from error
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise BundleError(f"{path} is not a bundle of lossdial.")
    if content["format"] > _FORMAT:
        raise BundleError(
            f"{path} has format {content['format']}, written by lossdial "
            f"{content.get('versions', {}).get('lossdial')}; this version reads up to {_FORMAT}. Update lossdial."
        )
    if content.get("sha256") != _digest(content):
        raise BundleError(
            f"{path} was altered after it was written: its checksum does not match. Copy the bundle again."
        )
    return content


def _read_weights(folder: Path, entry: Mapping[str, Any]) -> dict[str, Tensor]:
    path = _path(folder, entry)
    if not path.exists():
        raise BundleError(f"{path} is missing: a bundle is {_JSON} and the weights it names. Copy the bundle again.")
    return _read_tensors(path, entry, "Copy the bundle again.")


def _read_holdout(folder: Path, entry: Mapping[str, Any] | None) -> Holdout | None:
    if entry is None or not _path(folder, entry).exists():
        return None
    tensors = _read_tensors(_path(folder, entry), entry, "Delete it: only tuning without data needs it.")
    return Holdout(tensors["features"], tensors["y"].numpy())


def _path(folder: Path, entry: Mapping[str, Any]) -> Path:
    return folder / Path(entry["file"]).name  # never outside the folder


def _read_tensors(path: Path, entry: Mapping[str, Any], remedy: str) -> dict[str, Tensor]:
    data = path.read_bytes()
    if len(data) < entry["bytes"]:
        raise BundleError(f"{path} is truncated: {len(data):,} of {entry['bytes']:,} bytes. {remedy}")
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise BundleError(f"{path} was altered after it was written: its checksum does not match. {remedy}")
    return load_tensors(data)


def _build_model(content: Mapping[str, Any], backbone: nn.Module | None) -> ConditionalClassifier:
    space = Space.from_json(content["space"])
    recipe = content["backbone"]
    if recipe["name"] == "custom":
        if backbone is None:
            raise BundleError(
                f"this bundle's backbone is a module of your own, {recipe['class']}; pass it: load(path, backbone=…)."
            )
    else:
        backbone = build_backbone(recipe)
    n_features = content["n_features"]
    return ConditionalClassifier(backbone, n_features, space, build_head(content["head"], n_features, space.dim))


def _encode_classes(classes: tuple[Any, Any]) -> dict[str, Any]:
    array = class_array(classes)
    return {"values": array.tolist(), "dtype": "object" if array.dtype == object else array.dtype.str}


def _decode_classes(data: Mapping[str, Any]) -> tuple[Any, Any]:
    array = np.array(data["values"], dtype=data["dtype"])
    return array[0], array[1]


def class_array(classes: Sequence[Any]) -> NDArray[Any]:
    """Labels as an array of the kind that they came from: Python's own text and numbers from one of objects."""
    return np.array(classes, dtype=None if isinstance(classes[0], np.generic) else object)
