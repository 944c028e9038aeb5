"""The head that is not told λ."""

import pytest
import torch

from lossdial.models import PlainConfig

C, D = 12, 2


@pytest.mark.parametrize("members", [1, 3])
def test_it_ignores_lambda_and_folds_all_the_same(members: int) -> None:
    head = PlainConfig(members=members).build(C, D)
    assert head.foldable
    features = torch.randn(7, C)
    logits = head(features, torch.randn(members, D))
    assert logits.shape == (members, 7, 2)
    torch.testing.assert_close(logits, head(features, torch.randn(members, 7, D)))
    for k in range(members):
        expected = features @ head.linear.weight[k] + head.linear.bias[k]
        torch.testing.assert_close(logits[k], expected)
    for codes in (torch.randn(5, D), torch.randn(5, 0)):  # a baseline's code has no coordinates
        weights, biases = head.fold(codes)
        assert (weights.shape, biases.shape) == ((members, 5, C), (members, 5))
        margins = logits[..., 1] - logits[..., 0]
        for k in range(members):
            torch.testing.assert_close(features @ weights[k].T + biases[k], margins[k, :, None].expand(-1, 5))
        p = margins.double().sigmoid().mean(0)
        torch.testing.assert_close(
            head.margins(features, codes), torch.logit(p)[:, None].expand(-1, 5).float(), atol=1e-6, rtol=1e-5
        )
