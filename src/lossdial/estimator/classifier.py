"""``LCTClassifier``: the scikit-learn face."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from lightning_fabric.loggers.logger import Logger
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from torch import Tensor, nn

from lossdial.base.streams import Stream, stream_seed
from lossdial.bundle import Bundle, Holdout
from lossdial.dial import OperatingPoint
from lossdial.dial.metrics import auc
from lossdial.estimator.trained import Labels, TrainedClassifier, as_tensor, checksum
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss
from lossdial.models import ConditionalClassifier, FiLMConfig, MLPConfig, Scale, build_model
from lossdial.spaces import Space
from lossdial.training import Checkpoint, Cosine, LamPer, OptimizerConfig, Recipe, Schedule, fit, make_fabric
from lossdial.training.batches import Augment

__all__ = ["LCTClassifier"]


class LCTClassifier(TrainedClassifier):
    """A binary classifier trained once over a distribution of losses; λ and threshold are chosen afterwards.

    Parameters
    ----------
    loss : {"vs", "focal"} or ConditionalLoss
        The family of losses. β of the Vector Scaling loss is taken from the training data.
    space : Space, optional
        The distribution of λ. ``Constant`` for every name trains a baseline. By default the widest
        of the paper's for that loss.
    backbone : nn.Module, optional
        Maps a batch of X to features (n, c) or (n, c, h, w); X may then be any array whose first axis is samples.
        It is copied, not changed. By default an MLP over a table.
    hidden : sequence of int
        Widths of the default MLP.
    head_widths : sequence of int
        Hidden layers of the head, each with a FiLM of its own; none is the paper's head.
    film_scale : {"1+sigma", "sigma"}
        Whether FiLM multiplies by 1 + σ(λ) or by σ(λ).
    epochs, batch_size, optimizer, lr, momentum, weight_decay, sam_rho, schedule, clip_norm, ema_decay, lam_per
        As in :class:`~lossdial.training.Recipe`; ``schedule=None`` is half a cosine.
    augment : Augment, optional
        Random crops and flips of images.
    pos_label : label, optional
        The class to look for, normally the rare one. By default ``classes_[1]``.
    validation_fraction : float
        Share of the data held out in ``fit``, stratified, unless validation data are given; 0 holds out none.
    accelerator, precision : str
        As in Lightning Fabric.
    random_state : int, RandomState or None
        One seed for weights, shuffling, λ, augmentation and the held-out share.
    run_dir : path, optional
        Where log and checkpoints go; an interrupted ``fit`` called again with the same data goes on from there.
    logger : Logger of Lightning Fabric, optional
        Receives the figures of each epoch, such as a ``TensorBoardLogger``.
    progress : bool
        Show a progress bar on a terminal.

    Attributes
    ----------
    classes_ : array of shape (2,)
    points : mapping of name -> OperatingPoint; ``"default"`` is what ``predict`` uses
    bundle_ : Bundle, the trained model as it would be saved
    history_ : one dict an epoch
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], class_sep=2.0, random_state=0)
    >>> clf = LCTClassifier(epochs=5, random_state=0).fit(X, y)
    >>> clf.predict_proba(X, lam={"gamma": 0.0, "tau": 2.0}).shape
    (600, 2)
    """

    def __init__(
        self,
        loss: Literal["vs", "focal"] | ConditionalLoss = "vs",
        *,
        space: Space | None = None,
        backbone: nn.Module | None = None,
        hidden: Sequence[int] = (64, 64),
        head_widths: Sequence[int] = (),
        film_scale: Scale = "1+sigma",
        epochs: int = 50,
        batch_size: int = 128,
        optimizer: Literal["sgd", "adam", "adamw"] = "adam",
        lr: float = 3e-3,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        sam_rho: float | None = None,
        schedule: Schedule | None = None,
        clip_norm: float | None = None,
        ema_decay: float | None = None,
        lam_per: LamPer = "batch",
        augment: Augment | None = None,
        pos_label: Any = None,
        validation_fraction: float = 0.2,
        accelerator: str = "auto",
        precision: Any = "32-true",
        random_state: Any = None,
        run_dir: str | os.PathLike[str] | None = None,
        logger: Logger | None = None,
        progress: bool = True,
    ) -> None:
        self.loss = loss
        self.space = space
        self.backbone = backbone
        self.hidden = hidden
        self.head_widths = head_widths
        self.film_scale = film_scale
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.sam_rho = sam_rho
        self.schedule = schedule
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.lam_per = lam_per
        self.augment = augment
        self.pos_label = pos_label
        self.validation_fraction = validation_fraction
        self.accelerator = accelerator
        self.precision = precision
        self.random_state = random_state
        self.run_dir = run_dir
        self.logger = logger
        self.progress = progress

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Self:
        """Train. Without validation data a share of (X, y) is held out, for ``tune`` to use."""
        X, y = self._validate(X, y)  # now arrays
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
        labels = self._labels(y)
        crc = checksum(X)
        seed = self._seed()
        identity = self._identity(zlib.crc32(labels.tobytes(), crc), seed)
        if (X_val is None) != (y_val is None):
            raise ValueError("pass X_val and y_val together, or neither to hold out a share of X and y.")
        if X_val is None:
            train, held = _hold_out(labels, self.validation_fraction, seed)
            x_val, labels_val = as_tensor(X[held]), labels[held]
        else:
            train = np.arange(len(labels))
            X_val, y_val = self._validate(X_val, y_val, reset=False)
            x_val, labels_val = as_tensor(X_val), self._labels(y_val)
        x, labels = as_tensor(X[train]), labels[train]
        self._warn_of_majority(labels)

        loss = self._loss(labels)
        model = self._model(x, loss, seed)
        neutral = model.space.nearest(loss.neutral)

        def validate(current: ConditionalClassifier) -> dict[str, float]:
            like = next(current.head.parameters())  # the device and, where precision is 'true', another dtype
            with torch.no_grad():
                x = x_val if x_val.dtype == torch.uint8 else x_val.to(like.dtype)
                features = current.embed(x, progress=False).to(like)
                margin = current.margins(features, neutral.at(None))[:, 0]
            return {"auc": float(auc(labels_val, margin.float().cpu().numpy()))}

        watch = 0 < labels_val.sum() < len(labels_val)
        recipe = self._recipe()
        result = fit(
            model,
            loss,
            recipe.batches(x, torch.from_numpy(labels)),
            recipe,
            seed=seed,
            validate=validate if watch else None,
            fabric=make_fabric(self.accelerator, self.precision),
            run_dir=None if self.run_dir is None else Path(self.run_dir),
            identity=identity,
            logger=self.logger,
            progress=self.progress,
        )
        model.cpu().float()
        negative, positive = self.classes_[::-1] if self._flipped else self.classes_
        default = OperatingPoint(
            name="default",
            lam=neutral.as_dict(),
            threshold=0.0,
            objective="untuned: the λ nearest to cross entropy",
            metrics={},
            n_positive=0,
            n_negative=0,
        )
        self.history_ = list(result.history)
        self.bundle_ = Bundle(
            model=model,
            loss=loss.recipe(),
            classes=(negative, positive),
            prevalence=float(labels.mean()),
            points={"default": default},
            feature_names=tuple(getattr(self, "feature_names_in_", ())) or None,
            holdout=Holdout(model.embed(x_val), labels_val) if watch else None,
            training={
                "seconds": round(result.seconds, 3),
                "steps": result.steps,
                "data_crc32": crc,
                "history": self.history_,
            },
        )
        return self

    def _seed(self) -> int:
        """Of this run; without random_state, that of an interrupted run which waits in run_dir."""
        if self.random_state is None and self.run_dir is not None:
            waiting = Checkpoint.identity_in(Path(self.run_dir)) or {}
            if isinstance(waiting.get("seed"), int):
                return int(waiting["seed"])
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _warn_of_majority(self, labels: Labels) -> None:
        if labels.mean() > 0.5:
            other = self.classes_.tolist()[1 if self._flipped else 0]  # 'ill', where NumPy would say np.str_('ill')
            warnings.warn(
                f"the positive class is the majority ({labels.mean():.0%}). If the rare class is the one you look for, "
                f"set pos_label={other!r}.",
                UserWarning,
                stacklevel=3,
            )

    def _loss(self, labels: Labels) -> ConditionalLoss:
        if isinstance(self.loss, ConditionalLoss):
            return self.loss
        if self.loss == "vs":
            with warnings.catch_warnings():  # of a majority of positives this class has warned in its own words
                warnings.simplefilter("ignore", UserWarning)
                return VSLoss(beta=float((labels == 0).sum() / (labels == 1).sum()))
        if self.loss == "focal":
            return FocalLoss()
        raise ValueError(f"loss must be 'vs', 'focal' or a ConditionalLoss; got {self.loss!r}.")

    def _model(self, x: Tensor, loss: ConditionalLoss, seed: int) -> ConditionalClassifier:
        space = self.space if self.space is not None else loss.default_space()
        loss.check_space(space)
        network = self.backbone if self.backbone is not None else MLPConfig(tuple(self.hidden))
        head = FiLMConfig(tuple(self.head_widths), scale=self.film_scale) if space.dim else None
        return build_model(network, head, space, x, seed)

    def _recipe(self) -> Recipe:
        optimizer = OptimizerConfig(self.optimizer, self.lr, self.momentum, self.weight_decay, self.sam_rho)
        schedule = self.schedule if self.schedule is not None else Cosine()
        return Recipe(
            self.epochs,
            self.batch_size,
            optimizer,
            schedule,
            self.clip_norm,
            self.ema_decay,
            self.lam_per,
            self.augment,
        )

    def _identity(self, data: int, seed: int) -> dict[str, Any]:
        """What must be the same for a checkpoint to be resumed; ``data`` is a checksum of X and y."""
        # The seed stands for random_state, whose repr may hold an address.
        apart = {"run_dir", "logger", "progress", "accelerator", "random_state"}
        settings = {name: value for name, value in self.get_params().items() if name not in apart}
        return {name: repr(value) for name, value in settings.items()} | {"seed": seed, "data": data}


def _hold_out(labels: Labels, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices to train on and to hold out, stratified; none are held out where a class has too few to share."""
    if not 0 <= share < 1:
        raise ValueError(f"validation_fraction must lie in [0, 1); got {share}.")
    rarest = int(np.bincount(labels, minlength=2).min())
    if rarest * share < 1 or rarest * (1 - share) < 1:
        return np.arange(len(labels)), np.arange(0)
    split = StratifiedShuffleSplit(1, test_size=share, random_state=stream_seed(seed, Stream.SPLIT) % 2**32)
    train, held = next(split.split(labels, labels))
    return np.sort(train), np.sort(held)
