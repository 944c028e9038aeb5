"""A trained model on disk.

A folder holds ``bundle.json`` and the files it names, each under a name made from its content. The JSON file is written
last and by renaming, so at any moment the folder is either the old bundle or the new one. ``weights-….safetensors`` is
the network. ``evidence-….safetensors`` keeps labels and scores of rows by models that have not seen them, so that the
dial can be turned without data; it never keeps rows, and a bundle is complete without it.
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

from lossdial.base.codec import Reader, to_json
from lossdial.base.errors import warn
from lossdial.base.files import exclusive, write_json
from lossdial.bundle.format import (
    AGAIN,
    DELETE,
    FORMAT,
    JSON,
    BundleError,
    Content,
    TensorFile,
    commit,
    commit_of,
    model_from_json,
    model_to_json,
    optional_tensors,
    read_content,
    sweep_folder,
)
from lossdial.bundle.predictor import Predictor, class_array
from lossdial.data.schema import schema_from_json
from lossdial.dial import Dial, Envelope, Estimate, OperatingPoint
from lossdial.dial.certificates.evidence import Sketch, trained_on
from lossdial.dial.checks import FOLD_MODELS, TooFewPositives, require_positives, statable
from lossdial.dial.choice.envelope import adapt
from lossdial.losses import loss_from_recipe
from lossdial.spaces import Lam

_LIBRARIES: Final = ("lossdial", "torch", "numpy", "scikit-learn", "safetensors")


@dataclass(frozen=True)
class Training:
    """How a model was trained, in JSON's own types."""

    #: which loss, and its constants: {"name": "vs", "beta": 42.0}
    loss: Mapping[str, Any]
    #: the share of positives in training
    prevalence: float
    seconds: float
    steps: int
    #: one entry an epoch
    history: tuple[Mapping[str, Any], ...]
    #: the estimator's own parameters
    parameters: Mapping[str, Any]
    #: what must be the same for a run to be this one
    identity: Mapping[str, Any] = field(default_factory=dict)
    #: the column that the labels came from, where they had a name
    target: str | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """Labels of rows, and scores at every λ by models that have not seen them; no row can be had from them."""

    y: NDArray[np.uint8]
    scores: NDArray[np.float32]  # (n, m)
    lams: tuple[Mapping[str, float], ...]
    groups: NDArray[np.int64] | None = None
    sample_weight: NDArray[np.float64] | None = None
    #: 1: the rows were held out from the model that is kept; else each was scored by the model of its fold
    models: int = 1

    @property
    def origin(self) -> str:
        """What the rows are, for titles."""
        return "samples held out in training" if self.models == 1 else "training samples, cross-fitted"

    @property
    def silence(self) -> str | None:
        """Why no figure can be stated on them; None where one can."""
        return statable(int(self.y.sum()), int(len(self.y) - self.y.sum()))

    def dial(self, plain: Mapping[str, float] | None = None) -> Dial:
        """The dial over them; ``plain`` is the λ of the plain loss, where it is known."""
        spent = "" if self.models == 1 else FOLD_MODELS
        return Dial(self.y, self.scores, self.lams, self.groups, self.sample_weight, spent, plain)


@dataclass(frozen=True, eq=False)
class Taken:
    """A bundle that took up points, and what became of each, by name."""

    bundle: Bundle
    new: tuple[str, ...]
    replaced: tuple[str, ...]
    known: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Bundle:
    """All that is needed to predict, and to choose again how to predict.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from lossdial import LCTClassifier
    >>> X, y = make_classification(400, weights=[0.8], random_state=0)
    >>> bundle = LCTClassifier(network="features").fit(X, y).bundle_
    >>> point = bundle.held_out().tune(maximize="balanced_accuracy", name="screening")
    >>> sorted(bundle.with_point(point).points)
    ['default', 'screening']
    """

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

    def take_up(self, points: Sequence[OperatingPoint]) -> Taken:
        """Take up points of unknown origin, none of them certified by that."""
        bundle = self
        names: dict[str, list[str]] = {"new": [], "replaced": [], "known": []}
        for proposed in points:
            point, own = replace(proposed, certificate=None), self.points.get(proposed.name)
            same = own is not None and replace(own, certificate=None).to_json() == point.to_json()
            names["known" if same else "new" if own is None else "replaced"].append(point.name)
            bundle = bundle if same else bundle.with_point(point)
        return Taken(bundle, *(tuple(names[kind]) for kind in ("new", "replaced", "known")))

    def own_share(self, point: OperatingPoint) -> float:
        """The share of positives that a point without a prevalence stands for: that of its rows, or of training."""
        counts, envelope = (point.n_positive, point.n_negative), self.envelope
        if envelope is not None and counts == (envelope.n_positive, envelope.n_negative):
            return float(envelope.prevalence)  # where rows have weights, counts do not tell it
        return counts[0] / sum(counts) if min(counts) > 0 else self.training.prevalence

    def source(self, data: str | None) -> str:
        """What the rows of a dial are, for titles: the named data, or those whose scores training kept."""
        return data or ("samples held out in training" if self.evidence is None else self.evidence.origin)

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
        """The dial of raw rows and their labels, with a warning where training has seen them.

        Where these rows certify, those whose scores training kept choose λ, unless they are the same.

        Parameters
        ----------
        X, y
            Rows that training has not seen.
        groups
            Rows of one group (a patient) belong together.
        sample_weight
            How much each row counts.
        lams
            The λ to look at; an even grid over the trained range by default.
        features
            Those of X, where they have been computed already.

        Returns
        -------
        Dial
        """
        labels = self.predictor.labels(y)
        rows = self.predictor.schema.numbers(X)
        spent = self.trained_on(X, rows, labels)
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
        """The dial of the rows whose scores training kept: held out, or, where a head was solved, cross-fitted.

        Cross-fitted scores are of several models. They choose and measure; only new rows certify.
        """
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
        """The point of least expected cost elsewhere, by the held-out rows, or by their envelope where it alone was
        kept."""
        if self.evidence is None and self.envelope is not None:
            require_positives(self.envelope.n_positive)
            return adapt(self.envelope, float(prevalence), cost_fn, cost_fp, name)
        return self.held_out().adapt(prevalence=prevalence, cost_fn=cost_fn, cost_fp=cost_fp, name=name)

    def trained_on(
        self, X: Any, numbers: NDArray[np.float64] | None = None, labels: NDArray[np.int64] | None = None
    ) -> str:
        """Why raw rows are no evidence, where training has seen them; else empty. ``numbers`` are the schema's."""
        if self.seen is None:
            return ""
        schema = self.predictor.schema
        if not self.seen.width:
            return trained_on(self.seen, schema.fingerprints(X), labels)
        return trained_on(self.seen, schema.numbers(X) if numbers is None else numbers, labels)

    def save(self, path: str | os.PathLike[str], replace: bool = False) -> None:
        """Write the bundle into a folder.

        Where it was read from, or saved to before, only what this object has added, changed or left out since then is
        written: what others changed there in the meantime stays.

        Parameters
        ----------
        path
            The folder.
        replace
            Write also where the folder holds another model, which is then lost.
        """
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise BundleError(f"{folder} is a file; a model is a folder. Choose another name.")
        folder.mkdir(parents=True, exist_ok=True)
        files = self._files()
        with exclusive(folder):
            sweep_folder(folder)
            stored = _stored_content(folder, files["weights"].entry["sha256"])
            if stored is None and not replace:
                raise BundleError(
                    f"{folder} holds another model; choose another folder, or save(…, replace=True) to lose that one."
                )
            stored = stored or {}
            origin = self._origin[1] if stored and self._origin and self._origin[0] == folder.resolve() else {}
            content = self._to_json() | {kind: file.entry for kind, file in files.items()}
            if origin and all(origin[name] is getattr(self, name) for name in ("evidence", "seen")):
                files.pop("evidence", None)
                content |= {name: stored[name] for name in ("evidence", "lams")}
            content["points"] = _merged(stored.get("points", {}), self.points, origin.get("points", {}))
            commit(folder, content, files)
        self._remember(folder)

    def _remember(self, folder: Path) -> None:
        """Note what the folder holds now; it changes nothing of what the bundle is."""
        state = {name: getattr(self, name) for name in ("points", "evidence", "seen")}
        object.__setattr__(self, "_origin", (folder.resolve(), state))

    def digests(self) -> dict[str, str]:
        """The sha256 of the weights and, where there is any, of the evidence: as ``bundle.json`` names them."""
        return {kind: file.entry["sha256"] for kind, file in self._files().items()}

    @classmethod
    def load(cls, path: str | os.PathLike[str], network: nn.Module | None = None) -> Bundle:
        """Read a bundle.

        Parameters
        ----------
        path
            The folder.
        network
            The module, where the model was trained with one of your own.

        Returns
        -------
        Bundle

        Raises
        ------
        BundleError
            Where the folder holds no bundle, or a damaged one.
        """
        folder = Path(path)
        while True:
            content = read_content(folder)
            try:
                bundle = cls._read(content, network)
            except (BundleError, FileNotFoundError):
                # Another process may have put another model there, and removed the files that this JSON names.
                if commit_of(folder) == content.commit:
                    raise
            else:
                bundle._remember(folder)
                return bundle

    @classmethod
    def _read(cls, content: Content, network: nn.Module | None) -> Bundle:
        fields = content.fields
        try:
            model = model_from_json(content, network)
            schema = schema_from_json(fields.mapping("schema"))
            arrays = {name: tensor.numpy() for name, tensor in optional_tensors(content, "evidence").items()}
            evidence = None
            if "y" in arrays:
                evidence = _evidence(arrays, fields.read("lams", tuple[Mapping[str, float], ...]))
            envelope = fields.get("envelope")
            return cls(
                predictor=Predictor(schema, model, _classes(fields.nested("classes"))),
                training=fields.read("training", Training),
                points={name: OperatingPoint.from_json(point) for name, point in fields.mapping("points").items()},
                envelope=None if envelope is None else Envelope.from_json(fields.mapping("envelope")),
                evidence=evidence,
                seen=_sketch(arrays),
            )
        except BundleError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            place, text = fields.where, str(error).rstrip(".")
            raise BundleError(f"{text if text.startswith(place) else f'{place}: {text}'}. {AGAIN}") from error

    def _files(self) -> dict[str, TensorFile]:
        """The weights and, if there is any, the evidence, as files."""
        files = {"weights": TensorFile.of("weights", self.predictor.model.state_dict())}
        kept = {} if self.evidence is None else vars(self.evidence) | {"models": np.array([self.evidence.models])}
        arrays = {name: array for name, array in kept.items() if name != "lams" and array is not None}
        if self.seen is not None:
            arrays |= {
                "seen": self.seen.cells.astype(np.int64),
                "seen_counts": self.seen.counts.astype(np.int64),
                "seen_width": np.array([self.seen.width], dtype=np.float64),
            }
        if arrays:
            tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
            files["evidence"] = TensorFile.of("evidence", tensors)
        return files

    def _to_json(self) -> dict[str, Any]:
        classes = class_array(self.predictor.classes)
        return {
            "format": FORMAT,
            **model_to_json(self.predictor.model),
            "schema": self.predictor.schema.to_json(),
            "classes": {
                "values": classes.tolist(),
                "dtype": "object" if classes.dtype == object else classes.dtype.str,
            },
            "training": to_json(self.training, tagged=False),
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
            sweep_folder(folder)
            content = read_content(folder)
            points = dict(content.fields.mapping("points"))
            if name == "default":
                raise BundleError("'default' is what predict uses; tune or adapt without a name to change it.")
            if name not in points:
                raise BundleError(f"there is no operating point {name!r}; there are {', '.join(points)}.")
            del points[name]
            write_json(folder / JSON, {**content.fields.data, "points": points})


def _stored_content(folder: Path, weights: str) -> Mapping[str, Any] | None:
    """What the JSON of the bundle in a folder holds; empty where there is none, None where it is of another model."""
    if not (folder / JSON).exists():
        return {}
    with suppress(ValueError):
        fields = read_content(folder).fields
        if fields.nested("weights").text("sha256") == weights:
            return dict(fields.data)
    return None


def _merged(
    stored: Mapping[str, Any], own: Mapping[str, OperatingPoint], origin: Mapping[str, OperatingPoint]
) -> dict[str, Any]:
    """Points as JSON: those on disk, with what was added, changed or left out since ``origin`` was read."""
    changed = {name: point.to_json() for name, point in own.items() if point is not origin.get(name)}
    return {name: point for name, point in stored.items() if name in own or name not in origin} | changed


def _evidence(arrays: Mapping[str, NDArray[Any]], lams: tuple[Mapping[str, float], ...]) -> Evidence:
    y, scores = arrays["y"], arrays["scores"]
    if scores.shape != (len(y), len(lams)):
        raise BundleError(f"the evidence has scores of shape {scores.shape} for {len(lams)} λ. {DELETE}")
    models = int(arrays["models"][0]) if "models" in arrays else 1
    return Evidence(y, scores, lams, arrays.get("groups"), arrays.get("sample_weight"), models)


def _sketch(arrays: Mapping[str, NDArray[Any]]) -> Sketch | None:
    """The sketch of the training rows; in models of 0.1 its cells are hashes of rows, of no width."""
    if "seen" not in arrays:
        return None
    cells = arrays["seen"]
    counts, width = arrays.get("seen_counts", np.ones_like(cells)), arrays.get("seen_width", np.zeros(1))
    if cells.ndim != 1 or cells.shape != counts.shape or width.shape != (1,) or not width[0] >= 0:
        raise BundleError(f"the evidence has a damaged sketch of the training rows. {DELETE}")
    return Sketch(float(width[0]), cells.astype(np.uint32), counts.astype(np.uint32))


def _classes(fields: Reader) -> tuple[Any, Any]:
    values = fields.items("values")
    if len(values) != 2:
        raise BundleError(f"{fields.where}: 'values' must be the two labels; got {len(values)}.")
    if any(isinstance(value, list | dict) or value is None for value in values) or values[0] == values[1]:
        raise BundleError(f"{fields.where}: 'values' must be two labels that differ; got {values!r:.60}.")
    array = np.array(values, dtype=fields.text("dtype"))
    return array[0], array[1]
