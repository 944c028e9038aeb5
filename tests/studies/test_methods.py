import warnings

import pytest
import torch

from lossdial.base.errors import InputError
from lossdial.losses import FocalLoss, VSLoss
from lossdial.models import FiLMConfig, build_head
from lossdial_studies.experiment import Experiment
from lossdial_studies.methods import ABLATIONS, METHODS, ConstantFiLMConfig, method


@pytest.mark.parametrize("name", METHODS)
def test_sixteen_settings_each_legal_for_its_loss(name: str) -> None:
    m = method(name)
    spaces = m.spaces()
    assert len(spaces) == len(set(spaces)) == 16
    loss = FocalLoss() if m.loss == "focal" else VSLoss(100)
    for space in spaces:
        loss.check_space(space)
        assert space.dim == (2 if m.lct else 0)


def test_the_grids_are_the_paper_s() -> None:
    first, *_, last = method("vs+lct").spaces()
    assert first.to_json() == {"gamma": pytest.approx([0, 0.3, 0]), "tau": [0, 3, 0]}
    assert last["gamma"].h_b.item() == pytest.approx(5)
    assert last.bounds("gamma") == pytest.approx((0.1, 0.3))
    assert last.bounds("tau") == (1.0, 4.0)
    alphas = {space.to_json()["alpha"][0] for space in method("focal").spaces()}
    assert sorted(alphas) == pytest.approx([0.1, 0.25, 0.5, 0.75])
    # The impossible L(1, 3, 2) is L(1, 3, 1) here.
    heights = {
        round(space["phi"].h_b.item(), 4) for space in method("focal+lct").spaces() if space.bounds("phi")[1] == 3
    }
    assert heights == {0.5, 0.0, 1.0}


def test_evaluation_grids() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # evaluating beyond the trained range is the paper's own doing
        assert {len(method("vs+lct").evaluation(s)) for s in method("vs+lct").spaces()} == {20}
        assert {len(method("focal+lct").evaluation(s)) for s in method("focal+lct").spaces()} == {16}
        assert {len(method("vs+sam").evaluation(s)) for s in method("vs+sam").spaces()} == {1}
    lams = method("vs+lct").evaluation(method("vs+lct").spaces()[0])
    assert lams[0].as_dict() == {"gamma": 0.0, "tau": 0.0}
    assert lams[19].as_dict() == {"gamma": 0.3, "tau": 4.0}


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_changes_one_thing(name: str) -> None:
    ablated, original = method(name), method(name.partition(":")[0])
    fields = ("loss", "sam", "free", "film", "film_scale", "lam_per", "polynomial")
    changes = 1 + name.endswith(("polynomial-per-sample", "no-film-per-sample"))
    assert sum(getattr(ablated, f) != getattr(original, f) for f in fields) == changes
    assert len(set(ablated.spaces())) == 16
    lams = {len(ablated.evaluation(space)) for space in ablated.spaces()}
    assert lams == {
        1
        if not ablated.film
        else {"gamma": 4, "tau": 5}.get(name.partition(":")[2], 16 if ablated.loss == "focal" else 20)
    }


def test_what_is_solved() -> None:
    for name in ("vs:exact", "focal:exact"):
        m = method(name)
        (space,) = m.spaces()
        (VSLoss(100) if m.loss == "vs" else FocalLoss()).check_space(space)
        assert set(space.free) == set(m.free)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(m.evaluation(space)) == (11 if m.loss == "vs" else 55)
    ridge = method("ridge")
    lams = [ridge.evaluation(space)[0].as_dict() for space in ridge.spaces()]
    assert len(lams) == 8
    assert {(lam["ridge"], lam["balanced"]) for lam in lams} == {(c, b) for c in (-4, -3, -2, -1) for b in (0, 1)}


def test_what_is_not_told_λ_is_put_down_in_the_middle() -> None:
    ablated = method("vs+lct:no-film")
    assert ablated.evaluation(ablated.spaces()[0])[0].as_dict() == {"gamma": 0.15, "tau": 1.5}


def test_an_unknown_method_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r"'vs\+ltc'; did you mean 'vs\+lct'"):
        method("vs+ltc")


# the control


def heads(code=(1.0, -0.5)):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        film = FiLMConfig().build(6, 2)
    control = ConstantFiLMConfig(code=code).build(6, 0)
    control.load_state_dict(film.state_dict())
    assert build_head(control.config.to_json(), 6, 0).config == control.config
    with pytest.raises(InputError, match="dim must be 0"):
        ConstantFiLMConfig().build(4, 2)
    return film, control


def test_it_answers_as_film_does_at_that_code() -> None:
    film, control = heads()
    x = torch.randn(5, 6)
    code, none = torch.tensor([[1.0, -0.5]]), torch.zeros(1, 0)
    assert torch.equal(control(x, none), film(x, code))
    assert torch.equal(control(x, none.expand(1, 5, 0)), film(x, code.expand(1, 5, 2)))
    assert torch.equal(control.margins(x, torch.zeros(1, 0)), film.margins(x, code))
    assert torch.equal(control.logit_weights(none), film.logit_weights(code))
    assert {id(p) for p in control.conditioning()} == {id(p) for p in control.films.parameters()}


def test_a_study_tells_it_the_code_that_lct_has_there() -> None:
    for setting, code in ((0, (-1.0, -1.0)), (15, (1.0, 1.0)), (7, (-1 / 3, 1.0))):
        run = Experiment("cifar10-auto-truck", 100.0, "fast", "vs:block", setting, 0, 9)
        assert run.head.zero_start
        assert run.head.code == pytest.approx(code, abs=1e-6)
        lct = Experiment("cifar10-auto-truck", 100.0, "fast", "vs+lct", 1, 0, 9)
        there = lct.space.encode(lct.space.point(**run.space.nearest({}).as_dict()))
        assert run.head.code == pytest.approx(there.tolist(), abs=1e-6)
        assert run.space.dim == 0
