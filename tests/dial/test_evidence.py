import numpy as np
import pytest
from scipy.stats import norm

from lossdial.dial.certificates import at_recall
from lossdial.dial.evidence import NotCertified, digest_of, one_of_each, sample


def test_the_digest_knows_rows_and_not_their_order():
    rng = np.random.default_rng(0)
    y, score = rng.integers(0, 2, 50).astype(bool), rng.standard_normal(50)
    order = rng.permutation(50)
    assert digest_of(y, score) == digest_of(y[order], score[order])
    assert digest_of(y, score) != digest_of(~y, score)
    assert digest_of(y, score) != digest_of(y, score + 1e-9)


def test_one_row_of_each_group_at_random():
    groups = np.repeat(np.arange(40), 5)
    members = np.tile([True, True, True, False, False], 40)
    drawn = one_of_each(groups, members, seed=0)
    assert np.array_equal(groups[drawn], np.arange(40))
    assert members[drawn].all()
    # Each of the three rows is drawn about as often: 200 seeds x 40 groups, 4 standard deviations of a share of 1/3.
    places = np.concatenate([one_of_each(groups, members, seed) % 5 for seed in range(200)])
    np.testing.assert_allclose(np.bincount(places, minlength=5) / places.size, [1 / 3] * 3 + [0, 0], atol=0.022)
    assert np.array_equal(drawn, one_of_each(groups, members, seed=0))


def test_recall_over_patients_holds_and_over_rows_would_not():
    # 80 patients with 8 positive rows each that share most of their score: 640 rows that are worth 80.
    broken = np.zeros(2)
    for trial in range(400):
        rng = np.random.default_rng([5, trial])
        patients = np.repeat(np.arange(80), 8)
        score = 1.5 + (0.95 * rng.standard_normal(80))[patients] + np.sqrt(1 - 0.95**2) * rng.standard_normal(640)
        y = np.r_[np.ones(640), np.zeros(300)]
        score = np.r_[score, rng.standard_normal(300)]
        groups = np.r_[patients, 1000 + np.arange(300)]
        for turn, given in enumerate((groups, None)):
            threshold, _ = at_recall(sample(y, score, given), 0.95, 0.95)
            broken[turn] += norm.sf(threshold - 1.5) < 0.95
    assert broken[0] / 400 < 0.05 + 4 * np.sqrt(0.05 / 400)  # one failure in 30,000
    assert broken[1] / 400 > 0.15


def test_patients_with_rows_of_both_classes_are_noticed_and_the_cap_then_holds_whatever_the_threshold():
    rng = np.random.default_rng(0)
    y = np.tile([1, 0, 0], 100)
    score = rng.standard_normal(300) + y
    apart = sample(y, score, np.where(y == 1, np.arange(300), 1000 + np.arange(300)))
    mixed = sample(y, score, np.repeat(np.arange(100), 3))
    assert mixed.paired
    assert not apart.paired
    assert (mixed.positive.size, mixed.negative.size) == (100, 100)
    assert mixed.unit == "group"
    assert "over groups (one row of each, drawn at random)" in str(at_recall(mixed, 0.9, 0.95)[1])
    only = sample(y[y == 0].repeat(1).tolist() + [1] * 100, np.r_[score[y == 0], score[y == 1]])
    assert at_recall(mixed, 0.9, 0.95)[1].fpr > at_recall(only, 0.9, 0.95)[1].fpr - 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [1.0, 1.0]), "all 2 scores equal 1"),
        (([0, 0], [1.0, 2.0]), "no positives"),
        (([1, 1], [1.0, 2.0]), "no negatives"),
        (([0, 1], [1.0, np.nan]), "must be finite"),
        (([0, 1], [[1.0], [2.0]]), "of one λ"),
        (([0, 1], [1.0, 2.0], [1]), "groups must have shape"),
        (([0, 1], [1.0, 2.0], None, [1.0, 2.0]), "sample_weight cannot be certified"),
    ],
)
def test_what_cannot_certify_is_refused_with_the_reason(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample(*arguments)


def test_equal_weights_are_no_weights():
    assert sample([0, 1], [1.0, 2.0], sample_weight=[3.0, 3.0]).positive.tolist() == [2.0]
    assert issubclass(NotCertified, ValueError)
