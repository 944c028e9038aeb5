"""``LCTClassifier``: the scikit-learn face."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length
from torch import nn

from lossdial.base.files import claimed
from lossdial.base.labels import positive_class
from lossdial.bundle import Bundle, Training
from lossdial.bundle.predictor import Predictor
from lossdial.data.schema import as_pandas
from lossdial.dial import Objective
from lossdial.dial.certificates.evidence import Sketch, sketches
from lossdial.dial.metrics.functions import auc
from lossdial.losses import ConditionalLoss
from lossdial.models import (
    FeaturesConfig,
    FiLMConfig,
    FrozenEncoder,
    HeadConfig,
    MLPConfig,
    NetworkConfig,
    PlainConfig,
    PolynomialConfig,
    TableConfig,
)
from lossdial.sklearn.finished import evidence_of, finished, seed_of, untuned
from lossdial.sklearn.learning import (
    Encoded,
    check_exact,
    default_recipe,
    default_space,
    loss_of,
    solvable,
    solved,
    trained,
)
from lossdial.sklearn.parameters import Run, parameters_to_json
from lossdial.sklearn.rows import Rows, columns_as, embedded, hold_out, in_memory
from lossdial.sklearn.trained import TrainedClassifier
from lossdial.spaces import Space
from lossdial.training import Checkpoint, Exact, Recipe, standing_lam

__all__ = ["LCTClassifier"]


class LCTClassifier(TrainedClassifier):
    """A binary classifier trained once over a distribution of losses; λ and threshold are chosen afterwards.

    X may be a data frame (of pandas, polars or Arrow; numbers, text, booleans, dates, gaps), an array (n, d), a sparse
    matrix (made dense), images (n, c, h, w), a list of image files, or anything else that ``network`` takes.

    Parameters
    ----------
    loss : {"vs", "focal"} or ConditionalLoss
        The family of losses. β of the Vector Scaling loss is taken from the training data.
    space : Space, optional
        The distribution of λ. ``Constant`` for every name trains a baseline. By default the ridge, and Focal's class
        weight, where a head is solved for; where one is trained the widest of the paper's for that loss.
    network : {"table", "mlp", "features"}, TableConfig, MLPConfig or nn.Module, optional
        What turns a row into features. ``"table"``: pieces of columns and trees, learned once, on which a head is
        solved; the default. ``"mlp"``: a network to be trained; the default beside a head, a Recipe or a space without
        a ridge. ``"features"``: the rows are features already, such as embeddings, and are standardised only. A module
        is copied, not changed; it maps a batch to (n, c) or (n, c, h, w).
    head : {"film", "polynomial", "plain"} or HeadConfig, optional
        What turns features and λ into a score. By default the paper's FiLM where λ varies.
    recipe : "exact", Exact or Recipe, optional
        How to train: epochs, batch size, optimiser, schedule, …; or, on features that do not move, to solve for every
        λ exactly, with nothing to search. By default that, unless ``network`` is one to be trained, or a head or a
        space without a ridge is given.
    aim : Objective, optional
        What to tune for at the end of ``fit``, on the held-out share; without, ``predict`` answers at the λ nearest to
        cross entropy, a ridge at the least held-out log loss, until ``tune`` is called.
    pos_label : label, optional
        The class to look for. By default the rarer one.
    validation_fraction : float
        Share of the data held out in ``fit``, stratified and by groups, unless validation data are given; 0: none.
    random_state : int, RandomState or None
        One seed for weights, shuffling, λ, augmentation and the held-out share.
    run : Run, optional
        Where the training lives (a folder, in which it can be resumed) and what it runs on.

    Attributes
    ----------
    classes_ : array of shape (2,), sorted; probabilities follow it
    points : mapping of name -> OperatingPoint; ``"default"`` is what ``predict`` uses
    bundle_ : Bundle, the trained model as it would be saved
    history_ : one dict an epoch; a single one of an exact solve
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], class_sep=2.0, random_state=0)
    >>> clf = LCTClassifier(random_state=0).fit(X, y)
    >>> clf.predict_proba(X, lam={"ridge": -2.0}).shape
    (600, 2)
    >>> clf = LCTClassifier(recipe=Recipe(epochs=5), random_state=0).fit(X, y)  # the paper's: a network, told λ
    >>> clf.predict_proba(X, lam={"gamma": 0.0, "tau": 2.0}).shape
    (600, 2)
    >>> clf = LCTClassifier(network="features").fit(X, y)  # X as embeddings: solved at every strength of a ridge
    >>> sorted(clf.points["default"].lam)
    ['gamma', 'ridge', 'tau']
    """

    _defaults: ClassVar[Mapping[str, tuple[type, ...]]] = {
        "network": (MLPConfig, TableConfig),
        "head": (FiLMConfig,),
        "recipe": (Recipe, Exact),
        "run": (Run,),
    }
    _makers: ClassVar[Mapping[str, type]] = {"aim": Objective}
    _names: ClassVar[Mapping[str, Mapping[str, type]]] = {
        "network": {"table": TableConfig, "mlp": MLPConfig, "features": FeaturesConfig},
        "head": {"film": FiLMConfig, "polynomial": PolynomialConfig, "plain": PlainConfig},
        "recipe": {"exact": Exact},
    }

    def __init__(
        self,
        loss: Literal["vs", "focal"] | ConditionalLoss = "vs",
        *,
        space: Space | None = None,
        network: Literal["table", "mlp", "features"] | NetworkConfig | nn.Module | None = None,
        head: str | HeadConfig | None = None,
        recipe: Literal["exact"] | Recipe | Exact | None = None,
        objective: Objective | None = None,
        pos_label: Any = None,
        validation_fraction: float = 0.2,
        random_state: Any = None,
        run: Run | None = None,
    ) -> None:
        self.loss = loss
        self.space = space
        self.network = network
        self.head = head
        self.recipe = recipe
        self.objective = objective
        self.pos_label = pos_label
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.run = run

    def _default(self, name: str) -> Any:
        """A table has features learned and a head solved on them, unless something is said that only training has a
        use for."""
        recipe = self._named("recipe", self.recipe)
        solves = recipe is None and solvable(self.loss, self.space, TableConfig, self.head)
        if name == "network" and (solves or isinstance(recipe, Exact)):
            return TableConfig()
        if name == "recipe":
            return default_recipe(self.loss, self.space, self._value("network"), self.head)
        return super()._default(name)

    def fit(
        self,
        X: Any,
        y: Any,
        X_val: Any = None,
        y_val: Any = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups_val: ArrayLike | None = None,
    ) -> Self:
        """Train. Without validation data a share of (X, y) is held out, for ``tune`` to use.

        groups: rows of one group (a patient, a machine) stay on one side of the split; without, copies of a row do.
        sample_weight: how much each row counts, in training and in the figures of the held-out rows.
        """
        self._check_settings()
        run = self._value("run")
        with nullcontext() if run.path is None else claimed(run.path, "this training"):
            rows = self._rows(X, y, X_val, y_val, groups, sample_weight, groups_val)
            seed = seed_of(self.random_state, run.path, self.network)
            identity = self._identity(rows, seed)
            done = finished(run.path, identity, self.network)
            bundle = self._train(rows, seed, identity, run) if done is None else done
            self._take(bundle)
            if done is None and self.objective is not None:
                self._tune_if_enough(self.objective)
            if done is None and run.path is not None:
                self.save(run.path)
                Checkpoint.remove(run.path)
        return self

    def _check_settings(self) -> None:
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie in [0, 1); got {self.validation_fraction}.")
        if self.objective is not None and not isinstance(self.objective, Objective):
            raise ValueError(f"aim must be an Objective, such as Objective(maximize='f1'); got {self.objective!r}.")
        for name, kinds, legal in (
            ("recipe", (Recipe, Exact), "'exact', an Exact(…) or a Recipe(…)"),
            ("run", (Run,), "a Run(…)"),
            ("network", (NetworkConfig, nn.Module), "'table', 'mlp', 'features', a config of one, or a torch module"),
        ):
            if not isinstance(self._value(name), kinds):
                raise ValueError(f"{name} must be {legal}; got {getattr(self, name)!r}.")
        if isinstance(self._value("recipe"), Exact):
            check_exact(self._value("network"), self.head)

    def _rows(self, X: Any, y: Any, X_val: Any, y_val: Any, groups: Any, sample_weight: Any, groups_val: Any) -> Rows:
        """The training rows, checked, with their labels, weights and groups; and those to validate on."""
        y = as_pandas(y)
        target = y.columns[0] if isinstance(y, pd.DataFrame) and len(y.columns) else getattr(y, "name", None)
        size = getattr(self.network, "image_size", None)
        X, y = self._validate(X, y)
        check_consistent_length(X, y, groups, sample_weight)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}. "
                f"It holds {len(np.unique(y))} values; two are needed."
            )
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {self.classes_.tolist()[0]!r}; two are needed to tell apart.")
        positive = positive_class(y, self.pos_label)
        negative = self.classes_[0] if positive == self.classes_[1] else self.classes_[1]
        if (X_val is None) != (y_val is None):
            raise ValueError("pass X_val and y_val together, or neither to hold out a share of X and y.")
        if X_val is not None:
            X_val, y_val = self._validate(columns_as(X, X_val), y_val, reset=False)
            check_consistent_length(X_val, y_val, groups_val)
        return Rows(
            X=in_memory(X, size),
            y=y,
            classes=(negative, self.classes_[self.classes_ == positive][0]),
            groups=None if groups is None else np.asarray(groups),
            weight=None if sample_weight is None else _check_sample_weight(sample_weight, np.empty((len(y), 1))),
            X_val=in_memory(X_val, size),
            y_val=y_val,
            groups_val=None if groups_val is None else np.asarray(groups_val),
            target=None if target is None else str(target),
        )

    def _train(self, rows: Rows, seed: int, identity: Mapping[str, Any], run: Run) -> Bundle:
        recipe, network = self._value("recipe"), self._value("network")
        split = hold_out(rows, self.validation_fraction, seed)
        frozen = isinstance(network, FrozenEncoder)
        if frozen:
            split = embedded(split, network, run.progress)
        schema = split.schema(getattr(network, "image_size", None), network.n_features if frozen else None)
        encoded = Encoded(
            x=torch.from_numpy(schema.encode(split.X)),
            labels=split.labels,
            weight=split.weight,
            x_val=None if split.X_val is None else torch.from_numpy(schema.encode(split.X_val)),
            labels_val=split.labels_val,
            groups=split.groups,
        )
        loss = loss_of(self.loss, split.labels, split.weight)
        space = self.space if self.space is not None else default_space(loss, recipe)
        loss.check_space(space)
        if isinstance(recipe, Exact):
            learned = solved(recipe, encoded, loss, space, network, seed, run)
        else:
            learned = trained(recipe, encoded, loss, space, network, self.head, seed, run, identity)
        model, history, plain = learned.model, learned.history, space.nearest(loss.neutral)
        predictor = Predictor(schema, model, rows.classes)
        features = None if split.X_val is None else predictor.features(split.X_val)
        evidence = evidence_of(predictor, split, features)
        both = evidence is not None and 0 < evidence.y.sum() < len(evidence.y)
        enough = evidence is not None and evidence.silence is None
        ridge_on, lam = "", plain
        if enough and features is not None and split.labels_val is not None:
            lam = standing_lam(model, loss, features, split.labels_val, split.weight_val)
            if "ridge" in space.free:
                ridge_on = sketches(split.labels_val, predictor.margins(features, lam))
            if isinstance(recipe, Exact):  # which has no epochs to validate after
                history = ({**history[-1], "auc": float(auc(split.labels_val, predictor.margins(features, lam)))},)
        return Bundle(
            predictor=predictor,
            training=Training(
                loss=loss.recipe(),
                prevalence=float(np.average(split.labels, weights=split.weight)),
                seconds=round(learned.seconds, 3),
                steps=learned.steps,
                history=history,
                parameters=parameters_to_json(self.get_params(deep=False)),
                identity=identity,
                target=rows.target,
            ),
            points={"default": untuned(lam, ridge_on)},
            envelope=evidence.dial(plain.as_dict()).envelope() if evidence is not None and enough else None,
            evidence=evidence if both and run.evidence else None,
            seen=Sketch.of(schema.numbers(split.X)) if run.evidence else None,
        )

    def _identity(self, rows: Rows, seed: int) -> dict[str, Any]:
        """What must be the same for a checkpoint to be resumed, or a finished model to be this one."""
        # The seed stands for random_state, whose repr may hold an address; where it runs changes nothing.
        params = {k: v for k, v in self.get_params().items() if k.partition("__")[0] not in ("run", "random_state")}
        leaves = {
            k: repr(v if "__" in k else self._value(k))
            for k, v in params.items()
            if not any(other.startswith(f"{k}__") for other in params)
        }
        return leaves | {"precision": self._value("run").precision, "seed": seed, "data": rows.checksum()}
