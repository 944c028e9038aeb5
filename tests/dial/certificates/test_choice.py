import numpy as np
import pytest
from scipy.stats import norm

from lossdial.dial import Objective, Surface
from lossdial.dial.certificates.certificate import npv_at, precision_at
from lossdial.dial.certificates.choice import certified_choice, choosing_and_certifying
from lossdial.dial.certificates.evidence import NotCertified, digest_of, sketches

RNG = np.random.default_rng(0)
FLOOR = Objective(maximize="precision", subject_to={"recall": 0.95})


def one(rng, n_positive=100, n_negative=500, distance=2.0):
    y = np.repeat([1, 0], [n_positive, n_negative])
    return Surface(y, (rng.standard_normal(y.size) + distance * y)[:, None], ({},))


def many(rng, m=21, n_positive=100, n_negative=500, distance=2.0, noise=1.0):
    """Columns that share a score and differ by noise of their own: none is truly better than another."""
    y = np.repeat([1, 0], [n_positive, n_negative])
    scores = (rng.standard_normal(y.size) + distance * y)[:, None] + noise * rng.standard_normal((y.size, m))
    return Surface(y, scores, [{"tau": float(k)} for k in range(m)])


def tied(rng):
    """Twenty-one λ with seven levels each, that differ in which positives they miss."""
    surface = many(rng, noise=2.0)
    return Surface(surface.y, np.round(surface.scores / 2), surface.lams)


def few(rng):
    return many(rng, m=12, n_positive=40, noise=2.0)


SPREAD = {one: 1.0, many: np.sqrt(2), tied: np.sqrt(5), few: np.sqrt(5)}


def truth(threshold, prevalence, spread):
    """The true figures at a threshold of normal scores."""
    recall, fpr = norm.sf((threshold - 2) / spread), norm.sf(threshold / spread)
    precision = precision_at(recall, fpr, prevalence)
    return {
        "recall": recall,
        "fpr": fpr,
        "precision": precision,
        "npv": npv_at(recall, fpr, prevalence),
        "f1": 2 * precision * recall / max(precision + recall, 1e-12),
        "alert_rate": prevalence * recall + (1 - prevalence) * fpr,
    }


def choices(draw, objective, trials, seed):
    """What is chosen in so many draws, and whether any bound is broken; draws that are refused are left out."""
    for trial in range(trials):
        surface = draw(np.random.default_rng([seed, trial]))
        try:
            choice = certified_choice(surface, objective, 0.95, seed=trial)
        except NotCertified:
            continue
        # Of rounded scores the level k is what lies between 2k - 1 and 2k + 1.
        cut = 2 * np.ceil(choice.threshold) - 1 if draw is tied else choice.threshold
        share = surface.prevalence if objective.prevalence is None else objective.prevalence
        figures = truth(cut, share, SPREAD[draw])
        yield choice, any(not bound.holds(figures[bound.metric]) for bound in choice.certificate.bounds)


# 300 draws break with probability 0.05 at most; 0.05 + 4 standard deviations is 0.1: one failure in 30,000.
@pytest.mark.parametrize(
    "objective",
    [
        FLOOR,
        Objective(maximize="recall", subject_to={"fpr": 0.1}),
        Objective(maximize="f1"),
        Objective(maximize="f1", subject_to={"recall": 0.8}),
        Objective(maximize="recall", subject_to={"precision": 0.06}, prevalence=0.05),
        Objective(maximize="recall", subject_to={"alert_rate": 0.2}),
        Objective(maximize="f1", subject_to={"alert_rate": 0.2}),
    ],
    ids=str,
)
@pytest.mark.parametrize("draw", [one, many])
def test_what_was_chosen_and_certified_holds(objective, draw):
    assert sum(broken for _, broken in choices(draw, objective, 300, seed=3)) / 300 < 0.1


@pytest.mark.parametrize(("draw", "counts"), [(one, (100, 500)), (many, (59, 295))])
def test_all_rows_certify_one_column_and_some_choose_among_many(draw, counts):
    surface = draw(np.random.default_rng(0))
    choice = certified_choice(surface, FLOOR, 0.95)
    assert (choice.certificate.n_positive, choice.certificate.n_negative) == counts
    used = choice.certifying
    assert choice.certificate.data == digest_of(surface.labels[used], surface.score(choice.index)[used])
    assert certified_choice(surface, FLOOR, 0.95) == choice


def test_the_better_column_is_found():
    rng = np.random.default_rng(1)
    surface = many(rng, m=5, n_positive=300, n_negative=2000, noise=0.2)
    scores = np.array(surface.scores)
    scores[:, 3] += 2 * surface.y
    assert certified_choice(Surface(surface.y, scores, surface.lams), FLOOR, 0.95).index == 3


def test_groups_stay_whole():
    labels = np.tile([True, False, False], 60)
    groups = np.repeat(np.arange(60), 3)
    choosing, certifying = choosing_and_certifying(labels, groups, None, 0.95)
    assert not np.intersect1d(groups[choosing], groups[certifying]).size
    assert choosing.size + certifying.size == labels.size
    score = np.random.default_rng(0).standard_normal(180) + 2 * labels
    surface = Surface(labels, score[:, None], ({},), None, groups)
    choice = certified_choice(surface, Objective(maximize="precision", subject_to={"recall": 0.9}), 0.95)
    assert choice.certificate.unit == "group"
    assert choice.certificate.n_positive == 60


@pytest.mark.parametrize(
    ("surface", "objective", "message"),
    [
        (one(RNG, 31), FLOOR, "31 .* 59 .* 0.907 can be"),
        (many(RNG, n_positive=60), FLOOR, "50 .*besides 10 to choose on"),
        (many(RNG, n_positive=15), Objective(maximize="f1"), "got 15"),
        (one(RNG), Objective(maximize="precision", subject_to={"recall": 0.95, "fpr": 0.1}), "^fpr <= 0.1 does not"),
        (one(RNG), Objective(maximize="recall", subject_to={"precision": 0.99}, prevalence=0.01), "no threshold keeps"),
        (one(RNG), Objective(maximize="recall", subject_to={"precision": 0.5}), "at a stated prevalence only"),
        (one(RNG), Objective(maximize="f1", subject_to={"auc": 0.5}), "auc is none"),
        (one(RNG), Objective(maximize="recall", subject_to={"alert_rate": 0.2, "recall": 0.5}), "certified alone"),
        (one(RNG), Objective(maximize="recall", subject_to={"alert_rate": 0.001}), "600 rows; .* 3688"),
    ],
)
def test_refusals_say_why_and_what_can_be_had(surface, objective, message):
    with pytest.raises(NotCertified, match=message):
        certified_choice(surface, objective, 0.95)


@pytest.mark.parametrize(("maximize", "floor"), [("precision_at_recall@0.8", 0.9), ("precision_at_recall@0.9", 0.8)])
def test_of_two_floors_on_recall_the_stricter_is_certified(maximize, floor):
    surface = one(np.random.default_rng(0), 200)
    choice = certified_choice(surface, Objective(maximize=maximize, subject_to={"recall": floor}), 0.95)
    assert choice.certificate.recall == 0.9


def test_the_sequence_goes_on_to_the_best_at_the_prevalence_of_the_data():
    # Where positives are rare, accuracy is best at a high threshold; at a prevalence of one half it is at a low one.
    surface = one(np.random.default_rng(0), 100, 5000)
    choice = certified_choice(surface, Objective(maximize="accuracy", subject_to={"balanced_accuracy": 0.7}), 0.95)
    assert choice.threshold > 1.5


SEQUENCES = [
    Objective(maximize="recall", subject_to={"precision": 0.3}, prevalence=0.1),
    Objective(maximize="precision", subject_to={"npv": 0.97}, prevalence=0.1),
    Objective(maximize="f1", subject_to={"precision": 0.2, "f1": 0.2}, prevalence=0.1),
]


# At most 5 % of 100 draws may break; 0.05 + 4 standard deviations is 0.137: one failure in 30,000.
@pytest.mark.parametrize("draw", [one, many, few])
@pytest.mark.parametrize("objective", SEQUENCES, ids=str)
def test_a_figure_that_is_tested_in_sequence_holds(objective, draw):
    answers = list(choices(draw, objective, 100, seed=4))
    for choice, _ in answers:
        assert {bound.metric for bound in choice.certificate.bounds} == {*objective.subject_to, "recall", "fpr"}
    assert sum(broken for _, broken in answers) / 100 < 0.137


def test_a_floor_on_precision_costs_less_recall_than_bands_do():
    # By bands .80 of the positives were found on average (standard error .003), by the sequence .86.
    recalls = []
    for trial in range(60):
        surface = one(np.random.default_rng([6, trial]), 120, 1200)
        recalls.append(norm.sf(certified_choice(surface, SEQUENCES[0], 0.95, seed=trial).threshold - 2))
    assert np.mean(recalls) > 0.835


@pytest.mark.parametrize(("draw", "at_once"), [(many, 21), (tied, 21), (few, 1)])
def test_lams_that_miss_different_positives_are_certified_all_at_once(draw, at_once):
    # 300 draws as above. Of forty positives a twelfth of the risk certifies no floor of .9, so that one λ is chosen.
    answers = list(choices(draw, Objective(maximize="precision", subject_to={"recall": 0.9}), 300, seed=5))
    assert {choice.at_once for choice, _ in answers} == {at_once}
    assert sum(broken for _, broken in answers) / 300 < 0.1


def test_whether_all_lams_are_certified_does_not_depend_on_what_certifies():
    floor = Objective(maximize="precision", subject_to={"recall": 0.9})
    surface = many(np.random.default_rng(0))
    choice = certified_choice(surface, floor, 0.95)
    assert choice.certificate.n_positive == surface.n_positive
    assert "All 21 λ are certified at once" in choice.certificate.note
    choosing, _ = choosing_and_certifying(surface.labels, None, 0.9, 0.95)
    other = np.array(surface.scores)
    spared = np.setdiff1d(np.arange(surface.labels.size), choosing[~surface.labels[choosing]])
    other[spared] = np.random.default_rng(1).standard_normal((spared.size, 1)) + 2 * surface.y[spared, None]
    assert certified_choice(Surface(surface.y, other, surface.lams), floor, 0.95).at_once == 21
    assert certified_choice(many(np.random.default_rng(0), noise=0.3), floor, 0.95).at_once == 1


def test_more_precision_is_left_than_when_half_chose():
    # At 120 positives and a floor of .9 half of them certified at .207 on average; now .243 (standard errors .004).
    floor, precisions = Objective(maximize="precision", subject_to={"recall": 0.9}), []
    for trial in range(80):
        surface = many(np.random.default_rng([8, trial]), n_positive=120, n_negative=900, noise=0.3)
        choice = certified_choice(surface, floor, 0.95, seed=trial)
        precisions.append(truth(choice.threshold, surface.prevalence, np.sqrt(1.09))["precision"])
    assert np.mean(precisions) > 0.225


def test_evidence_chooses_and_all_rows_certify():
    # 300 draws as above.
    count = 0
    for trial in range(300):
        rng = np.random.default_rng([9, trial])
        surface, evidence = many(rng, noise=0.3), many(rng, n_positive=30, noise=0.3)
        choice = certified_choice(surface, FLOOR, 0.95, seed=trial, evidence=evidence)
        assert choice.certificate.n_positive == 100
        figures = truth(choice.threshold, surface.prevalence, np.sqrt(1.09))
        count += any(not bound.holds(figures[bound.metric]) for bound in choice.certificate.bounds)
    assert count / 300 < 0.1
    assert choice.chosen_on == sketches(evidence.labels, evidence.score(choice.index))


@pytest.mark.parametrize("share", [1.0, 0.5, 0.05])
@pytest.mark.parametrize("changed", [lambda s: s, lambda s: s.astype(np.float32), lambda s: s.round(6)])
def test_evidence_that_holds_rows_which_certify_does_not_choose(share, changed):
    rng = np.random.default_rng(0)
    evidence, surface = many(rng, noise=0.3), many(rng, noise=0.3)
    same = rng.random(surface.labels.size) < share
    scores = np.where(same[:, None], changed(np.asarray(evidence.scores)), surface.scores)
    mixed = Surface(surface.y, scores, surface.lams)
    assert certified_choice(mixed, FLOOR, 0.95, evidence=evidence) == certified_choice(mixed, FLOOR, 0.95)
    elsewhere = Surface(evidence.y, evidence.scores, [{"tau": k + 0.5} for k in range(21)])
    assert certified_choice(surface, FLOOR, 0.95, evidence=elsewhere).certificate.n_positive < 100
