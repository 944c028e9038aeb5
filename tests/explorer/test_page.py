import base64
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lossdial.dial import Dial
from lossdial.explorer import Unlabelled, explore
from lossdial.explorer.page import as_script_data

NASTY = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> & \u2028 {{script}}"


def payload(html: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return dict(json.loads(found.group(1)))


def test_an_empty_page_is_small() -> None:
    assert len(explore(Dial([0, 1], [0.0, 1.0])).html.encode()) < 300_000


def test_the_policy_allows_its_own_script_and_nothing_else(make_dial: Callable[..., Dial]) -> None:
    html = explore(make_dial()).html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert policy is not None
    assert script is not None
    assert style is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.group(1).split(";"))
    assert rules["default-src"] == "'none'"
    for rule, found in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(found.group(1).encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", html)


def test_names_cannot_become_markup() -> None:
    dial = Dial([0, 1, 0, 1] * 20, np.zeros((80, 2)) + np.arange(80)[:, None], [{NASTY: 0.0}, {NASTY: 1.0}])
    dial.tune(maximize="f1", name=NASTY)
    html = explore(dial, title=NASTY, classes=(NASTY, NASTY), noun=NASTY).html
    assert html.count("<script") == 2
    assert html.count("</script>") == 2
    assert "<img" not in html
    found = payload(html)
    assert found["title"] == found["noun"] == NASTY
    assert found["names"] == [NASTY]


def test_script_data_is_json() -> None:
    content = {"a": [NASTY, 1.5e-300, None]}
    text = as_script_data(content)
    assert json.loads(text) == content
    assert not set("<>&\u2028") & set(text)


def test_it_is_written_whole_and_shows_itself_in_a_notebook(tmp_path: Path, make_dial: Callable[..., Dial]) -> None:
    page = explore(make_dial(), tmp_path / "deep" / "page.html", title='A "quoted" title')
    assert page.path is not None
    assert page.path.read_text() == page.html
    assert [path.name for path in page.path.parent.iterdir()] == ["page.html"]
    frame = page._repr_html_()
    assert frame.startswith('<iframe title="Explorer: A &quot;quoted&quot; title" srcdoc="&lt;!doctype html&gt;')
    assert 'sandbox="allow-scripts allow-downloads"' in frame
    assert "kB" in repr(page)


def test_the_dials_points_and_given_ones_are_there_once(make_dial: Callable[..., Dial]) -> None:
    dial = make_dial()
    first = dial.tune(maximize="f1", name="one")
    other = dial.tune(maximize="balanced_accuracy", name="two")
    found = payload(explore(dial, points={"one": first, "two": other}).html)
    assert [each["point"]["name"] for each in found["points"]] == ["one", "two"]  # type: ignore[attr-defined]


def test_bad_input_is_named(make_dial: Callable[..., Dial]) -> None:
    with pytest.raises(ValueError, match=r"dial must be a Dial.*got ndarray.*Dial.of"):
        explore(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="classes must be two names"):
        explore(make_dial(), classes=("a",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one picture for each of the 400 samples; got 3"):
        explore(make_dial(), images=[1, 2, 3])
    with pytest.raises(ValueError, match="need labels"):
        explore(Unlabelled([1.0, 2.0]), images=[1, 2])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_named(bad: float) -> None:
    scores = np.arange(10.0)
    scores[3] = bad
    with pytest.raises(ValueError, match=r"score must be finite.*sample 3"):
        explore(Dial([0, 1] * 5, scores))
    with pytest.raises(ValueError, match=r"score must be finite.*sample 3"):
        explore(Unlabelled(scores))


def test_unlabelled_scores_must_fit_their_lams() -> None:
    with pytest.raises(ValueError, match=r"each of the 2 lams.*got \(3,\)"):
        Unlabelled([1.0, 2.0, 3.0], [{"a": 0}, {"a": 1}])
    with pytest.raises(ValueError, match="same names"):
        Unlabelled(np.zeros((3, 2)), [{"a": 0}, {"b": 1}])
    with pytest.raises(ValueError, match="n > 0"):
        Unlabelled([])


def test_a_point_whose_lam_the_unlabelled_scores_lack_is_refused(make_dial: Callable[..., Dial]) -> None:
    point = make_dial().tune(maximize="f1", name="elsewhere")
    with pytest.raises(ValueError, match="point 'elsewhere' has λ"):
        explore(Unlabelled([1.0, 2.0]), points=[point])


def test_evidence_changes_with_the_data(make_dial: Callable[..., Dial]) -> None:
    pages = [payload(explore(make_dial(seed=seed)).html)["evidence"] for seed in (0, 0, 1)]
    assert pages[0] == pages[1] != pages[2]


def test_it_loads_no_torch() -> None:
    heavy = ("torch", "pandas", "sklearn", "matplotlib", "PIL")
    code = f"import sys, lossdial.explorer; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
