"""Settings side by side: models that differ in their space alone, trained at once and never averaged."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lossdial.models.classifier import ConditionalClassifier
from lossdial.models.heads import Head
from lossdial.models.network import Draws, Network
from lossdial.spaces import Lam, Space

__all__ = ["SettingsStack"]


class SettingsStack(Network):
    """The paper's sixteen settings as the members of one head, each with its own space, on one backbone.

    On features that do not train, a step of one head is so little work that most of it is overhead; here k heads take
    it together. Members see the same batches, draw λ each as it would alone, and are never averaged: take them out
    with :meth:`member`. A member that diverges does not touch the others.

    models: single heads of one kind, with the same backbone, of which no parameter may be trained; it is the first
        model's that is used. Weights are copied.

    >>> from lossdial.models import build_model
    >>> from lossdial.spaces import Constant
    >>> x = torch.randn(8, 5)
    >>> spaces = [Space(gamma=Constant(0.1), tau=Constant(tau)) for tau in (0.0, 1.0, 2.0)]
    >>> stack = SettingsStack([build_model(torch.nn.Identity(), "plain", space, x, seed=0) for space in spaces])
    >>> stack.member(1).space
    Space(gamma=Constant(0.1), tau=Constant(1))
    """

    def __init__(self, models: Sequence[ConditionalClassifier]) -> None:
        if not models:
            raise ValueError("models must be one or more; got none.")
        first = models[0]
        if any(p.requires_grad for model in models for p in model.backbone.parameters()):
            raise ValueError(
                "settings that train a backbone cannot share it: each would move it for the others. "
                "Freeze the backbone, or fit each model by itself."
            )
        if len({(model.space.names, model.space.free) for model in models}) > 1:
            raise ValueError("settings of a stack must have the same names of λ, and the same of them must vary.")
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
