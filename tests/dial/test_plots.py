import dataclasses
import io
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure

from lossdial.base.errors import InputError
from lossdial.dial import Dial
from lossdial.dial.choice.envelope import adapt, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import choose
from lossdial.dial.metrics.registry import FPR, PRECISION, RECALL, net_benefit
from lossdial.dial.plots import (
    contributions_figure,
    decision_curve_figure,
    heat_map_figure,
    precision_recall_figure,
    reliability_figure,
    roc_figure,
)
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import noise_over_lam

LAMS = tuple({"gamma": g, "tau": t} for g in (0.0, 0.1) for t in (0.0, 1.0, 2.0))


@pytest.fixture(scope="module")
def surface():
    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], [60, 400])
    scores = rng.standard_normal((y.size, 6)) + y[:, None] * np.linspace(1, 2, 6) - 1
    return Surface(y, scores.astype(np.float32), LAMS)


@pytest.fixture(scope="module")
def points(surface):
    objectives = {
        "balance": Objective(maximize="f1"),
        "screening": Objective(maximize="precision", subject_to={"recall": 0.9}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            choose(surface, objective, name, resamples=20, calibration="platt")
            for name, objective in objectives.items()
        ]


def render(figure):
    assert isinstance(figure, Figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")
    return figure.axes[0]


def lines(axes):
    return {line.get_label(): line.get_xydata() for line in axes.get_lines()}


def marked(axes, name):
    return next(data[0] for label, data in lines(axes).items() if label.startswith(f"{name}:"))


def test_precision_recall_marks_the_points_where_they_are(surface, points):
    axes = render(precision_recall_figure(surface, points))
    for point in points:
        score = surface.score(LAMS.index(point.lam))
        expected = [f(surface.y, score, point.threshold) for f in (RECALL, PRECISION)]
        np.testing.assert_allclose(marked(axes, point.name), expected)
    frontier = lines(axes)["best λ at each recall, in hindsight"]
    for recall in (0.5, 0.9, 1.0):
        best = surface.metric(f"precision_at_recall@{recall}").max()
        assert frontier[frontier[:, 0] >= recall - 1e-9, 1].max() == pytest.approx(best)
    assert axes.get_xlabel() == "recall"
    assert axes.get_ylabel() == "precision"


def test_roc_marks_the_points_on_or_below_the_envelope(surface, points):
    axes = render(roc_figure(surface, points))
    hull = next(
        data for label, data in lines(axes).items() if label.startswith("envelope over λ, in hindsight (area 0.")
    )
    for point in points:
        score = surface.score(LAMS.index(point.lam))
        fpr, tpr = marked(axes, point.name)
        assert fpr == pytest.approx(FPR(surface.y, score, point.threshold))
        assert tpr == pytest.approx(RECALL(surface.y, score, point.threshold))
        assert tpr <= np.interp(fpr, hull[:, 0], hull[:, 1]) + 1e-9


def test_heat_map_shows_every_value(surface, points):
    axes = render(heat_map_figure(surface, "auc", points))
    values = surface.metric("auc").reshape(2, 3).T  # rows tau, columns gamma
    np.testing.assert_allclose(axes.collections[0].get_array().reshape(3, 2), values)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("gamma", "tau")
    for point in points:
        np.testing.assert_allclose(marked(axes, point.name), list(point.lam.values()))


def test_pictures_of_other_shapes_of_lam(surface, points):
    scores = surface.scores
    line, one, nameless, scattered, three, many = (
        Surface(surface.y, columns, lams)
        for columns, lams in (
            (scores[:, :3], LAMS[:3]),
            (scores[:, :1], LAMS[:1]),
            (scores[:, :1], [{}]),
            (scores[:, :5], LAMS[:5]),
            (np.repeat(scores, 2, axis=1), [{"phi": p, **lam} for lam in LAMS for p in (0.0, 2.0)]),
            (np.repeat(scores, 15, axis=1), [{"tau": float(k)} for k in range(90)]),
        )
    )
    assert render(heat_map_figure(line, "brier")).get_xlabel() == "tau"
    for surface_of_one in (one, nameless):
        render(heat_map_figure(surface_of_one, "auc"))
        render(precision_recall_figure(surface_of_one))
    assert "more is better" in render(heat_map_figure(scattered, "max_f1", points[:1])).get_title(loc="left")
    assert render(heat_map_figure(three, "f1")).get_xlabel().startswith("gamma (phi = ")
    assert "60 of 90 λ" in lines(render(precision_recall_figure(many)))
    render(roc_figure(many))
    with pytest.raises(InputError, match="point 'balance'"):
        roc_figure(many, points)


def test_reliability_of_calibrated_points_is_near_the_diagonal(surface, points):
    axes = render(reliability_figure(surface, points))
    bars = axes.containers[0]
    x, y = bars.lines[0].get_xydata().T
    assert len(x) == 10
    np.testing.assert_allclose(x, y, atol=0.12)
    assert y.mean() == pytest.approx(surface.prevalence)  # bins of equal numbers


def test_decision_curve_is_net_benefit_of_the_calibrated_probabilities(surface, points):
    axes = render(decision_curve_figure(surface, points))
    (band,) = [c.get_paths()[0].vertices for c in axes.collections if c.get_paths() and c.get_alpha() == 0.15]
    for point in points:  # both state the same probabilities
        margin = point.margin(surface.score(LAMS.index(point.lam)))
        drawn = next(data for label, data in lines(axes).items() if point.name in label.split(", "))
        for p, benefit in drawn[20::40]:
            assert benefit == pytest.approx(net_benefit(p)(surface.y, margin))
            ends = band[np.isclose(band[:, 0], p), 1]
            assert ends.min() <= benefit <= ends.max() < ends.min() + 0.1
    p, everyone = lines(axes)["act on everyone"].T
    np.testing.assert_allclose(everyone, surface.prevalence - (1 - surface.prevalence) * p / (1 - p))


def test_heat_map_greys_what_the_samples_cannot_tell_from_the_best():
    rng = np.random.default_rng(1)
    y = np.repeat([1, 0], [200, 1000])
    base = rng.standard_normal((y.size, 1)) + 1.5 * y[:, None]
    alike = base + 0.05 * rng.standard_normal((y.size, 4))
    worse = 0.3 * base + rng.standard_normal((y.size, 2))
    lams = [{"gamma": g, "tau": t} for g in (0.0, 0.1, 0.2) for t in (0.0, 1.0)]
    surface = Surface(y, np.hstack([alike, worse]), lams)
    (noise,) = noise_over_lam(surface, ["auc"])
    assert noise.inside.tolist() == [True] * 4 + [False] * 2
    axes = render(heat_map_figure(surface, "auc"))
    hatched = [patch for patch in axes.patches if patch.get_hatch()]
    assert len(hatched) == 4
    assert {patch.get_x() < 0.15 for patch in hatched} == {True}
    assert any("4 of 6 λ" in text.get_text() for text in axes.figure.legends[0].get_texts())


def test_a_figure_at_no_threshold_is_its_best_over_thresholds_and_says_so(surface):
    axes = render(heat_map_figure(surface, "f1"))
    np.testing.assert_allclose(axes.collections[0].get_array().reshape(3, 2), surface.metric("max_f1").reshape(2, 3).T)
    assert axes.get_title(loc="left").startswith("F1 (best over thresholds) over λ")
    with pytest.raises(InputError) as raised:
        heat_map_figure(surface, "recall")
    assert raised.value.argument == "metric"


def test_a_heat_map_of_probabilities_is_after_calibration(surface):
    axes = render(heat_map_figure(surface, "brier"))
    assert axes.get_title(loc="left").startswith("Brier score after calibration")
    drawn = axes.collections[0].get_array().reshape(3, 2)
    assert (drawn < surface.metric("brier").reshape(2, 3).T + 1e-9).all()


def test_adapted_points_stand_at_their_own_prevalence(surface, points):
    clinic = adapt(envelope(surface), 0.01, 50, 1, "clinic")
    score = surface.score(LAMS.index(clinic.lam))
    tpr, fpr = (f(surface.y, score, clinic.threshold) for f in (RECALL, FPR))
    axes = render(precision_recall_figure(surface, [*points, clinic]))
    np.testing.assert_allclose(marked(axes, "clinic"), [tpr, 0.01 * tpr / (0.01 * tpr + 0.99 * fpr)])
    assert any(label.startswith("clinic") and label.endswith("at prevalence 1 %") for label in lines(axes))
    figure = decision_curve_figure(surface, [*points, clinic])
    render(figure)
    own, moved = figure.axes
    assert moved.get_title(loc="left") == "Decision curve, at prevalence 1 %"
    assert "clinic" not in lines(own)
    probability = clinic.probability(score)
    for p, benefit in lines(moved)["clinic"][20::40]:
        rates = (probability[surface.labels] > p).mean(), (probability[~surface.labels] > p).mean()
        assert benefit == pytest.approx(0.01 * rates[0] - 0.99 * rates[1] * p / (1 - p))
    p, everyone = lines(moved)["act on everyone"].T
    np.testing.assert_allclose(everyone, 0.01 - 0.99 * p / (1 - p))
    bars = reliability_figure(surface, [clinic]).axes[0].containers[0]
    x, y = bars.lines[0].get_xydata().T
    assert y.max() < 0.3
    np.testing.assert_allclose(x[-1], y[-1], rtol=0.5)


def test_coinciding_points_are_told_apart(surface, points):
    twins = [points[0], dataclasses.replace(points[0], name="twin")]
    for axes in (render(precision_recall_figure(surface, twins)), render(heat_map_figure(surface, "auc", twins))):
        marks = [line for line in axes.get_lines() if line.get_label().startswith(("balance:", "twin:"))]
        seen = [line.get_transform().transform(line.get_xydata())[0] for line in marks]
        assert abs(seen[0][0] - seen[1][0]) > 15  # pixels
        np.testing.assert_allclose(marks[0].get_xydata(), marks[1].get_xydata())
    assert "balance, twin" in lines(render(decision_curve_figure(surface, twins)))
    labels = [bars.get_label() for bars in render(reliability_figure(surface, twins)).containers]
    assert labels == ["balance, twin"]


def test_a_certificate_is_a_box_that_holds_on_pr_and_roc():
    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], [200, 2000])
    dial = Dial(y, rng.standard_normal(y.size) + 2 * y)
    point = dial.tune(maximize="precision", subject_to={"recall": 0.9}, confidence=0.95)
    plain = dial.tune(maximize="f1", name="plain")
    boxes = {}
    for name, draw in (("pr", precision_recall_figure), ("roc", roc_figure)):
        (box,) = draw(dial.surface, [point, plain]).axes[0].patches
        boxes[name] = (*box.get_xy(), box.get_x() + box.get_width(), box.get_y() + box.get_height())
    recall, fpr = point.certificate.recall, point.certificate.fpr
    share = dial.surface.prevalence
    assert boxes["roc"] == pytest.approx((0, recall, fpr, 1))
    assert boxes["pr"] == pytest.approx((recall, share * recall / (share * recall + (1 - share) * fpr), 1, 1))


def test_the_band_of_the_reliability_curve_covers_all_bins_at_once():
    """The probabilities are right here: some bin leaves the band in 5 % of draws, more than 12 of 100 in 1 of 1,000."""
    left = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        score = rng.normal(-1.5, 1.5, 800)
        dial = Dial((rng.random(800) < 1 / (1 + np.exp(-score))).astype(int), score)
        point = OperatingPoint("p", {}, 0.0, "untuned", {}, 0, 0)
        axes = reliability_figure(dial.surface, [point]).axes[0]
        (band,) = [c for c in axes.collections if c.get_paths() and c.get_alpha() == 0.13]
        vertices = band.get_paths()[0].vertices
        line = next(line for line in axes.lines if line.get_marker() == "o")
        for x in line.get_xdata():
            ends = vertices[np.isclose(vertices[:, 0], x), 1]
            if not ends.min() <= x <= ends.max():  # the mean probability is, to a hair, the true share
                left += 1
                break
    assert left <= 12


def test_the_reliability_plot_uses_its_space():
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.005).astype(int)
    dial = Dial(y, rng.normal(size=y.size) + 2.5 * y - 6)
    axes = reliability_figure(dial.surface, [dial.tune(maximize="f1")]).axes[0]
    x = axes.containers[0].lines[0].get_xydata()[:, 0]
    placed = (axes.transData.transform(np.c_[x, x])[:, 0] - axes.bbox.x0) / axes.bbox.width
    assert np.mean(x / axes.get_xlim()[1] > 0.1) <= 0.2  # where the bins would be on plain axes
    assert np.mean(placed > 0.1) >= 0.4


def test_reasons_are_drawn_for_a_row_and_for_many():
    columns = [f"c{i} $" for i in range(20)]
    each = np.linspace(-1, 1, 40).reshape(2, 20) ** 3
    one, many = (render(contributions_figure(columns, rows, "rows")) for rows in (each[:1], each))
    largest = np.argsort(-np.abs(each[0]), kind="stable")
    widths = [bar.get_width() for bar in one.patches]
    assert widths[:15] == pytest.approx(each[0][largest[:15]])
    assert sum(widths) == pytest.approx(each[0].sum())
    assert one.get_yticklabels()[-1].get_text() == "5 others"
    assert one.get_title(loc="left") == "rows"
    assert sum(bar.get_width() for bar in many.patches) == pytest.approx(np.abs(each).mean(0).sum())
    assert "mean absolute" in many.get_xlabel()
