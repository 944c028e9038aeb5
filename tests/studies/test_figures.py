import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from lossdial.dial.plots.canvas import ORANGE, VERMILION
from lossdial_studies.figures import (
    FIGURES,
    density_figure,
    draw_heat_maps,
    drawable,
    heat_map_figure,
    make_figure,
    nested,
    precision_figure,
    save_figure,
)
from lossdial_studies.methods import method
from lossdial_studies.protocols import RECALLS

PRECISIONS = [f"precision_at_recall@{recall:g}" for recall in RECALLS]
METRICS = ["auc", "average_precision", "brier", "max_f1", *PRECISIONS]


def results(*names: str, seeds: int = 2, settings: tuple[int, ...] = tuple(range(16))) -> pd.DataFrame:
    """Rows as a runner writes them, their metrics random."""
    rng = np.random.default_rng(0)
    rows = []
    for name in names:
        for setting in settings:
            for lam in method(name).evaluation(method(name).spaces()[setting]):
                for seed in range(seeds):
                    lams = {"gamma": np.nan, "tau": np.nan, "alpha": np.nan, "phi": np.nan} | lam.as_dict()
                    study = {"data": "cifar10-auto-truck", "beta": 100.0, "preset": "cpu", "epochs": 20}
                    metrics = dict(zip(METRICS, rng.uniform(0.1, 0.9, len(METRICS)), strict=True))
                    run = {"key": f"{name}-{setting}-{seed}", "method": name, "setting": setting, "seed": seed}
                    rows.append(run | study | lams | metrics)
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return results("vs", "vs+lct", "focal", "focal+lct")


def render(figure: Figure) -> Figure:
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    return figure


def naive_mean(rows: list[dict[str, object]], metric: str, **where: object) -> float:
    values = [row[metric] for row in rows if all(row[key] == value for key, value in where.items())]
    return sum(values) / len(values)


@pytest.mark.parametrize(("panel", "loss"), [(0, "vs"), (1, "focal")])
def test_the_baselines_drawn_are_those_that_lead_at_some_recall(frame: pd.DataFrame, panel: int, loss: str) -> None:
    axes = render(precision_figure(frame)).axes[panel]
    *baselines, lct = axes.get_lines()
    rows = frame.to_dict("records")
    curves = [[naive_mean(rows, m, method=loss, setting=s) for m in PRECISIONS] for s in range(16)]
    leaders = set()
    for k in range(len(RECALLS)):
        best = 0
        for setting in range(16):
            if curves[setting][k] > curves[best][k]:
                best = setting
        leaders.add(best)
    assert 1 < len(leaders) < 16
    np.testing.assert_allclose([line.get_ydata() for line in baselines], [curves[s] for s in sorted(leaders)])
    first = method(loss).spaces()[min(leaders)].point().as_dict()
    label = ", ".join(
        f"{greek} = {v:g}" for greek, v in zip("γτ" if loss == "vs" else "αφ", first.values(), strict=True)
    )
    assert baselines[0].get_label().endswith(label)
    assert to_hex(lct.get_color()) == VERMILION.lower()
    assert lct.get_linewidth() > 2 * baselines[0].get_linewidth()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [f"{recall:g}" for recall in RECALLS]


def test_the_lct_model_is_the_setting_and_lam_of_the_best_mean_average_precision(frame: pd.DataFrame) -> None:
    rows = frame.to_dict("records")
    best, where = 0.0, {}
    for setting in range(16):
        for gamma in (0.0, 0.1, 0.2, 0.3):
            for tau in (0.0, 1.0, 2.0, 3.0, 4.0):
                place = {"method": "vs+lct", "setting": setting, "gamma": gamma, "tau": tau}
                mean = naive_mean(rows, "average_precision", **place)
                if mean > best:
                    best, where = mean, place
    axes = precision_figure(frame).axes[0]
    lct = axes.get_lines()[-1]
    np.testing.assert_allclose(lct.get_ydata(), [naive_mean(rows, m, **where) for m in PRECISIONS])
    assert lct.get_label() == f"VS + LCT, γ = {where['gamma']:g}, τ = {where['tau']:g}"
    a, b, h_b = method("vs+lct").spaces()[where["setting"]].to_json()["tau"]
    assert f"τ ~ L({a:g}, {b:g}, {h_b:g})" in axes.get_title(loc="left")


def test_the_title_says_what_it_is_of(frame: pd.DataFrame) -> None:
    title = precision_figure(frame).get_suptitle()
    assert title.startswith("cifar10-auto-truck, β = 100, preset cpu, 20 epochs, mean of 2 seeds\n")
    assert "evaluation split" in title
    assert "one seed" in heat_map_figure(frame[frame["seed"] == 0]).get_suptitle()
    uneven = frame[(frame["seed"] == 0) | (frame["setting"] < 3)]
    assert "mean of 1 to 2 seeds" in heat_map_figure(uneven).get_suptitle()


@pytest.mark.parametrize(("loss", "shape", "hue", "dots"), [("vs", "gamma", "tau", 20), ("focal", "alpha", "phi", 16)])
def test_adaptability_shows_one_model_of_each_kind(
    frame: pd.DataFrame, loss: str, shape: str, hue: str, dots: int
) -> None:
    figure = render(make_figure(f"adaptability-{loss}", frame))
    rows = frame.to_dict("records")
    aucs = [naive_mean(rows, "auc", method=loss, setting=s) for s in range(16)]
    lct = frame[frame["method"] == f"{loss}+lct"].groupby(["setting", shape, hue])[METRICS].mean()
    model = lct.loc[lct["auc"].idxmax()[0]]
    for axes, metric in zip(figure.axes, ("brier", "precision_at_recall@0.99", "max_f1"), strict=True):
        *drawn, cross = axes.get_lines()
        assert len(drawn) == dots
        np.testing.assert_allclose([line.get_ydata()[0] for line in drawn], model["auc"])
        np.testing.assert_allclose([line.get_xdata()[0] for line in drawn], model[metric])
        assert cross.get_ydata()[0] == pytest.approx(max(aucs))
        assert cross.get_xdata()[0] == pytest.approx(
            naive_mean(rows, metric, method=loss, setting=int(np.argmax(aucs)))
        )
        assert (cross.get_color(), cross.get_marker()) == (ORANGE, "X")
        for looks, names in (
            ([line.get_color() for line in drawn], model.index.get_level_values(hue)),
            ([line.get_marker() for line in drawn], model.index.get_level_values(shape)),
        ):
            # One look per value, one value per look.
            assert len(set(zip(looks, names, strict=True))) == len(set(looks)) == len(set(names))
    assert figure.axes[0].get_shared_y_axes().joined(figure.axes[0], figure.axes[2])
    assert len(figure.legends[0].get_texts()) == 1 + lct.index.unique(hue).size + lct.index.unique(shape).size


def test_densities_have_unit_area_and_rise_to_one() -> None:
    figure = render(density_figure())
    assert len(figure.axes) == 8
    for density, cumulative in zip(figure.axes[:4], figure.axes[4:], strict=True):
        assert len(density.get_lines()) == len(cumulative.get_lines()) == 4
        for p, below in zip(density.get_lines(), cumulative.get_lines(), strict=True):
            x, y = p.get_xydata().T
            assert np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2) == pytest.approx(1, abs=1e-4)
            assert (below.get_ydata()[0], below.get_ydata()[-1]) == pytest.approx((0, 1))
            assert p.get_label() == below.get_label()
    assert [line.get_label() for line in figure.axes[0].get_lines()][:2] == ["L(0, 0.3, 0)", "L(0, 0.3, 3.3)"]


def test_both_files_are_written_under_another_name_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = Figure(figsize=(1, 1))
    (tmp_path / "new").mkdir()
    for name in ("a.b.png", "a.b.pdf"):
        (tmp_path / "new" / name).write_bytes(b"earlier")
    monkeypatch.setattr(figure, "savefig", lambda path, **_: path.write_bytes(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_figure(figure, tmp_path / "new" / "a.b")
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == {
        "a.b.png": b"earlier",
        "a.b.pdf": b"earlier",
    }
    monkeypatch.undo()
    png, pdf = save_figure(figure, tmp_path / "new" / "a.b")
    assert (png.name, pdf.name) == ("a.b.png", "a.b.pdf")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert len(list((tmp_path / "new").iterdir())) == 2
    assert b"CreationDate" not in pdf.read_bytes()
    save_figure(figure, tmp_path / "deeper" / "still" / "c")
    assert (tmp_path / "deeper" / "still" / "c.pdf").exists()


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "densities"])
def test_what_cannot_be_drawn_is_said(frame: pd.DataFrame, name: str) -> None:
    two = pd.concat([frame, frame.assign(beta=50.0, epochs=5)])
    with pytest.raises(ValueError, match=r"beta: 50.0, 100.0; epochs: 5, 20. Filter with --beta, --epochs"):
        make_figure(name, two)
    with pytest.raises(ValueError, match=r"this figure needs results of .*; got ridge\. Run what is missing"):
        make_figure(name, frame.assign(method="ridge"))
    with pytest.raises(ValueError, match="no results to draw"):
        make_figure(name)
    with pytest.raises(ValueError, match=r"no column precision_at_recall@0\.99|no column auc"):
        make_figure(name, frame.drop(columns=["auc", "precision_at_recall@0.99"]))
    broken = frame.copy()
    lost = (broken["seed"] == 1) & (broken["setting"] == 3) & broken["method"].isin(["vs", "focal"])
    broken.loc[lost, METRICS] = np.nan
    with pytest.raises(ValueError, match=r"missing in \d of \d+ rows, first of (vs|focal), setting 3, seed 1; run it"):
        make_figure(name, broken)


def test_a_figure_is_of_each_method_s_best_learning_rate() -> None:
    first = results("vs", "vs+lct")
    second = first.assign(setting=first["setting"] + 16)
    second.loc[second["method"] == "vs", "auc"] += 1.0
    second.loc[second["method"] == "vs+lct", "auc"] -= 1.0
    both = make_figure("heat-maps", pd.concat([first, second]))
    assert "each method at its best learning rate" in both.get_suptitle()
    values = [np.asarray(image.get_array()) for axes in both.axes for image in axes.get_images()]
    alone = [
        np.asarray(image.get_array())
        for frame in (first[first["method"] == "vs"].assign(auc=lambda f: f["auc"] + 1.0), first)
        for axes in make_figure("heat-maps", frame).axes
        for image in axes.get_images()
    ]
    assert np.allclose(values[0], alone[0])  # VS of the second rate
    assert np.allclose(values[1], alone[2])  # LCT of the first
    assert "learning rate" not in make_figure("heat-maps", first).get_suptitle()


def test_what_can_be_drawn() -> None:
    some = results("vs", "vs+lct", seeds=1, settings=(1,))
    assert {name for name in FIGURES if drawable(name, some)} == {
        "precision",
        "adaptability-vs",
        "heat-maps",
        "densities",
    }
    assert not drawable("precision", results("vs", "focal", seeds=1, settings=(1,)))


# heat maps

ALL = ("vs", "vs+lct", "vs+lct:gamma", "vs+lct:tau")
SHAPES = {"vs": (1, 1), "vs+lct": (4, 5), "vs+lct:gamma": (4, 1), "vs+lct:tau": (1, 5)}


def value(setting: int, gamma: float, tau: float) -> float:
    """A number that tells its place."""
    return 0.5 + setting / 100 + gamma / 100 + tau / 10_000


def means(name: str, settings: range | tuple[int, ...] = range(16)) -> pd.DataFrame:
    m = method(name)
    rows = [
        {"method": name, "setting": setting, **lam.as_dict(), "auc": value(setting, **lam.as_dict())}
        for setting in settings
        for lam in m.evaluation(m.spaces()[setting])
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)  # the order of rows must not matter


@pytest.mark.parametrize("name", ALL)
def test_every_value_lies_in_the_box_of_its_setting_and_the_cell_of_its_lam(name: str) -> None:
    grid = nested(pd.concat([means(n) for n in ALL]), method(name), "auc")
    assert grid.shape == (4, 4, *SHAPES[name])
    constants = {"gamma": (0, 0.1, 0.2, 0.3), "tau": (0, 1, 2, 3)}
    for (i, j, p, q), found in np.ndenumerate(grid):
        gamma = (0, 0.1, 0.2, 0.3)[p] if SHAPES[name][0] > 1 else constants["gamma"][i]
        tau = (0, 1, 2, 3, 4)[q] if SHAPES[name][1] > 1 else constants["tau"][j]
        assert found == pytest.approx(value(4 * i + j, gamma, tau), abs=1e-12)


def test_what_was_not_run_is_nan_and_float32_values_find_their_cell() -> None:
    some = means("vs+lct", (0, 7))
    some["gamma"] = some["gamma"].astype(np.float32).astype(float)
    grid = nested(some, method("vs+lct"), "auc")
    there = ~np.isnan(grid).all(axis=(2, 3))
    assert np.argwhere(there).tolist() == [[0, 0], [1, 3]]
    assert not np.isnan(grid[1, 3]).any()


def test_the_picture_has_the_values_one_scale_and_the_best_cell_outlined() -> None:
    frame = pd.concat([means("vs"), means("vs+lct", (0, 6, 7, 9)), means("vs+lct:gamma"), means("vs+lct:tau")])
    # The best of vs+lct is put where neither its setting nor its τ is the last.
    best = (frame["method"] == "vs+lct") & (frame["setting"] == 6) & (frame["gamma"] == 0.3) & (frame["tau"] == 1)
    frame.loc[best, "auc"] = 0.97
    figure = draw_heat_maps(frame, ALL, "auc", "a title")
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    panels = figure.axes[:4]
    assert len({image.get_clim() for axes in panels for image in axes.get_images()}) == 1
    assert panels[0].get_images()[0].get_clim() == (frame["auc"].min(), 0.97)
    drawn = np.ma.filled(panels[1].get_images()[0].get_array(), math.nan)
    assert drawn.shape == (16, 20)
    # Setting 6 is box row 1, column 2; γ = 0.3 is its cell row 3, τ = 1 its cell column 1.
    assert drawn[4 + 3, 10 + 1] == 0.97
    assert panels[1].get_images()[0].origin == "lower"
    outlines = [
        p for p in panels[1].patches if isinstance(p, Rectangle) and to_hex(p.get_edgecolor()) == VERMILION.lower()
    ]
    assert [outline.get_xy() for outline in outlines] == [pytest.approx((2 + 1 / 5, 1 + 3 / 4))]
    assert panels[1].get_title(loc="left") == (
        "VS + LCT: best 0.970\nγ ~ L(0, 0.3, 3.3), τ ~ L(1, 4, 0); evaluated at γ = 0.3, τ = 1"
    )
    assert panels[0].get_title(loc="left") == "VS: best 0.653\nγ = 0.3, τ = 3"
    assert len([p for p in panels[1].patches if p.get_hatch()]) == 12
    assert not [p for p in panels[0].patches if p.get_hatch()]
    ticks = [label.get_text() for label in panels[3].get_yticklabels()]
    assert ticks == ["0", "0.1", "0.2", "0.3"]
    assert [label.get_text() for label in panels[3].get_xticklabels()][1] == "L(0, 3, 0.33)"
    assert panels[0].texts[1].get_text() == f"{value(1, 0, 1):.3f}"
