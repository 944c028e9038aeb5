import io
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from lossdial.dial.plots.canvas import VERMILION
from lossdial_studies import method
from lossdial_studies.heat_maps import draw_heat_maps, lam_text, nested, space_text

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


def test_one_panel_of_one_value_is_a_picture_too() -> None:
    figure = draw_heat_maps(means("vs", (5,)), ["vs"], "auc", "")
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    assert figure.axes[0].get_title(loc="left").endswith("γ = 0.1, τ = 1")


def test_names_read_as_in_the_paper() -> None:
    assert lam_text({"gamma": math.nan, "tau": math.nan, "alpha": 0.25, "phi": 2.0}) == "α = 0.25, φ = 2"
    assert space_text(method("focal+lct").spaces()[-1]) == "α ~ L(0.1, 0.9, 1.25), φ ~ L(1, 4, 0.33)"
