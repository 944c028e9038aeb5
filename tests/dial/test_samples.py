import numpy as np
import pytest

from lossdial.dial.surface import Samples


def test_what_all_count_alike_is_worth():
    samples, kept = Samples.of([1, 0, 0, 1, 0])
    assert kept is None
    assert (samples.n_positive, samples.n_negative) == (2, 3)
    assert samples.totals == samples.effective == (2.0, 3.0)
    assert samples.units == (2, 3)
    assert samples.prevalence == 0.4


def test_weights_move_totals_and_shrink_the_effective_number():
    samples, _ = Samples.of([1, 1, 0, 0], [1, 3, 2, 2])
    assert samples.totals == (4, 4)
    assert samples.effective == (16 / 10, 2)
    assert samples.prevalence == 0.5
    scaled, _ = Samples.of([1, 1, 0, 0], [10, 30, 20, 20])
    assert scaled.effective == samples.effective


def test_groups_are_worth_their_number():
    samples, _ = Samples.of([1] * 6 + [0] * 4, groups=["a"] * 3 + ["b"] * 3 + ["c"] * 2 + ["d"] * 2)
    assert samples.effective == (2, 2)
    assert samples.units == (2, 2)
    alone, _ = Samples.of([1, 0, 1], groups=[3, 1, 2])
    assert alone.groups is None


def test_samples_of_no_weight_are_left_out():
    samples, kept = Samples.of([1, 0, 1, 0], [1, 0, 1, 1], groups=["a", "b", "a", "c"])
    assert kept.tolist() == [0, 2, 3]
    assert samples.labels.tolist() == [True, True, False]
    assert samples.weight is None
    assert samples.groups.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": [1, 2]}, r"sample_weight must have shape \(3,\).*got \(2,\)"),
        ({"sample_weight": [1, -1, 2]}, r"not negative; got -1.0 at sample 1"),
        ({"sample_weight": [1, np.nan, 2]}, "finite .* got nan"),
        ({"sample_weight": [0, 1, 1]}, "no positives"),
        ({"groups": [1, 2]}, r"groups must have shape \(3,\)"),
        ({"groups": [1.0, np.nan, 2.0]}, "missing at sample 1"),
        ({"groups": np.array(["a", None, "b"], dtype=object)}, "missing at sample 1"),
    ],
)
def test_wrong_weights_and_groups_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        Samples.of([1, 0, 0], **given)
