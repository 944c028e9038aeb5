"""A network in two parts, features that do not depend on λ and a head that does; and how a model is put together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from lossdial.base.errors import InputError
from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream_seed
from lossdial.models.backbones import MLPConfig, NetworkConfig, Standardize
from lossdial.models.heads import Head, HeadConfig, build_head
from lossdial.models.members import mean_log_probability
from lossdial.spaces import Lam, Space

_INPUTS: Final = 2**20  # numbers that go into a backbone at once, where no gradient is wanted


class Draws(NamedTuple):
    """λ as training draws it, (count, k) or (count, k, n), and its code for the head, (count, k, d) or (…, n, d)."""

    lams: Lam
    codes: Tensor


class Network(nn.Module, ABC):
    """A model as training uses it: a backbone, a head of k members, and the λ that each of them draws."""

    def __init__(self, backbone: nn.Module, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.n_features = head.n_features

    @property
    @abstractmethod
    def spaces(self) -> tuple[Space, ...]:
        """The space of every member, or the one that they share."""

    @abstractmethod
    def draw(self, shape: Sequence[int], generator: torch.Generator) -> Draws:
        """λ for ``shape``, (batches,) or (batches, n): one for each member, in an axis after the first."""

    def features(self, x: Tensor) -> Tensor:
        """(n, n_features). Images of type uint8 are scaled to [0, 1] first."""
        if x.dtype == torch.uint8:
            x = x.to(next(self.head.parameters()).dtype) / 255
        out = pooled(self.backbone, x)
        if out.shape[1:] != (self.n_features,):
            problem = f"must be {out.shape[1]}: the backbone gives features of shape {tuple(out.shape)}"
            raise InputError("n_features", problem, got=self.n_features)
        return out

    def member_logits(self, x: Tensor, code: Tensor) -> Tensor:
        """The logits (k, n, 2) that training needs, at one λ per member, code (k, d), or one per sample, (k, n, d).

        Each member learns from its own loss; the backbone, which they share, from the mean of their losses.
        """
        features = self.features(x)
        if self.head.members > 1 and features.requires_grad:
            features.register_hook(lambda gradient: gradient / self.head.members)
        return self.head(features, code)

    @property
    def frozen(self) -> bool:
        """Whether the backbone says that the features of a data set are the same whenever they are computed."""
        return bool(getattr(self.backbone, "frozen", False))

    @torch.no_grad()
    def embed(self, x: Tensor, batch_size: int = 1024, progress: bool = True) -> Tensor:
        """``features`` in evaluation mode and in batches, on the model's device: (n, n_features) on the CPU.

        Batches of images are as small as memory requires. Rows of a table are padded to a multiple of 16: matrix
        products then round alike for any number of rows, and a sample's score does not depend on its neighbours.

        Parameters
        ----------
        x
            What the backbone reads.
        batch_size
            The largest number of samples at once.
        progress
            Show a bar on a terminal where it takes more than two seconds.

        Returns
        -------
        Tensor
            The features.
        """
        device = next(self.head.parameters()).device
        batches, features = bounded(x, batch_size), []
        with evaluating(self):
            if len(batches) == 1:  # a server's few rows need no bar
                return self._embedded(x, device)
            with ProgressBar("features", len(x), progress, delay=2.0) as bar:
                for batch in batches:
                    features.append(self._embedded(batch, device))
                    bar.advance(sum(map(len, features)), {})
        return torch.cat(features)

    def _embedded(self, batch: Tensor, device: torch.device) -> Tensor:
        padding = -len(batch) % 16 if batch.dim() == 2 else 0
        padded = torch.cat([batch, batch.new_zeros(padding, *batch.shape[1:])]) if padding else batch
        return self.features(padded.to(device))[: len(batch)].cpu()


def bounded(x: Tensor, batch_size: int) -> tuple[Tensor, ...]:
    """x in parts of up to ``batch_size`` samples, fewer where samples are large."""
    least = 16 if x.dim() == 2 else 1
    room = _INPUTS // max(1, x[:1].numel()) // least * least
    return x.split(max(least, min(batch_size, room)) if len(x) else 1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode within the block; every module gets its own mode back."""
    modules = [model]
    for module in modules:  # model.modules() takes four times as long: a tenth of the time in which a row is served
        for child in module._modules.values():
            if child is not None:
                modules.append(child)
    training = [module for module in modules if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def feature_size(backbone: nn.Module, x: Tensor) -> int:
    """How many features a backbone yields, by trying it on a sample or two."""
    with evaluating(backbone), torch.no_grad():
        return pooled(backbone, x / 255 if x.dtype == torch.uint8 else x).shape[1]


def pooled(backbone: nn.Module, x: Tensor) -> Tensor:
    """A backbone's features (n, c) of x; maps (n, c, h, w) are averaged over space."""
    out = backbone(x)
    if not isinstance(out, Tensor) or out.dim() < 2:
        what = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError("network", f"must map {tuple(x.shape)} to (n, c) or (n, c, h, w); it gave {what}")
    return out.flatten(2).mean(-1) if out.dim() > 2 else out


class ConditionalClassifier(Network):
    """A model whose ``features(x)`` do not depend on λ, and whose ``logits(features, lam)`` do.

    The features of a data set are therefore computed once, for scores at any number of λ. A head with
    members is an ensemble on one backbone: members differ in their first weights and in the λ they draw in every
    batch; the model's probability is the mean of theirs.

    Parameters
    ----------
    backbone
        Any module that maps x to (n, c) or (n, c, h, w); maps are averaged over space. A per-channel affine map
        commutes with that average, so that FiLM acts on the pooled features: the same function, far cheaper.
    n_features
        c, the number of features.
    space
        The λ that the model is trained over.
    head
        A head or its description; FiLM as in the paper unless given, and plain where λ does not vary.

    Examples
    --------
    >>> from lossdial.models import MLP
    >>> from lossdial.spaces import Constant, Linear
    >>> space = Space(gamma=Constant(0.1), tau=Linear(0, 3, 1 / 3))
    >>> model = ConditionalClassifier(MLP(5), n_features=64, space=space)
    >>> x = torch.randn(7, 5)
    >>> model(x, space.point(tau=2)).shape
    torch.Size([7, 2])
    >>> model.margins(model.features(x), space.grid(tau=[0, 1, 2, 3])).shape
    torch.Size([7, 4])
    """

    def __init__(
        self, backbone: nn.Module, n_features: int, space: Space, head: Head | HeadConfig | str | None = None
    ) -> None:
        if not isinstance(head, Head):
            head = build_head(head, n_features, space.dim)
        if head.dim != space.dim:
            problem = f"was built for dim={head.dim}, but {space.dim} names of the space vary ({', '.join(space.free)})"
            raise InputError("head", problem, remedy="Build it with dim=space.dim.")
        if head.n_features != n_features:
            raise InputError("n_features", f"must be {head.n_features}, which the head reads", got=n_features)
        super().__init__(backbone, head)
        self.space = space

    @property
    def members(self) -> int:
        return self.head.members

    @property
    def spaces(self) -> tuple[Space, ...]:
        return (self.space,)

    def draw(self, shape: Sequence[int], generator: torch.Generator) -> Draws:
        lams = self.space.sample([shape[0], self.members, *shape[1:]], generator)
        return Draws(lams, self.space.encode(lams))

    def logits(self, features: Tensor, lam: Lam) -> Tensor:
        """Logits (n, 2) at one λ, shape (), or one per sample, shape (n,).

        Of an ensemble, the logarithms of its members' mean probabilities.
        """
        n = len(features)
        if lam.shape not in ((), (1,), (n,)):
            problem = f"must be one for the batch, shape (), or one per sample, shape ({n},)"
            remedy = "margins(features, lams) crosses every sample with every λ."
            raise InputError("lam", problem, got=tuple(lam.shape), remedy=remedy)
        code = self.space.encode(lam).to(features)
        code = code[0] if lam.shape == (1,) else code
        return mean_log_probability(self.head(features, code.expand(self.members, *code.shape)))

    def forward(self, x: Tensor, lam: Lam) -> Tensor:
        return self.logits(self.features(x), lam)

    def fold(self, lams: Lam) -> tuple[Tensor, Tensor]:
        """Weights (k, m, n_features) and biases (k, m) of k members at each λ of (m,), k = 1 for a single head.

        ``features @ W[i].T + b[i]`` is z₊ − z₋ of member i.
        """
        return self.head.fold(self._codes(lams, next(self.head.parameters())))

    def margins(self, features: Tensor, lams: Lam) -> Tensor:
        """z₊ − z₋ of every sample at every λ, (n, m); of an ensemble, the log-odds of its members' mean probability."""
        return self.head.margins(features, self._codes(lams, features))

    def _codes(self, lams: Lam, like: Tensor) -> Tensor:
        if len(lams.shape) != 1:
            problem = "must be an array of shape (m,), as space.grid(...) and space.sample((m,)) give"
            raise InputError("lams", problem, got=tuple(lams.shape))
        return self.space.encode(lams).to(like)


class SettingsStack(Network):
    """The paper's sixteen settings as the members of one head, each with its own space, on one backbone.

    On features that do not train, a step of one head is so little work that most of it is overhead; here k heads take
    it together. Members see the same batches, each draws λ as it would alone, and they are never averaged: take them
    out with :meth:`member`. A member that diverges does not affect the others.

    Parameters
    ----------
    models
        Single heads of one kind, with the same backbone, of which no parameter may be trained; the first model's is
        used. Weights are copied.

    Examples
    --------
    >>> from lossdial.spaces import Constant
    >>> x = torch.randn(8, 5)
    >>> spaces = [Space(gamma=Constant(0.1), tau=Constant(tau)) for tau in (0.0, 1.0, 2.0)]
    >>> stack = SettingsStack([build_model(torch.nn.Identity(), "plain", space, x, seed=0) for space in spaces])
    >>> stack.member(1).space
    Space(gamma=Constant(0.1), tau=Constant(1))
    """

    def __init__(self, models: Sequence[ConditionalClassifier]) -> None:
        if not models:
            raise InputError("models", "must be one or more; got none")
        first = models[0]
        if any(p.requires_grad for model in models for p in model.backbone.parameters()):
            problem = "must share a backbone that is not trained: each setting would move it for the others"
            raise InputError("models", problem, remedy="Freeze the backbone, or fit each model by itself.")
        if len({(model.space.names, model.space.free) for model in models}) > 1:
            raise InputError("models", "must have the same names of λ, and the same of them must vary")
        super().__init__(first.backbone, Head.stack([model.head for model in models]))
        self._spaces = tuple(model.space for model in models)

    @property
    def spaces(self) -> tuple[Space, ...]:
        return self._spaces

    def draw(self, shape: Sequence[int], generator: torch.Generator) -> Draws:
        state = generator.get_state()
        lams = []
        for space in self._spaces:
            generator.set_state(state)  # each as it would alone
            lams.append(space.sample(shape, generator))
        codes = [space.encode(lam) for space, lam in zip(self._spaces, lams, strict=True)]
        return Draws(Lam(lams[0].names, torch.stack([lam.values for lam in lams], 1)), torch.stack(codes, 1))

    def member(self, i: int) -> ConditionalClassifier:
        """One setting as a model of its own: the same backbone, a copy of the head's weights."""
        model = ConditionalClassifier(self.backbone, self.n_features, self._spaces[i], self.head.member(i))
        return model.train(self.training)

    def __len__(self) -> int:
        return len(self._spaces)


@contextmanager
def seeded_weights(seed: int, *part: int) -> Iterator[None]:
    """Draw first weights by a seed within the block; torch's own generator is left as it was.

    Examples
    --------
    >>> with seeded_weights(0):
    ...     first = nn.Linear(3, 2).weight
    >>> with seeded_weights(0):
    ...     bool((nn.Linear(3, 2).weight == first).all())
    True
    """
    with torch.random.fork_rng([]):
        torch.manual_seed(stream_seed(seed, Stream.WEIGHTS, *part))
        yield


def build_model(
    network: nn.Module | NetworkConfig | None,
    head: HeadConfig | str | None,
    space: Space,
    x: Tensor,
    seed: int,
) -> ConditionalClassifier:
    """A model as training starts with it: the one place where a backbone and a head are put together.

    Parameters
    ----------
    network
        A backbone, which is copied, or the description of one; None: an MLP over a table.
    head
        As in :func:`build_head`.
    space
        The λ to train over.
    x
        Training data (n, ...); a backbone's ``standardize`` takes mean and deviation from them.
    seed
        Of the first weights. Those of the head depend on the seed, the sizes and the config alone, not on the
        backbone.

    Returns
    -------
    ConditionalClassifier
        With first weights.

    Examples
    --------
    >>> space = Space.from_json({"gamma": [0, 0.3, 0], "tau": [0, 3, 0.333]})
    >>> build_model(MLPConfig((16,)), "film", space, torch.randn(20, 5), seed=0).n_features
    16
    """
    with seeded_weights(seed):
        if isinstance(network, nn.Module):
            backbone = deepcopy(network)
        elif network is None or isinstance(network, NetworkConfig):
            if x.dim() != 2:
                what = "an MLP" if network is None else repr(network)
                problem = f"{what} reads a table (n, c); got x of shape {tuple(x.shape)}"
                raise InputError("", problem, remedy="Pass {network=…}.")
            backbone = (network or MLPConfig()).build(x.shape[1])
        else:
            problem = "must be an nn.Module, an MLPConfig, a FeaturesConfig or None for an MLP"
            raise InputError("network", problem, got=network)
    standardize = getattr(backbone, "standardize", None)
    if isinstance(standardize, Standardize):
        stored = getattr(backbone, "stored", None) if x.dim() > 2 else None  # a FrozenEncoder's features of images
        standardize.fit(x if stored is None else stored(x))
    n_features = feature_size(backbone, x[:2])
    with seeded_weights(seed, 1):
        return ConditionalClassifier(backbone, n_features, space, build_head(head, n_features, space.dim))
