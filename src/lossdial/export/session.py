"""An exported file, asked from Python without the network: onnxruntime behind the words of the estimator."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import InputError, closest
from lossdial.data.schema import ImageSchema, Schema, TableSchema, schema_from_json
from lossdial.dial import OperatingPoint
from lossdial.dial.checks import require_prevalence
from lossdial.export.operators import GraphColumn, graph_columns, lam_input


@dataclass(frozen=True, eq=False)
class OnnxAnswers:
    """Of n rows: the class, the probability of the positive class, and the score that a threshold is compared with."""

    label: NDArray[Any]
    probability: NDArray[np.float64]
    score: NDArray[np.float32]


class OnnxModel:
    """A file that :func:`to_onnx` wrote, in onnxruntime.

    It reads raw rows as the model did in training, also those whose cells the graph itself cannot read, and refuses
    what the graph would answer with NaN.

    Parameters
    ----------
    source : str, path or bytes
        The file, or its content.
    threads : int
        Threads of onnxruntime; 0 leaves the number to it.

    Examples
    --------
    >>> model = OnnxModel("model.onnx")  # doctest: +SKIP
    >>> model.decide(df, "clinic").label  # doctest: +SKIP
    array(['well', 'ill'], dtype=object)
    """

    def __init__(self, source: str | os.PathLike[str] | bytes, threads: int = 0) -> None:
        import onnxruntime  # type: ignore[import-untyped]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if not isinstance(source, bytes):
            if not Path(source).is_file():
                raise FileNotFoundError(f"there is no file {os.fspath(source)}.")
            source = Path(source).read_bytes()
        try:
            self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own kinds are private
            problem = f"must be a graph that onnxruntime reads ({str(error).splitlines()[0]})"
            raise InputError("source", problem) from error
        self.metadata: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map
        if "lossdial.points" not in self.metadata:
            remedy = "`lossdial export RUN --onnx FILE` writes one."
            raise InputError("source", "must be a graph that lossdial wrote", remedy=remedy)

    @cached_property
    def points(self) -> Mapping[str, OperatingPoint]:
        """The operating points by name."""
        return {name: OperatingPoint.from_json(p) for name, p in json.loads(self.metadata["lossdial.points"]).items()}

    @property
    def default(self) -> str:
        """The point that answers where none is named."""
        return self.metadata["lossdial.point"]

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The trained range of each coordinate of λ."""
        entries = json.loads(self.metadata["lossdial.lambda"])
        return {name: (entry["range"][0], entry["range"][1]) for name, entry in entries.items()}

    def decide(
        self,
        X: Any,
        point: str | None = None,
        lam: Mapping[str, float] | None = None,
        threshold: float | None = None,
        prevalence: float | None = None,
    ) -> OnnxAnswers:
        """Label, probability and score of raw rows.

        Parameters
        ----------
        X : data frame, array or images
            Raw rows, as the model takes them in Python.
        point : str, optional
            An operating point; by default the one that the export chose.
        lam : mapping, optional
            λ in place of a point. The threshold is then 0 unless given, and the probability is the network's own.
        threshold : float, optional
            A score in place of the point's threshold.
        prevalence : float, optional
            The share of positives for which probabilities are stated. It moves no label.

        Returns
        -------
        OnnxAnswers
        """
        feed = {**self._rows(X), **self._settings(point, lam, threshold, prevalence)}
        label, probability, score = self._session.run(["label", "probability", "score"], feed)
        return OnnxAnswers(label, probability, score)

    def refer(self, X: Any, point: str) -> NDArray[np.str_]:
        """Clear, refer or act for each raw row, by a point with two cuts.

        The graph itself has no answer by such a point: this compares its score at the point's λ with the cuts.
        """
        chosen = self._point(point)
        return chosen.actions(self.decide(X, lam={name: chosen.lam[name] for name in self.ranges}).score)

    def _point(self, name: str) -> OperatingPoint:
        if name not in self.points:
            raise InputError("point", f"{name!r} is unknown; {closest(name, self.points)}")
        return self.points[name]

    def _settings(
        self, point: str | None, lam: Mapping[str, float] | None, threshold: float | None, prevalence: float | None
    ) -> dict[str, NDArray[Any]]:
        """The inputs that are not rows."""
        feed: dict[str, NDArray[Any]] = {}
        if point is not None:
            if lam is not None:
                raise InputError("lam", "must not be given beside {point}, which has its own λ")
            if self._point(point).lower is not None:
                remedy = f"Use refer(X, {point!r})."
                raise InputError("point", "must have one cut; this is a referral band", got=point, remedy=remedy)
            feed["point"] = np.array([point], dtype=object)
        if lam is not None and lam.keys() != self.ranges.keys():
            raise InputError("lam", f"must have {', '.join(self.ranges)}, and no other", got=dict(lam))
        for name, value in (lam or {}).items():
            low, high = self.ranges[name]
            if not low - 1e-6 <= value <= high + 1e-6:
                raise InputError("lam", f"must have {name} in the trained range [{low:g}, {high:g}]", got=value)
            feed[lam_input(name)] = np.array([value], dtype=np.float32)
        if threshold is not None:
            if np.isnan(threshold):
                raise InputError("threshold", "must be a number", got=threshold)
            feed["threshold"] = np.array([threshold], dtype=np.float64)
        if prevalence is not None:
            require_prevalence(prevalence)
            feed["prevalence"] = np.array([prevalence], dtype=np.float64)
        return feed

    @cached_property
    def _schema(self) -> Schema:
        return schema_from_json(json.loads(self.metadata["lossdial.schema"]))

    @cached_property
    def _columns(self) -> tuple[GraphColumn, ...]:
        return graph_columns(self._schema, self.ranges)

    def _rows(self, X: Any) -> dict[str, NDArray[Any]]:
        schema = self._schema
        if isinstance(schema, TableSchema):
            if not isinstance(X, pd.DataFrame):
                X = pd.DataFrame(np.asarray(X), columns=schema.encoder.feature_names_in_)
            schema.encode(X)  # what the model refuses, or warns of, it does here too
            frame = X.set_axis(X.columns.map(str), axis=1)
            return {c.input: c.feed(frame[c.column.name].infer_objects()) for c in self._columns}
        if isinstance(schema, ImageSchema):
            images = schema.encode(X)
            if images.dtype != np.uint8:
                raise InputError("X", "must have pixels of type uint8, 0 to 255", got=str(images.dtype))
            return {"image": images}
        return {"x": schema.encode(X)}
