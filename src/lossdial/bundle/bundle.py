"""A trained model on disk.

A folder holds ``bundle.json`` and the files it names, each under a name made from its content. The JSON file is written
last and by renaming, so at any moment the folder is either the old bundle or the new one. ``weights-….safetensors`` is
the network. ``evidence-….safetensors`` keeps scores and labels of the samples held out in training, never the samples,
so that the dial can be turned without data; a bundle is complete without it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from lossdial.base.errors import warn
from lossdial.base.files import exclusive, sweep, write, write_json
from lossdial.bundle.format import (
    FORMAT,
    JSON,
    BundleError,
    Content,
    commit_of,
    describe,
    model_from_json,
    model_to_json,
    read_content,
    read_tensors,
    tensor_path,
)
from lossdial.bundle.kept import DELETE, Evidence, Training, evidence_from, seen_from, seen_to, training_from
from lossdial.bundle.predictor import Predictor, class_array
from lossdial.data.schema import schema_from_json
from lossdial.dial import Dial, Envelope, Estimate, OperatingPoint
from lossdial.dial.certificates.evidence import Sketch, trained_on
from lossdial.dial.checks import TooFewPositives, require_positives
from lossdial.dial.choice.envelope import adapt
from lossdial.losses import loss_from_recipe
from lossdial.spaces import Lam

__all__ = [
    "Bundle",
    "Evidence",
    "Taken",
    "Training",
    "take_up",
]


@dataclass(frozen=True, eq=False)
class Taken:
    """A bundle with points taken up, and what became of each, by name."""

    bundle: Bundle
    new: tuple[str, ...]
    replaced: tuple[str, ...]
    known: tuple[str, ...]


def take_up(bundle: Bundle, points: Sequence[OperatingPoint]) -> Taken:
    """Take up points, none of them certified by that.

    A page shows the model's own points beside those set on it, and saves both: one that the model has just so, but for
    a certificate, is left alone, with its certificate.
    """
    found = [replace(point, certificate=None) for point in points]
    known = tuple(point.name for point in found if _same(point, bundle.points.get(point.name)))
    replaced = tuple(point.name for point in found if point.name in bundle.points and point.name not in known)
    new = tuple(point.name for point in found if point.name not in bundle.points)
    for point in found:
        if point.name not in known:
            bundle = bundle.with_point(point)
    return Taken(bundle, new, replaced, known)


def _same(point: OperatingPoint, own: OperatingPoint | None) -> bool:
    return own is not None and replace(own, certificate=None).to_json() == point.to_json()


_LIBRARIES: Final = ("lossdial", "torch", "numpy", "scikit-learn", "safetensors")


@dataclass(frozen=True, eq=False)
class Bundle:
    """All that is needed to predict, and to choose again how to predict."""

    predictor: Predictor
    training: Training
    points: Mapping[str, OperatingPoint] = field(default_factory=dict)
    #: what adapting to other costs and prevalences needs, where held-out samples gave it
    envelope: Envelope | None = None
    evidence: Evidence | None = None
    #: which rows were trained on
    seen: Sketch | None = None
    #: the folder it was read from or written to last, and what it held then
    _origin: tuple[Path, Mapping[str, Any]] | None = field(default=None, repr=False)

    def with_point(self, point: OperatingPoint) -> Bundle:
        """The same bundle with one more operating point, or another one under that name."""
        return replace(self, points={**self.points, point.name: point})

    @property
    def plain(self) -> dict[str, float] | None:
        """The λ nearest to the plain loss; None where the loss is somebody's own."""
        try:
            neutral = loss_from_recipe(self.training.loss).neutral
        except (ValueError, TypeError, KeyError):
            return None
        return dict(self.predictor.space.nearest(neutral).as_dict())

    def dial(
        self,
        X: Any,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        lams: Lam | None = None,
        features: Tensor | None = None,
    ) -> Dial:
        """The dial over raw rows and their labels; rows that were trained on are warned of.

        Where these rows certify, the samples held out in training choose λ, unless they are the same.

        lams: an even grid over the trained range unless given. features: of X, where they are known already.
        """
        labels = self.predictor.labels(y)
        rows = self.predictor.schema.numbers(X)
        spent = self.trained_on(X, rows)
        if spent:
            warn(f"{spent}: figures will be too good, and choices wrong. Give samples that training has not seen.")
        scores = self.predictor.scores(self.predictor.features(X) if features is None else features, lams)
        evidence = None if self.evidence is None or self.evidence.silence else self.held_out()
        dial = Dial(labels, scores, scores.lams, groups, sample_weight, spent, self.plain, evidence)
        dial.rows, dial.model = rows, self
        return dial

    def margins(self, X: Any, lam: Mapping[str, float]) -> NDArray[np.float32]:
        """z₊ − z₋ (n,) of raw rows at one λ."""
        return self.predictor.margins(self.predictor.features(X), lam)

    def held_out(self) -> Dial:
        """The dial over the samples that were held out in training."""
        if self.evidence is None:
            raise TooFewPositives(
                "",
                "there are no held-out data: training had none to spare, or the model was kept without them",
                remedy="Give data that training has not seen.",
            )
        dial = self.evidence.dial(self.plain)
        dial.model = self
        return dial

    def adapt(self, *, prevalence: float | Estimate, cost_fn: float, cost_fp: float, name: str) -> OperatingPoint:
        """The point of least expected cost elsewhere, by the held-out samples, or by their envelope where it alone was
        kept."""
        if self.evidence is None and self.envelope is not None:
            require_positives(self.envelope.n_positive)
            return adapt(self.envelope, float(prevalence), cost_fn, cost_fp, name)
        return self.held_out().adapt(prevalence=prevalence, cost_fn=cost_fn, cost_fp=cost_fp, name=name)

    def trained_on(self, X: Any, numbers: NDArray[np.float64] | None = None) -> str:
        """Why raw rows are no evidence, where training has seen them; else empty. `numbers`: theirs, where known."""
        if self.seen is None:
            return ""
        schema = self.predictor.schema
        if not self.seen.width:
            return trained_on(self.seen, schema.fingerprints(X))
        return trained_on(self.seen, schema.numbers(X) if numbers is None else numbers)

    def save(self, path: str | os.PathLike[str], replace: bool = False) -> None:
        """Write the bundle into the folder ``path``.

        Where it was read from, or saved to before, only what this object has added, changed or left out since then is
        written: what others changed there in the meantime stays. Another model there is an error, unless it is to be
        replaced.
        """
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise BundleError(f"{folder} is a file; a model is a folder. Choose another name.")
        folder.mkdir(parents=True, exist_ok=True)
        files = {"weights": self.predictor.model.state_dict(), **self._evidence()}
        described = {kind: describe(kind, tensors) for kind, tensors in files.items()}
        with exclusive(folder):
            _sweep(folder)
            present = {file.name for file in folder.iterdir()}
            there = _content_of(folder, described["weights"][0]["sha256"])
            if there is None and not replace:
                raise BundleError(
                    f"{folder} holds another model; choose another folder, or save(…, replace=True) to lose that one."
                )
            there = there or {}
            origin = self._origin[1] if there and self._origin and self._origin[0] == folder.resolve() else {}
            content = self._to_json() | {kind: entry for kind, (entry, _) in described.items()}
            if origin and all(origin[name] is getattr(self, name) for name in ("evidence", "seen")):
                described.pop("evidence", None)
                content |= {name: there[name] for name in ("evidence", "lams")}
            content["points"] = _merged(there.get("points", {}), self.points, origin.get("points", {}))
            names = {entry["file"] for entry in (content["weights"], content["evidence"]) if entry}
            try:
                for entry, data in described.values():
                    if entry["file"] not in present:
                        write(folder / entry["file"], data)
                write_json(folder / JSON, content)
            except BaseException:
                for name in names - present:
                    (folder / name).unlink(missing_ok=True)
                raise
            _remove_others(folder, names)
        object.__setattr__(self, "_origin", self._now(folder))  # no change of what it is: only of what it wrote

    def _now(self, folder: Path) -> tuple[Path, Mapping[str, Any]]:
        held = ("points", "evidence", "seen")
        return folder.resolve(), {name: getattr(self, name) for name in held}

    def digests(self) -> dict[str, str]:
        """The sha256 of the weights and, where there is any, of the evidence: as ``bundle.json`` names them."""
        files = {"weights": self.predictor.model.state_dict(), **self._evidence()}
        return {kind: describe(kind, tensors)[0]["sha256"] for kind, tensors in files.items()}

    @classmethod
    def load(cls, path: str | os.PathLike[str], network: nn.Module | None = None) -> Bundle:
        """Read a bundle. ``network``: the module, where the model was trained with one of the user's own."""
        folder = Path(path)
        while True:
            content = read_content(folder)
            try:
                bundle = cls._read(folder, content, network)
            except (BundleError, FileNotFoundError):
                # Another process may have put another model there, and removed the files that this JSON names.
                if commit_of(folder) == content.commit:
                    raise
            else:
                object.__setattr__(bundle, "_origin", bundle._now(folder))
                return bundle

    @classmethod
    def _read(cls, folder: Path, content: Content, network: nn.Module | None) -> Bundle:
        model = model_from_json(content, folder, network)
        try:
            schema = schema_from_json(content.get("schema", dict))
            envelope = content.optional("envelope")
            tensors = _optional_tensors(folder, content, "evidence")
            return cls(
                predictor=Predictor(schema, model, _classes(content.part("classes"))),
                training=training_from(content.part("training")),
                points=_points(content),
                envelope=None if envelope is None else Envelope.from_json(envelope.data),
                evidence=None if tensors is None or "y" not in tensors else evidence_from(tensors, content),
                seen=None if tensors is None else seen_from(tensors),
            )
        except BundleError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{folder / JSON}: {error}") from error

    def _evidence(self) -> dict[str, dict[str, Tensor]]:
        """The tensors of the evidence file, if there is any."""
        tensors: dict[str, NDArray[Any]] = {}
        if self.evidence is not None:
            tensors |= {"y": self.evidence.y.astype(np.uint8), "scores": self.evidence.scores}
            if self.evidence.groups is not None:
                tensors["groups"] = self.evidence.groups
            if self.evidence.sample_weight is not None:
                tensors["sample_weight"] = self.evidence.sample_weight
        if self.seen is not None:
            tensors |= seen_to(self.seen)
        return (
            {"evidence": {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in tensors.items()}} if tensors else {}
        )

    def _to_json(self) -> dict[str, Any]:
        training = self.training
        classes = class_array(self.predictor.classes)
        return {
            "format": FORMAT,
            **model_to_json(self.predictor.model),
            "schema": self.predictor.schema.to_json(),
            "classes": {
                "values": classes.tolist(),
                "dtype": "object" if classes.dtype == object else classes.dtype.str,
            },
            "training": {
                name: list(value) if isinstance(value, tuple) else value for name, value in vars(training).items()
            },
            "envelope": None if self.envelope is None else self.envelope.to_json(),
            "lams": None if self.evidence is None else [dict(lam) for lam in self.evidence.lams],
            "evidence": None,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES},
        }

    @staticmethod
    def delete_point(path: str | os.PathLike[str], name: str) -> None:
        """Take one operating point out of the bundle in a folder."""
        folder = Path(path)
        with exclusive(folder):
            _sweep(folder)
            content = read_content(folder)
            points = dict(content.get("points", dict))
            if name == "default":
                raise BundleError("'default' is what predict uses; tune or adapt without a name to change it.")
            if name not in points:
                raise BundleError(f"there is no operating point {name!r}; there are {', '.join(points)}.")
            del points[name]
            write_json(folder / JSON, {**content.data, "points": points})


def _content_of(folder: Path, weights: str) -> Mapping[str, Any] | None:
    """What the JSON of the bundle that is there holds; empty where there is none, None where it is of another model."""
    if not (folder / JSON).exists():
        return {}
    with suppress(BundleError):
        content = read_content(folder)
        if content.part("weights").get("sha256", str) == weights:
            return content.data
    return None


def _merged(there: Mapping[str, Any], own: Mapping[str, Any], origin: Mapping[str, Any]) -> dict[str, Any]:
    """Points as JSON: those on disk, with what was added, changed or left out since `origin` was read."""
    changed = {name: item.to_json() for name, item in own.items() if item is not origin.get(name)}
    return {name: item for name, item in there.items() if name in own or name not in origin} | changed


def _sweep(folder: Path) -> None:
    """Remove what writers that were killed have left; only whoever holds the lock writes these."""
    for name in (JSON, "weights-*.safetensors", "evidence-*.safetensors"):
        sweep(folder / name)


def _remove_others(folder: Path, names: set[str]) -> None:
    for old in (*folder.glob("weights-*.safetensors"), *folder.glob("evidence-*.safetensors")):
        if old.name not in names:
            old.unlink(missing_ok=True)


def _points(content: Content) -> dict[str, OperatingPoint]:
    points = {}
    for name in content.get("points", dict):
        try:
            points[name] = OperatingPoint.from_json(content.part("points").get(name, dict))
        except BundleError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"the operating point {name!r} in {content.place} is damaged: {error}") from error
    return points


def _optional_tensors(folder: Path, content: Content, key: str) -> dict[str, Tensor] | None:
    """The tensors of a file that predictions can do without: one that was removed is no error."""
    entry = content.optional(key)
    if entry is None:
        return None
    damage = None
    try:
        if tensor_path(folder, entry).exists():
            return read_tensors(folder, entry, DELETE)
    except BundleError as error:
        damage = error
    if commit_of(folder) != content.commit:
        raise BundleError(f"{folder} was replaced while it was read.")
    if damage is not None:
        warn(f"{damage} Predictions are not touched.")
    return None


def _classes(content: Content) -> tuple[Any, Any]:
    values, dtype = content.get("values", list), content.get("dtype", str)
    if len(values) != 2:
        raise BundleError(f"'values' in {content.place} must be the two labels; got {len(values)}.")
    array = np.array(values, dtype=dtype)
    return array[0], array[1]
