"""The estimator's parameters: few, each one idea; those that are dataclasses are reached by nested names.

``recipe__epochs=5`` replaces one field of the recipe, ``recipe__optimizer__lr`` one deeper, in ``set_params`` as in a
grid search. A parameter that is None stands for its default, whose fields can be named too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from sklearn.base import BaseEstimator
from torch import nn

from lossdial.base.codec import from_json, to_json
from lossdial.base.errors import closest
from lossdial.dial import Objective
from lossdial.losses import ConditionalLoss, loss_from_recipe
from lossdial.models import FeaturesConfig, FiLMConfig, MLPConfig, PlainConfig, PolynomialConfig, TableConfig
from lossdial.sklearn.run import Run
from lossdial.spaces import Space
from lossdial.training import Augment, Cosine, Exact, Flat, OptimizerConfig, Recipe, Steps, Triangle

__all__ = ["NestedParameters", "parameters_from_json", "parameters_to_json"]

_KINDS: Final = (
    *(Recipe, Exact, OptimizerConfig, Cosine, Flat, Steps, Triangle, Augment, Objective),
    *(TableConfig, MLPConfig, FeaturesConfig, FiLMConfig, PlainConfig, PolynomialConfig),
)


class NestedParameters(BaseEstimator):
    """scikit-learn's parameters, with those that are frozen dataclasses open to nested names."""

    #: what a parameter that is None stands for: the first, or another whose fields are named
    _defaults: ClassVar[Mapping[str, tuple[type, ...]]] = {}
    #: of a parameter that has no default: what makes one of the fields that are named
    _makers: ClassVar[Mapping[str, type]] = {}
    #: values that may be given by a name
    _names: ClassVar[Mapping[str, Mapping[str, type]]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = super().get_params(deep)
        if deep:
            for name in list(super().get_params(False)):
                params |= _spread(name, self._value(name))
        return params

    def set_params(self, **params: Any) -> Self:
        nested: dict[str, dict[str, Any]] = {}
        plain = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            given = self._named(name, params[name]) if params.get(name) is not None else self._value(name)
            if rest and (name in self._makers or is_dataclass(given)):
                nested.setdefault(name, {})[rest] = value
            else:
                plain[key] = value
        super().set_params(**plain)
        for name, changes in nested.items():
            value = self._value(name)
            if getattr(self, name) is None and name in self._defaults:
                value = _having(changes, value, self._defaults[name])
            setattr(self, name, self._makers[name](**changes) if value is None else _replaced(value, changes, name))
        return self

    def _value(self, name: str) -> Any:
        """A parameter, what its name stands for, or what stands for None."""
        value = getattr(self, name, None)
        return self._default(name) if value is None and name in self._defaults else self._named(name, value)

    def _default(self, name: str) -> Any:
        return self._defaults[name][0]()

    def _named(self, name: str, value: Any) -> Any:
        """A value that was given by its name; any other as it is."""
        known = self._names.get(name, {})
        return known[value]() if isinstance(value, str) and value in known else value


def _having(changes: Mapping[str, Any], value: Any, kinds: tuple[type, ...]) -> Any:
    """The default, unless only another kind has the fields that are named."""
    wanted = {key.partition("__")[0] for key in changes}
    options = [value, *(kind() for kind in kinds)]
    return next((each for each in options if wanted <= {f.name for f in fields(each)}), value)


def _spread(name: str, value: Any) -> dict[str, Any]:
    if not is_dataclass(value) or isinstance(value, type):
        return {}
    found = {}
    for f in fields(value):
        inner = f"{name}__{f.name}"
        found[inner] = getattr(value, f.name)
        found |= _spread(inner, found[inner])
    return found


def _replaced(value: Any, changes: Mapping[str, Any], place: str) -> Any:
    direct = {key: change for key, change in changes.items() if "__" not in key}
    deeper: dict[str, dict[str, Any]] = {}
    for key, change in changes.items():
        name, _, rest = key.partition("__")
        if rest:
            deeper.setdefault(name, {})[rest] = change
    names = [f.name for f in fields(value)]
    for name in (*direct, *deeper):
        if name not in names:
            raise ValueError(f"Invalid parameter {place}__{name}; {closest(name, names)}")
    value = replace(value, **direct)
    return replace(
        value, **{name: _replaced(getattr(value, name), rest, f"{place}__{name}") for name, rest in deeper.items()}
    )


def parameters_to_json(params: Mapping[str, Any]) -> dict[str, Any]:
    """An estimator's own parameters as JSON; what cannot be written down (a module, a function) is said by its name."""
    return {name: _to_json(value) for name, value in params.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, Space):
        return {"space": value.to_json()}
    if isinstance(value, ConditionalLoss):
        return {"loss": value.recipe()}
    if isinstance(value, Run):
        value = replace(value, folder=None if value.folder is None else os.fspath(value.folder), logger=None)
        return {"run": {f.name: getattr(value, f.name) for f in fields(value)}}
    if isinstance(value, (nn.Module, np.random.RandomState)):
        return {"object": type(value).__qualname__}
    try:
        return to_json(value)
    except TypeError:
        return {"object": str(value)}


def parameters_from_json(data: Mapping[str, Any], objects: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that :func:`parameters_to_json` wrote; ``objects`` stand for those that could not be."""
    found: dict[str, Any] = {}
    for written, value in data.items():
        name = "objective" if written == "aim" else written  # as version 0.1 called it
        if isinstance(value, dict) and "space" in value:
            found[name] = Space.from_json(value["space"])
        elif isinstance(value, dict) and "run" in value:
            found[name] = replace(Run(**value["run"]), folder=None)  # a new training lives elsewhere
        elif isinstance(value, dict) and "loss" in value:
            found[name] = loss_from_recipe(value["loss"])
        elif isinstance(value, dict) and "object" in value:
            found[name] = objects.get(name)
        else:
            found[name] = from_json(value, _KINDS)
    return found
