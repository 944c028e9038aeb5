"""The estimator's parameters: fields of dataclasses by nested names, such as ``recipe__optimizer__lr``, and JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from sklearn.base import BaseEstimator
from torch import nn

from lossdial.base.codec import from_json, to_json
from lossdial.base.errors import InputError, closest
from lossdial.dial import Objective
from lossdial.losses import ConditionalLoss, loss_from_recipe
from lossdial.models import FeaturesConfig, FiLMConfig, MLPConfig, PlainConfig, PolynomialConfig, TableConfig
from lossdial.sklearn.run import Run
from lossdial.spaces import Space
from lossdial.training import Augment, Cosine, Exact, OptimizerConfig, Recipe, Steps, Triangle

_KINDS: Final = (
    *(Recipe, Exact, OptimizerConfig, Cosine, Steps, Triangle, Augment, Objective),
    *(TableConfig, MLPConfig, FeaturesConfig, FiLMConfig, PlainConfig, PolynomialConfig),
)


class NestedParameters(BaseEstimator):
    """scikit-learn's parameters, and nested names for the fields of those that are frozen dataclasses."""

    #: what a parameter that is None stands for: the first, or another that has the nested names
    _defaults: ClassVar[Mapping[str, tuple[type, ...]]] = {}
    #: texts that stand for a value
    _names: ClassVar[Mapping[str, Mapping[str, type]]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = super().get_params(deep)
        if deep:
            for name in list(super().get_params(False)):
                params |= _nested(name, self._value(name))
        return params

    def set_params(self, **params: Any) -> Self:
        nested: dict[str, dict[str, Any]] = {}
        whole = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            current = self._named(name, params[name]) if params.get(name) is not None else self._value(name)
            if rest and is_dataclass(current):
                nested.setdefault(name, {})[rest] = value
            else:
                whole[key] = value
        super().set_params(**whole)
        for name, changes in nested.items():
            value = self._value(name)
            if getattr(self, name) is None and name in self._defaults:
                kinds = [value, *(kind() for kind in self._defaults[name])]
                fields_named = {key.partition("__")[0] for key in changes}
                value = next((kind for kind in kinds if fields_named <= {f.name for f in fields(kind)}), value)
            setattr(self, name, _changed(value, changes, name))
        return self

    def _value(self, name: str) -> Any:
        """A parameter, what its name stands for, or what stands for None."""
        value = getattr(self, name, None)
        return self._default(name) if value is None and name in self._defaults else self._named(name, value)

    def _default(self, name: str) -> Any:
        return self._defaults[name][0]()

    def _named(self, name: str, value: Any) -> Any:
        """The value that a text stands for; any other as it is."""
        known = self._names.get(name, {})
        return known[value]() if isinstance(value, str) and value in known else value


def _nested(name: str, value: Any) -> dict[str, Any]:
    """All fields of a dataclass, and theirs, by nested names."""
    if not is_dataclass(value) or isinstance(value, type):
        return {}
    nested = {}
    for f in fields(value):
        inner = f"{name}__{f.name}"
        nested[inner] = getattr(value, f.name)
        nested |= _nested(inner, nested[inner])
    return nested


def _changed(value: Any, changes: Mapping[str, Any], place: str) -> Any:
    """A dataclass with fields replaced, whole ones before parts of them."""
    names = [f.name for f in fields(value)]
    changed: dict[str, Any] = {}
    for key in sorted(changes, key=lambda key: "__" in key):
        name, _, rest = key.partition("__")
        if name not in names:
            raise InputError("", f"Invalid parameter {place}__{name}; {closest(name, names)}")
        old, new = changed.get(name, getattr(value, name)), changes[key]
        changed[name] = _changed(old, {rest: new}, f"{place}__{name}") if rest else new
    return replace(value, **changed)


def parameters_to_json(params: Mapping[str, Any]) -> dict[str, Any]:
    """An estimator's own parameters as JSON; of what cannot be written down (a module, a function) its name is kept."""
    return {name: _to_json(value) for name, value in params.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, Space):
        return {"space": value.to_json()}
    if isinstance(value, ConditionalLoss):
        return {"loss": value.recipe()}
    if isinstance(value, Run):
        value = replace(value, folder=None if value.folder is None else os.fspath(value.folder))
        return {"run": to_json(value, tagged=False)}
    if isinstance(value, (nn.Module, np.random.RandomState)):
        return {"object": type(value).__qualname__}
    try:
        return to_json(value)
    except TypeError:
        return {"object": str(value)}


def parameters_from_json(data: Mapping[str, Any], objects: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that :func:`parameters_to_json` wrote; ``objects`` stand for those that could not be."""
    params: dict[str, Any] = {}
    for written, value in data.items():
        name = "objective" if written == "aim" else written  # as version 0.1 called it
        tag = next(iter(value)) if isinstance(value, dict) and len(value) == 1 else ""
        if tag == "space":
            params[name] = Space.from_json(value[tag])
        elif tag == "run":
            settings = {key: entry for key, entry in value[tag].items() if key != "logger"}  # of version 0.1
            params[name] = replace(Run(**settings), folder=None)  # a new training lives elsewhere
        elif tag == "loss":
            params[name] = loss_from_recipe(value[tag])
        elif tag == "object":
            params[name] = objects.get(name)
        else:
            params[name] = from_json(value, _KINDS)
    return params
