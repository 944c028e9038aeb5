"""A cell of a sweep and a training by the estimator with the same settings are the same training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lossdial.models import ConditionalClassifier, FrozenEncoder
from lossdial.sklearn import LCTClassifier, Run
from lossdial_studies import running
from lossdial_studies.experiment import Experiment, Trial, image_set, trials
from lossdial_studies.running import Workplace


def cell(small: Any, name: str, settings: int, tmp_path: Path) -> tuple[Trial, Any, list[ConditionalClassifier]]:
    (trial,) = trials(small.experiments((name,), seeds=1, settings=settings))
    place = Workplace(tmp_path / "store", small.features, Path("nowhere"))
    data = running._load(trial.experiments[0], place)
    learned = running._learn(trial, data, place, tmp_path / "run")
    return trial, data, [run.model for run in learned]


def state(model: nn.Module) -> list[Tensor]:
    return [value.detach() for value in model.state_dict().values()]


def estimated(run: Experiment, network: nn.Module, x: Any, y: Any) -> ConditionalClassifier:
    """The model that the estimator makes of the same settings."""
    classifier = LCTClassifier(
        run.how.loss,
        space=run.space,
        network=network,
        head=run.how.head,
        recipe=run.recipe,
        pos_label=1,
        validation_fraction=0,
        random_state=run.seed,
        run=Run(precision=run.plan.precision),
    )
    model = classifier.fit(x, y).bundle_.predictor.model
    assert isinstance(model, ConditionalClassifier)
    return model


@pytest.mark.parametrize("name", ["vs", "vs+sam+lct", "focal+lct", "vs+lct:per-sample", "vs+lct:no-film"])
def test_a_cell_on_frozen_features_is_the_estimator_s_training(name: str, small: Any, tmp_path: Path) -> None:
    """Bit for bit where it is alone, within rounding where it is one of a stack."""
    for settings in (1, 4):
        trial, data, models = cell(small, name, settings, tmp_path / str(settings))
        for run, model in zip(trial.experiments, models, strict=True):
            network = FrozenEncoder(nn.Identity(), data.x.shape[1])
            theirs = estimated(run, network, data.x.numpy(), data.y)
            for a, b in zip(state(model), state(theirs), strict=True):
                if settings == 1:
                    assert torch.equal(a, b)
                else:
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_cell_from_scratch_is_the_estimator_s_training(tmp_path: Path, write_cifar: Callable[[Path], None]) -> None:
    """From the files on: the same images at the same β, the same network, the same batches and crops."""
    write_cifar(tmp_path / "data")
    running._images.cache_clear()
    run = Experiment("cifar10-auto-truck", 10.0, "cpu", "vs+sam+lct", 3, 1, 2)
    place = Workplace(tmp_path / "store", tmp_path, tmp_path / "data")
    data = running._load(run, place)
    (learned,) = running._learn(Trial((run,)), data, place, tmp_path / "run")
    split = image_set(run.data).load(tmp_path / "data", run.beta, run.seed)
    theirs = estimated(run, run.plan.build(run.seed), split.x_train, split.y_train)
    assert all(torch.equal(a, b) for a, b in zip(state(learned.model), state(theirs), strict=True))
    running._images.cache_clear()
