"""What every conditional loss shares: reductions, the space it accepts, the batches it refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lossdial.losses import ConditionalLoss, FocalLoss, MultiClassVSLoss, VSLoss
from lossdial.spaces import Constant, Lam, Linear, Space

FOCAL = Space(alpha=Linear(0.25, 0.75, 2), phi=Linear(1, 3, 0.5))
VS = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 0.33))
CASES: list[tuple[type[ConditionalLoss], dict[str, Any], Space]] = [
    (FocalLoss, {}, FOCAL),
    (VSLoss, {"beta": 50.0}, VS),
    (MultiClassVSLoss, {"counts": [50, 1]}, VS),
]


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 0, 1, 0])


@pytest.mark.parametrize(("kind", "arguments", "space"), CASES)
def test_reductions_are_torchs(
    kind: type[ConditionalLoss], arguments: dict[str, Any], space: Space, batch: tuple[Tensor, Tensor]
) -> None:
    lam = space.sample(generator=torch.Generator().manual_seed(0))
    losses = kind(**arguments, reduction="none")(*batch, lam)
    assert losses.shape == (6,)
    torch.testing.assert_close(kind(**arguments)(*batch, lam), losses.mean())
    torch.testing.assert_close(kind(**arguments, reduction="mean")(*batch, lam), losses.mean())
    torch.testing.assert_close(kind(**arguments, reduction="sum")(*batch, lam), losses.sum())
    with pytest.raises(ValueError, match="reduction must be 'mean', 'sum' or 'none'; got 'max'"):
        kind(**arguments, reduction="max")


@pytest.mark.parametrize(("kind", "arguments", "space"), CASES)
def test_float32_in_float32_out_and_gradients_flow(
    kind: type[ConditionalLoss], arguments: dict[str, Any], space: Space, batch: tuple[Tensor, Tensor]
) -> None:
    logits, y = batch
    logits.requires_grad_()
    generator = torch.Generator().manual_seed(1)
    for lam in (space.sample(generator=generator), space.sample((6,), generator)):
        value = kind(**arguments)(logits, y, lam)
        assert value.dtype == torch.float32
        (gradient,) = torch.autograd.grad(value, logits)
        assert bool((gradient != 0).all())


@pytest.mark.parametrize(("kind", "arguments", "space"), CASES)
@pytest.mark.parametrize(
    ("logits", "y", "message"),
    [
        (torch.zeros(6, 3), torch.zeros(6), r"logits must have shape \(n, 2\); got \(6, 3\)"),
        (torch.zeros(6), torch.zeros(6), r"logits must have shape \(n, 2\); got \(6,\)"),
        (torch.zeros(6, 2), torch.zeros(6, 1), r"y must have shape \(6,\), one label per row.*got \(6, 1\)"),
        (torch.zeros(6, 2), torch.zeros(5), r"y must have shape \(6,\).*got \(5,\)"),
        (torch.zeros(2, 2), torch.tensor([-1, 1]), "y must hold labels that are 0 or 1; got values from -1 to 1"),
        (torch.zeros(3, 2), torch.tensor([0, 1, 2]), "y must hold labels that are 0 or 1; got values from 0 to 2"),
        (torch.zeros(2, 2), torch.tensor([0.0, 0.5]), "y must hold labels that are 0 or 1; got values from 0 to 0.5"),
        (torch.zeros(2, 2), torch.tensor([0.0, torch.nan]), "y must hold labels that are 0 or 1; got values from nan"),
    ],
)
def test_bad_batches_are_refused(
    kind: type[ConditionalLoss], arguments: dict[str, Any], space: Space, logits: Tensor, y: Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**arguments)(logits, y, space.sample())


def test_the_message_of_the_general_form_counts_the_classes() -> None:
    loss = MultiClassVSLoss([9, 5, 1])
    with pytest.raises(ValueError, match=r"logits must have shape \(n, 3\); got \(6, 2\)"):
        loss(torch.zeros(6, 2), torch.zeros(6), VS.sample())
    with pytest.raises(ValueError, match="labels that are whole numbers from 0 to 2; got values from 0 to 3"):
        loss(torch.zeros(2, 3), torch.tensor([0, 3]), VS.sample())


def test_a_batch_of_one_class_or_of_none_is_a_batch() -> None:
    """Under imbalance most mini-batches hold negatives only; that is the trainer's business, not an error here."""
    for kind, arguments, space in CASES:
        loss = kind(**arguments, reduction="none")
        assert loss(torch.zeros(4, 2), torch.zeros(4), space.sample()).shape == (4,)
        assert loss(torch.zeros(0, 2), torch.zeros(0), space.sample()).shape == (0,)
        assert loss(torch.zeros(0, 2), torch.zeros(0), space.sample((0,))).shape == (0,)


@pytest.mark.parametrize(("kind", "arguments", "space"), CASES)
def test_its_own_space_is_accepted(kind: type[ConditionalLoss], arguments: dict[str, Any], space: Space) -> None:
    loss = kind(**arguments)
    loss.check_space(space)
    loss.check_space(Space(**{name: Constant(value) for name, value in loss.neutral.items()}))


@pytest.mark.parametrize(
    ("loss", "space", "message"),
    [
        (FocalLoss(), VS, r"FocalLoss has no hyperparameter 'gamma'; its λ is \(alpha, phi, ridge\)"),
        (VSLoss(9.0), FOCAL, r"VSLoss has no hyperparameter 'alpha'; its λ is \(gamma, tau, ridge\)"),
        (VSLoss(9.0), Space(tau=Linear(0, 3, 0)), r"VSLoss needs 'gamma' in its λ; add gamma=Constant\(0\)"),
        (FocalLoss(), Space(phi=Constant(1)), r"FocalLoss needs 'alpha' in its λ; add alpha=Constant\(0.5\)"),
        (
            FocalLoss(),
            Space(alpha=Linear(0.5, 1.5, 1), phi=Constant(0)),
            r"alpha must be in \[0, 1\]; the space draws it from \[0.5, 1.5\]",
        ),
        (
            FocalLoss(),
            Space(alpha=Constant(0.5), phi=Linear(-1, 3, 0)),
            r"phi must be finite and at least 0; the space draws it from \[-1, 3\]",
        ),
        (
            VSLoss(9.0),
            Space(gamma=Constant(-0.1), tau=Constant(0)),
            r"gamma must be finite and at least 0; the space draws it from \[-0.1, -0.1\]",
        ),
    ],
)
def test_a_space_that_is_not_its_own_is_refused(loss: ConditionalLoss, space: Space, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss.check_space(space)


def test_a_lambda_without_the_name_it_needs(batch: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(KeyError, match="λ has no 'alpha'; it has gamma, tau"):
        FocalLoss()(*batch, VS.sample())
    with pytest.raises(KeyError, match="λ has no 'gamma'; it has tau"):
        VSLoss(9.0)(*batch, Lam(("tau",), torch.tensor([1.0])))


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ConditionalLoss()  # type: ignore[abstract] # that it cannot be built is the point
