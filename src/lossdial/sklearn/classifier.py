"""``LCTClassifier``: the scikit-learn face of a model over a distribution of losses."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from contextlib import nullcontext
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data
from torch import Tensor, nn

from lossdial.base.errors import InputError
from lossdial.base.files import claimed
from lossdial.base.labels import are_positive, flat, positive_class
from lossdial.bundle import Bundle, Explanation
from lossdial.bundle.predictor import Predictor, class_array
from lossdial.data.encoder.table import as_pandas, require_readable
from lossdial.data.schema import ImageRows, TableSchema, are_paths, as_dense, read_images, require_finite
from lossdial.dial import Dial, Objective, OperatingPoint
from lossdial.dial.metrics.registry import sigmoid
from lossdial.losses import ConditionalLoss
from lossdial.models import (
    FeaturesConfig,
    FiLMConfig,
    HeadConfig,
    MLPConfig,
    NetworkConfig,
    PlainConfig,
    PolynomialConfig,
    TableConfig,
)
from lossdial.sklearn.parameters import NestedParameters, parameters_from_json, parameters_to_json
from lossdial.sklearn.points import PointsMixin, two_classes
from lossdial.sklearn.rows import LabelledRows, TrainingData, columns_as
from lossdial.sklearn.run import Plan, Run, default_recipe, finished, require_solvable, seed_of, solvable
from lossdial.spaces import Lam, Space
from lossdial.training import Checkpoint, Exact, Recipe


class LCTClassifier(PointsMixin, ClassifierMixin, NestedParameters):
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
        What turns a row into features. ``"table"``: values and trees, learned once, on which a head is solved; the
        default. ``"mlp"``: a network to be trained; the default beside a head, a Recipe or a space without
        a ridge. ``"features"``: the rows are features already, such as embeddings, and are standardised only. A module
        is copied, not changed; it maps a batch to (n, c) or (n, c, h, w).
    head : {"film", "polynomial", "plain"} or HeadConfig, optional
        What turns features and λ into a score. By default the paper's FiLM, where λ varies.
    recipe : "exact", Exact or Recipe, optional
        How to train: epochs, batch size, optimiser, schedule; or, on features that do not move, to solve for every λ
        exactly. An exact solve is the default, unless ``network`` is one to be trained, or a head or a space without a
        ridge is given.
    objective : Objective, optional
        What to tune for at the end of ``fit``, on the scores that it keeps. Without one, ``predict`` answers at the λ
        nearest to cross entropy, and at the ridge of least log loss on these scores, until ``tune`` is called.
    pos_label : label, optional
        The positive class. By default the rarer one.
    validation_fraction : float, optional
        Where ``tune`` without data has its scores from, unless ``fit`` is given validation data. None: where a head is
        solved, every row teaches the model, and is scored by a head (and by trees) that were made without its fold;
        trees are grown in folds anyway. Such scores choose and measure; they do not certify.
        Where a network is trained, None holds out a fifth of the rows, stratified and by groups, of which the network
        learns nothing; cross-fitting would train it several times over. A number holds out that share in either case;
        0 keeps no scores.
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
    >>> sorted(clf.points["default"].lam)
    ['gamma', 'tau']
    """

    classes_: NDArray[Any]
    bundle_: Bundle

    _defaults: ClassVar[Mapping[str, tuple[type, ...]]] = {
        "network": (MLPConfig, TableConfig),
        "head": (FiLMConfig,),
        "recipe": (Recipe, Exact),
        "run": (Run,),
    }
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
        validation_fraction: float | None = None,
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

    # --- training

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
        """Train. Without validation data, rows of (X, y) that are cross-fitted or held out are what ``tune`` uses.

        Parameters
        ----------
        X, y
            Rows and labels of two classes.
        X_val, y_val
            Rows that training must not see, in place of a held-out share.
        groups
            Rows of one group (a patient, a machine) stay in one fold, or on one side of the split, as copies of a row
            do.
        sample_weight
            How much each row counts, in training and in figures.
        groups_val
            The groups of ``X_val``.

        Returns
        -------
        LCTClassifier
        """
        self._check_settings()
        run = self._value("run")
        with nullcontext() if run.path is None else claimed(run.path, "this training"):
            data = self._data(X, y, X_val, y_val, groups, sample_weight, groups_val)
            seed = seed_of(self.random_state, run.path, self.network)
            identity = self._identity(seed, data.checksum())
            bundle = finished(run.path, identity, self.network)
            if bundle is not None:
                self._take(bundle)
                return self
            plan = Plan(
                loss=self.loss,
                space=self.space,
                network=self._value("network"),
                head=self.head,
                recipe=self._value("recipe"),
                validation_fraction=self.validation_fraction,
                seed=seed,
                run=run,
                identity=identity,
                parameters=parameters_to_json(self.get_params(deep=False)),
            )
            self._take(plan.bundle(data))
            if self.objective is not None:
                self._tune_if_enough(self.objective)
            if run.path is not None:
                self.save(run.path)
                Checkpoint.remove(run.path)
        return self

    def _check_settings(self) -> None:
        share = self.validation_fraction
        if share is not None and not (isinstance(share, Real) and 0 <= share < 1):
            raise InputError("validation_fraction", "must be None or lie in [0, 1)", got=self.validation_fraction)
        for name, kinds, legal in (
            ("recipe", (Recipe, Exact), "'exact', an Exact(…) or a Recipe(…)"),
            ("run", (Run,), "a Run(…)"),
            ("objective", (Objective, type(None)), "an Objective, such as Objective(maximize='f1')"),
            ("network", (NetworkConfig, nn.Module), "'table', 'mlp', 'features', a config of one, or a torch module"),
        ):
            if not isinstance(self._value(name), kinds):
                raise InputError(name, f"must be {legal}", got=getattr(self, name))
        if isinstance(self._value("recipe"), Exact):
            require_solvable(self._value("network"), self.head)

    def _data(
        self, X: Any, y: Any, X_val: Any, y_val: Any, groups: Any, sample_weight: Any, groups_val: Any
    ) -> TrainingData:
        """What ``fit`` was given, checked."""
        y = as_pandas(y)
        target = y.columns[0] if isinstance(y, pd.DataFrame) and len(y.columns) else getattr(y, "name", None)
        size = getattr(self.network, "image_size", None)
        X, y = self._validate(X, y)
        check_consistent_length(X, y, groups, sample_weight)
        self.classes_ = two_classes(y)
        is_positive = self.classes_ == positive_class(y, self.pos_label)
        classes = self.classes_[~is_positive][0], self.classes_[is_positive][0]
        if (X_val is None) != (y_val is None):
            raise InputError("X_val", "and {y_val} go together", remedy="Give both, or neither.")

        def rows_of(X: Any, y: Any, groups: Any, weight: NDArray[np.float64] | None = None) -> LabelledRows:
            X = read_images(X, size) if are_paths(X) else X
            return LabelledRows(X, are_positive(y, classes), None if groups is None else np.asarray(groups), weight)

        held_out = None
        if X_val is not None:
            X_val, y_val = self._validate(columns_as(X, X_val), y_val, reset=False)
            check_consistent_length(X_val, y_val, groups_val)
            held_out = rows_of(X_val, y_val, groups_val)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, np.empty((len(y), 1)))
        if weight is not None and weight.min() < 0:
            raise InputError("sample_weight", "must not be negative", got=float(weight.min()))
        return TrainingData(rows_of(X, y, groups, weight), held_out, classes, None if target is None else str(target))

    def _identity(self, seed: int, checksum: int) -> dict[str, Any]:
        """What must be the same for a checkpoint to be resumed, or a finished model to be this one."""
        # The seed stands for random_state, whose repr may hold an address; where it runs changes nothing.
        params = {k: v for k, v in self.get_params().items() if k.partition("__")[0] not in ("run", "random_state")}
        nested = {k.rpartition("__")[0] for k in params}
        leaves = {k: repr(v if "__" in k else self._value(k)) for k, v in params.items() if k not in nested}
        return leaves | {"precision": self._value("run").precision, "seed": seed, "data": checksum}

    # --- predictions

    def decision_function(self, X: Any, *, lam: Mapping[str, float] | Lam | None = None) -> NDArray[np.float32]:
        """Positive where ``classes_[1]`` is predicted, (n,).

        Parameters
        ----------
        X
            Raw rows, as in ``fit``.
        lam
            The λ at which the network's margin is given. Without, it is the distance from the threshold of the default
            point, at its own λ.

        Returns
        -------
        array of shape (n,)
        """
        if lam is None:
            return super().decision_function(X)
        margin = self._margins(X, lam)
        return -margin if self._flipped else margin

    def predict_proba(
        self, X: Any, point: str = "default", *, lam: Mapping[str, float] | Lam | None = None
    ) -> NDArray[np.float64]:
        """Probabilities (n, 2), columns as ``classes_``.

        Parameters
        ----------
        X
            Raw rows, as in ``fit``.
        point
            The name of an operating point: its probabilities are calibrated, and at its prevalence.
        lam
            In place of a point: the network's own probabilities at this λ.

        Returns
        -------
        array of shape (n, 2)
        """
        if lam is None:
            return self._probabilities(X, point)
        return self._columns(sigmoid(self._margins(X, lam).astype(np.float64)))

    def _margins(self, X: Any, lam: Mapping[str, float] | Lam) -> NDArray[np.float32]:
        check_is_fitted(self)
        return self._predictor.margins(self._predictor.features(self._validate(X, reset=False)), lam)

    def explain(self, X: Any, point: str = "default") -> Explanation:
        """What each column of rows adds to their scores, which with a base sum up to :meth:`margin`.

        Parameters
        ----------
        X
            Raw rows, as in ``fit``.
        point
            The name of the operating point whose λ is taken.

        Returns
        -------
        Explanation
            Its text is a row's largest contributions, or a summary of many rows.

        Raises
        ------
        InputError
            Where the score is no sum over columns: of networks that are trained, and of images.
        """
        check_is_fitted(self)
        return self._predictor.explain(self._validate(X, reset=False), self._point(point).lam)

    @property
    def _predictor(self) -> Predictor:
        return self.bundle_.predictor

    # --- the dial

    def dial(
        self,
        X: Any = None,
        y: Any = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        lams: Lam | None = None,
    ) -> Dial:
        """The dial of labelled rows at every λ, to ask anything of.

        Parameters
        ----------
        X, y, groups, sample_weight
            As in :meth:`tune`.
        lams
            The λ to look at, as ``Space.grid(gamma=[...], tau=[...])`` gives them; by default an even grid over the
            trained range.

        Returns
        -------
        Dial
            It knows the points of this estimator by name, and which rows trained it.
        """
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise InputError("X", "and {y} go together", remedy="Give both, or neither for the scores that fit kept.")
        if X is None:
            if lams is not None:
                raise InputError("lams", "needs {X} and {y}: fit kept the scores on the grid alone")
            return self.bundle_.held_out()
        X, y = self._validate(X, y, reset=False)
        X = self._predictor.schema.readable(X)
        features = self._features(X)
        return self.bundle_.dial(X, y, groups=groups, sample_weight=sample_weight, lams=lams, features=features)

    def _features(self, X: Any) -> Tensor:
        """The features of rows, kept for the next question about the same rows."""
        key = (self._predictor.model, self._predictor.schema.fingerprints(X).tobytes())
        cache: dict[tuple[Any, ...], Tensor] = self.__dict__.setdefault("_cache", {})
        if key not in cache:
            while len(cache) >= 2:  # validation and test data
                cache.pop(next(iter(cache)))
            cache[key] = self._predictor.features(X)
        return cache[key]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_cache"}

    def _adapted(self, terms: Mapping[str, Any]) -> OperatingPoint:
        """Adapt by the kept scores, or by the envelope where that alone was kept."""
        check_is_fitted(self)
        return self.bundle_.adapt(**terms)

    @property
    def _stored(self) -> Mapping[str, OperatingPoint]:
        return self.bundle_.points

    def _store(self, point: OperatingPoint) -> None:
        self.bundle_ = self.bundle_.with_point(point)

    # --- on disk

    def save(self, path: str | os.PathLike[str], evidence: bool = True, replace: bool = False) -> None:
        """Write the trained model into a folder, as a :class:`~lossdial.bundle.Bundle`.

        Parameters
        ----------
        path
            The folder.
        evidence
            Keep the scores and labels of ``fit`` with it, so that it can be tuned without data.
        replace
            Write also where the folder holds another model, which is then lost.
        """
        check_is_fitted(self)
        bundle = self.bundle_ if evidence else dataclasses.replace(self.bundle_, evidence=None, seen=None)
        bundle.save(path, replace=replace)
        # the same model, which now knows what it wrote where
        self.bundle_ = dataclasses.replace(bundle, evidence=self.bundle_.evidence, seen=self.bundle_.seen)

    @classmethod
    def load(cls, path: str | os.PathLike[str], network: nn.Module | None = None) -> Self:
        """The estimator that ``save`` or the command wrote: the same parameters, and the same predictions bit for bit.

        ``network`` is the module, where the model was trained with one of your own.
        """
        return cls.from_bundle(Bundle.load(path, network))

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """An estimator around a trained model."""
        network = bundle.predictor.model.backbone
        estimator = cls(**parameters_from_json(bundle.training.parameters, {"network": network}))
        estimator._take(bundle)
        return estimator

    def _take(self, bundle: Bundle) -> None:
        """Become the trained estimator of a bundle."""
        schema = bundle.predictor.schema
        self.classes_, self.pos_label_ = np.sort(class_array(bundle.predictor.classes)), bundle.predictor.classes[1]
        self.history_ = [dict(row) for row in bundle.training.history]
        encoder = getattr(schema, "encoder", None)
        if encoder is not None:
            self.feature_names_in_ = encoder.feature_names_in_
            self.n_features_in_ = encoder.n_features_in_
        elif hasattr(schema, "shape"):
            self.n_features_in_ = schema.shape[0]
        self.bundle_ = bundle

    # --- scikit-learn

    def _validate(self, X: Any, y: Any = "no_validation", reset: bool = True) -> Any:
        """Check X as scikit-learn does; frames and files are left to the schema."""
        X = as_dense(as_pandas(X))
        alone = isinstance(y, str) and y == "no_validation"
        if not alone and y is not None:
            y = flat(as_pandas(y), DataConversionWarning)
        schema = None if reset or not hasattr(self, "bundle_") else self._predictor.schema
        if isinstance(schema, TableSchema) and isinstance(X, np.ndarray) and X.ndim == 2 and schema.numbered:
            X = pd.DataFrame(X)
        if isinstance(X, pd.DataFrame):
            require_readable(X)
            X = X.set_axis(X.columns.map(str), axis=1)  # scikit-learn takes no names but texts
        whole = isinstance(X, (pd.DataFrame, ImageRows)) or are_paths(X)
        if whole or isinstance(schema, TableSchema):  # an array has the columns in their order
            if not isinstance(X, ImageRows) and not are_paths(X):
                validate_data(self, X, reset=reset, skip_check_array=True)
            return X if alone else (X, np.asarray(y))
        bytes_ = getattr(X, "dtype", None) in (np.uint8, "uint8")
        dtype = np.uint8 if bytes_ and np.ndim(X) > 2 else np.float32
        checked = validate_data(
            self,
            X,
            y,
            reset=reset,
            dtype=dtype,
            allow_nd=isinstance(self.network, nn.Module),
            order="C",
            ensure_all_finite=False,  # checked below, with a message of our own
        )
        require_finite(checked[0] if isinstance(checked, tuple) else checked)
        return checked

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = isinstance(self.network, nn.Module)
        return tags
