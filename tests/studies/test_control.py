"""The control's head is FiLM's, told one constant."""

import pytest
import torch

from lossdial.base.errors import InputError
from lossdial.models import FiLMConfig, build_head
from lossdial.spaces import Constant, Space
from lossdial_studies import Experiment
from lossdial_studies.control import ConstantFiLMConfig


def heads(code=(1.0, -0.5)):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        film = FiLMConfig().build(6, 2)
    control = ConstantFiLMConfig(code=code).build(6, 0)
    control.load_state_dict(film.state_dict())
    return film, control


def test_it_answers_as_film_does_at_that_code() -> None:
    film, control = heads()
    x = torch.randn(5, 6)
    code, none = torch.tensor([[1.0, -0.5]]), torch.zeros(1, 0)
    assert torch.equal(control(x, none), film(x, code))
    assert torch.equal(control(x, none.expand(1, 5, 0)), film(x, code.expand(1, 5, 2)))
    assert torch.equal(control.margins(x, torch.zeros(1, 0)), film.margins(x, code))
    assert torch.equal(control.logit_weights(none[:, None]), film.logit_weights(code[:, None]))
    assert {id(p) for p in control.conditioning()} == {id(p) for p in control.films.parameters()}


def test_it_is_built_from_its_json() -> None:
    config = ConstantFiLMConfig(zero_start=True, code=(0.5, 1.0))
    assert build_head(config.to_json(), 4, 0).config == config


def test_a_study_tells_it_the_code_that_lct_has_there() -> None:
    for setting, code in ((0, (-1.0, -1.0)), (15, (1.0, 1.0)), (7, (-1 / 3, 1.0))):
        run = Experiment("cifar10-auto-truck", 100.0, "fast", "vs:block", setting, 0, 9)
        assert run.head.zero_start
        assert run.head.code == pytest.approx(code, abs=1e-6)
        lct = Experiment("cifar10-auto-truck", 100.0, "fast", "vs+lct", 1, 0, 9)
        there = lct.space.encode(lct.space.point(**run.space.nearest({}).as_dict()))
        assert run.head.code == pytest.approx(there.tolist(), abs=1e-6)
        assert isinstance(run.space, Space)
        assert run.space.dim == 0
        assert isinstance(run.space["tau"], Constant)


def test_mistakes_are_told_in_a_line() -> None:
    with pytest.raises(InputError, match="dim must be 0"):
        ConstantFiLMConfig().build(4, 2)
    with pytest.raises(InputError, match="code must hold one number or more"):
        ConstantFiLMConfig(code=())
