"""Fresh weights come from torch's own generator; here every test starts it at the same place."""

from collections.abc import Callable, Iterator

import pytest
import torch

from lossdial.bundle import Bundle, Training
from lossdial.bundle.predictor import Predictor
from lossdial.data.schema import ImageSchema
from lossdial.models import ConditionalClassifier


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def bundle_of() -> Callable[[ConditionalClassifier, tuple[int, int, int]], Bundle]:
    """A bundle around a model of images that nobody trained."""

    def make(model: ConditionalClassifier, shape: tuple[int, int, int]) -> Bundle:
        training = Training({"name": "vs", "beta": 9.0}, 0.1, 0.0, 0, (), {})
        return Bundle(Predictor(ImageSchema(*shape), model, (0, 1)), training)

    return make
