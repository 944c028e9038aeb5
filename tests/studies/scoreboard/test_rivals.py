from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from lossdial.losses import VSLoss
from lossdial.spaces import Constant, Space
from lossdial_studies.scoreboard import networks
from lossdial_studies.scoreboard.objectives import figures
from lossdial_studies.scoreboard.rivals import RIVALS
from lossdial_studies.scoreboard.sets import Cell

_PACKAGES = {
    "libauc": "libauc",
    "tabm": "tabm",
    "lightgbm": "lightgbm",
    "dialed": "lightgbm",
    "smote": "imblearn",
    "xgboost": "xgboost",
    "balanced_forest": "imblearn",
    "easy_ensemble": "imblearn",
}


def _plays(name: str, cell: Cell) -> None:
    if name in _PACKAGES:
        pytest.importorskip(_PACKAGES[name])
    scored = RIVALS[name].run(cell, 0)
    assert len(scored.test) == len(cell.test.y)
    assert scored.validation.shape[1] == scored.test.shape[1]
    found = figures(cell.validation.y, cell.test.y, scored)
    assert all(np.isfinite(value) for value in found.values())
    if name != "film":  # which has learnt little of 90 steps
        assert found["auc"] > 0.6  # there is something to learn, and it was learnt the right way round


@pytest.mark.parametrize("name", [r.name for r in RIVALS.values() if "table" in r.kinds])
def test_every_rival_plays_on_a_table(name, tiny_table):
    _plays(name, tiny_table)


@pytest.mark.parametrize("name", [r.name for r in RIVALS.values() if "images" in r.kinds])
def test_every_rival_plays_on_image_features(name, tiny_images):
    _plays(name, tiny_images)


def test_a_stack_is_its_members_trained_alone(tiny_table, monkeypatch):
    spaces = [Space(gamma=Constant(0.1), tau=Constant(tau)) for tau in (0.0, 2.0)]
    loss = VSLoss(tiny_table.beta)

    def scores(which: list[Space]) -> np.ndarray:
        monkeypatch.setattr(networks, "settings", lambda *_: (loss, which))
        return np.asarray(networks.searched(tiny_table, 0, "vs").test)

    together = scores(spaces)
    for i, space in enumerate(spaces):
        assert np.allclose(together[:, i], scores([space])[:, 0], atol=1e-4)
    assert not np.allclose(together[:, 0], together[:, 1], atol=1e-2)


def test_logit_adjustment_is_cross_entropy_moved_by_multiples_of_log_beta(tiny_table):
    plain, moved = RIVALS["cross_entropy"].run(tiny_table, 0), RIVALS["logit_adjustment"].run(tiny_table, 0)
    assert np.allclose(moved.test - plain.test, np.log(tiny_table.beta) * np.array([0.5, 1, 2]), atol=1e-5)


def test_heads_start_at_the_best_constant():
    logits = networks._best_constant(VSLoss(50.0), Space(gamma=Constant(0.0), tau=Constant(0.0)), beta=50.0)
    assert float(logits[1] - logits[0]) == pytest.approx(-np.log(50), abs=0.02)


def test_the_ridge_is_scikit_learns(tiny_table):
    found = RIVALS["ridge"].run(tiny_table, 0)
    model = LogisticRegression(C=1e-2).fit(tiny_table.train.x, tiny_table.train.y)
    assert np.allclose(found.validation[:, 0], model.decision_function(tiny_table.validation.x))
    model.fit(tiny_table.known.x, tiny_table.known.y)  # again, on all known rows
    assert np.allclose(found.test[:, 0], model.decision_function(tiny_table.test.x))
    assert found.trainings == 16


def test_networks_do_not_see_validation_labels(tiny_table):
    other = replace(tiny_table, validation=replace(tiny_table.validation, y=1 - tiny_table.validation.y))
    assert np.array_equal(RIVALS["vs"].run(tiny_table, 0).test, RIVALS["vs"].run(other, 0).test)


def test_the_global_generator_is_left_alone(tiny_table):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    RIVALS["vs"].run(tiny_table, 0)
    assert torch.rand(1) == expected
