"""Settings side by side: what a stack is made of, and what is taken out of it."""

import pytest
import torch
from torch import nn

from lossdial.models import MLP, ConditionalClassifier, FiLMConfig, FrozenEncoder, PlainConfig, SettingsStack
from lossdial.spaces import Constant, Linear, Space

SPACES = [Space(gamma=Linear(0, 0.3, h), tau=Linear(0, high, 0)) for h in (0.0, 3.3) for high in (2, 3)]


def models(spaces: list[Space] = SPACES, head: object = None) -> list[ConditionalClassifier]:
    return [ConditionalClassifier(nn.Identity(), 6, space, head) for space in spaces]  # type: ignore[arg-type]


@pytest.mark.parametrize("head", [FiLMConfig(), FiLMConfig((4,)), PlainConfig()], ids=repr)
def test_members_answer_as_the_models_they_came_from(head: object) -> None:
    singles = models(head=head)
    stack = SettingsStack(singles)
    assert len(stack) == 4
    assert stack.spaces == tuple(SPACES)
    x = torch.randn(9, 6)
    for i, single in enumerate(singles):
        out = stack.member(i)
        assert out.space == single.space
        assert torch.equal(out.margins(x, single.space.even_grid(3)), single.margins(x, single.space.even_grid(3)))


@pytest.mark.parametrize("shape", [[5], [5, 7]])
def test_each_setting_draws_as_it_would_alone(shape: list[int]) -> None:
    singles = models()
    lams, codes = SettingsStack(singles).draw(shape, torch.Generator().manual_seed(4))
    assert lams.shape == (5, 4, *shape[1:])
    for i, single in enumerate(singles):
        alone = single.draw(shape, torch.Generator().manual_seed(4))
        assert torch.equal(lams.values[:, i], alone.lams.values[:, 0])
        assert torch.equal(codes[:, i], alone.codes[:, 0])


def test_logits_are_each_members_own() -> None:
    singles = models()
    stack = SettingsStack(singles)
    x, code = torch.randn(9, 6), torch.randn(4, 2)
    together = stack.member_logits(x, code)
    for i, single in enumerate(singles):
        torch.testing.assert_close(together[i], single.member_logits(x, code[i : i + 1])[0])


def test_a_frozen_encoder_is_shared() -> None:
    encoder = FrozenEncoder(nn.Identity(), 6)
    singles = [ConditionalClassifier(encoder, 6, space) for space in SPACES]
    stack = SettingsStack(singles)
    assert stack.frozen
    assert stack.member(2).backbone is encoder


def test_what_cannot_be_stacked() -> None:
    with pytest.raises(ValueError, match="settings that train a backbone cannot share it"):
        SettingsStack([ConditionalClassifier(MLP(6), 64, space) for space in SPACES])
    baseline = Space(gamma=Constant(0.1), tau=Constant(1))
    one_free = Space(gamma=Constant(0.1), tau=Linear(0, 3, 0))
    with pytest.raises(ValueError, match="same names of λ, and the same of them must vary"):
        SettingsStack(models([baseline, one_free], PlainConfig()))
    with pytest.raises(ValueError, match="only single heads of one kind"):
        SettingsStack([*models(SPACES[:1]), *models(SPACES[1:2], PlainConfig())])
    with pytest.raises(ValueError, match="only single heads of one kind"):
        SettingsStack(models(SPACES, FiLMConfig(members=2)))
    with pytest.raises(ValueError, match="one or more; got none"):
        SettingsStack([])
