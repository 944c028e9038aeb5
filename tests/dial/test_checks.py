import warnings

import numpy as np
import pytest

from lossdial.dial.checks import (
    as_labels,
    as_rows,
    require_both_classes,
    require_costs,
    require_finite,
    require_positives,
    require_prevalence,
    statable,
)


def test_labels_and_rows_pass_unchanged_where_they_can():
    assert as_labels([0, 1.0]).tolist() == [False, True]
    assert as_rows(np.zeros(3, dtype=np.float32), 3).dtype == np.float32
    assert as_rows([1, 2, 3], 3).shape == (1, 3)
    assert as_rows(np.zeros((3, 2)), 3).shape == (2, 3)


def test_labels_other_than_zero_and_one_are_named():
    with pytest.raises(ValueError, match=r"0 \(negative\) and 1 \(positive\) only; got .*2"):
        as_labels([0, 1, 2])
    with pytest.raises(ValueError, match=r"shape \(n,\)"):
        as_labels([[0, 1]])


def test_scores_of_another_length_are_named():
    with pytest.raises(ValueError, match=r"shape \(3,\) or \(3, m\)"):
        as_rows([0.1, 0.2], 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_located(bad):
    rows = np.zeros((2, 5), dtype=np.float32)
    rows[1, 3] = bad
    with pytest.raises(ValueError, match="at sample 3, column 1"):
        require_finite(rows)


@pytest.mark.parametrize(("labels", "missing"), [([0, 0], "positives"), ([1, 1], "negatives")])
def test_a_missing_class_is_named(labels, missing):
    with pytest.raises(ValueError, match=f"no {missing} among these 2 samples"):
        require_both_classes(as_labels(labels))


@pytest.mark.parametrize("prevalence", [0, 1, -0.1, 1.5, np.nan])
def test_prevalence_is_a_share(prevalence):
    with pytest.raises(ValueError, match="prevalence must lie strictly between 0 and 1"):
        require_prevalence(prevalence)


@pytest.mark.parametrize("cost", [0, -1, np.inf, np.nan])
def test_costs_are_positive(cost):
    with pytest.raises(ValueError, match="cost_fn must be positive and finite"):
        require_costs(cost, 1)
    with pytest.raises(ValueError, match="cost_fp must be positive and finite"):
        require_costs(1, cost)


def test_few_positives_warn_and_fewer_refuse():
    with pytest.warns(UserWarning, match="only 49 positives to tune on: one of them moves recall by 0.020"):
        require_positives(49)
    with pytest.raises(ValueError, match="have 4 positives; at least 5 are needed"):
        require_positives(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_positives(50)


def test_what_can_be_stated():
    assert statable(5, 5) is None
    assert statable(4, 300) == "no figure can be stated on 4 positives: at least 5 are needed."
    assert statable(1, 0) == "no figure can be stated on 1 positive and 0 negatives: at least 5 of each are needed."
