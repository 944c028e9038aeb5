import base64
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from lossdial.base.errors import InputError
from lossdial.dial import Dial
from lossdial.explorer import POINTS_FORMAT as FORMAT
from lossdial.explorer import Unlabelled, explore, read_points
from lossdial.explorer import page as page_module
from tests.explorer.conftest import dial_of


def payload(html: str) -> dict[str, object]:
    (content,) = re.findall(r'<script type="application/json" id="payload">(.*?)</script>', html, re.DOTALL)
    return dict(json.loads(content))


def test_the_policy_allows_its_own_script_and_nothing_else() -> None:
    html = explore(dial_of()).html
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for rule, tag in (("script-src", "script"), ("style-src", "style")):
        (source,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", html)


def test_it_is_written_whole_and_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    page = explore(dial_of(), tmp_path / "deep" / "page.html", title='A "quoted" title')
    assert page.path.read_text() == page.html
    assert [path.name for path in page.path.parent.iterdir()] == ["page.html"]
    frame = page._repr_html_()
    assert frame.startswith('<iframe title="Explorer: A &quot;quoted&quot; title" srcdoc="&lt;!doctype html&gt;')
    assert 'sandbox="allow-scripts allow-downloads"' in frame
    assert "kB" in repr(page)


def test_points_are_there_once_and_the_evidence_changes_with_the_data() -> None:
    dial = dial_of()
    points = {name: dial.tune(maximize=f, name=name) for name, f in (("one", "f1"), ("two", "balanced_accuracy"))}
    assert [each["point"]["name"] for each in payload(explore(dial, points=points).html)["points"]] == ["one", "two"]
    pages = [payload(explore(dial_of(seed=seed)).html)["evidence"] for seed in (0, 0, 1)]
    assert pages[0] == pages[1] != pages[2]


def test_bad_input_is_named() -> None:
    dial, unlabelled, scores = dial_of(), Unlabelled([1.0, 2.0]), np.arange(10.0)
    elsewhere = dial.tune(maximize="f1", name="elsewhere")
    scores[3] = np.nan
    for call, argument, got in (
        (lambda: explore(np.zeros(3)), "dial", "'ndarray'"),
        (lambda: explore(dial, classes=("a",)), "classes", "('a',)"),
        (lambda: explore(dial, images=[1, 2, 3]), "images", "3"),
        (lambda: explore(dial, images=7), "images", "'int'"),
        (lambda: explore(unlabelled, images=[1, 2]), "images", None),
        (lambda: explore(unlabelled, points=[elsewhere]), "points", None),
        (lambda: Unlabelled([1.0, 2.0, 3.0], [{"a": 0}, {"a": 1}]), "scores", "(3,)"),
        (lambda: Unlabelled([]), "scores", "(0,)"),
        (lambda: Unlabelled(np.zeros((3, 2)), [{"a": 0}, {"b": 1}]), "lams", "[('a',), ('b',)]"),
    ):
        with pytest.raises(InputError) as raised:
            call()
        assert (raised.value.argument, raised.value.got) == (argument, got)
    for call in (lambda: explore(Dial([0, 1] * 5, scores)), lambda: explore(Unlabelled(scores))):
        with pytest.raises(ValueError, match=r"score must be finite.*sample 3"):
            call()


def test_it_loads_no_torch() -> None:
    heavy = ("torch", "pandas", "sklearn", "matplotlib", "PIL")
    code = f"import sys, lossdial.explorer; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_points_come_back_and_none_is_certified_by_that(tmp_path: Path) -> None:
    point, path = dial_of().tune(maximize="precision", subject_to={"recall": 0.5}, confidence=0.8), tmp_path / "p.json"
    path.write_text(json.dumps({"format": FORMAT, "points": [point.to_json()]}))
    (read,) = read_points(path)
    assert read.to_json() == point.to_json() | {"certificate": None} != point.to_json()
    for content, message in (
        ("", "does not hold points"),
        ("[]", "does not hold points"),
        ("{}", "'format'"),
        ('{"format": "lossdial points 7", "points": []}', "its format is 'lossdial points 7'"),
        (json.dumps({"format": FORMAT, "points": [{"name": "a"}]}), "does not hold points"),
        (json.dumps({"format": FORMAT, "points": 3}), "does not hold points"),
        (json.dumps({"format": FORMAT, "points": [point.to_json()] * 2}), "the name 'default' twice"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            read_points(path)


STATIC = files("lossdial.explorer") / "static"
MODULES = sorted(path.name for path in (STATIC / "js").iterdir())


def test_no_name_is_declared_twice() -> None:
    source = page_module.joined_modules("main")
    declared = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", source, re.MULTILINE)
    for names in re.findall(r"^const \[([^\]]+)\] =", source, re.MULTILINE):
        declared += names.split(", ")
    assert len(declared) > 100
    assert [name for name, count in Counter(declared).items() if count > 1] == []


FORBIDDEN = (
    "innerHTML outerHTML insertAdjacentHTML document.write eval( fetch( XMLHttpRequest WebSocket http:// https://"
)


def test_every_module_is_in_the_page_which_neither_writes_markup_nor_asks_a_network() -> None:
    script, style = page_module.script_and_style()
    for name in MODULES:
        comment = page_module._text(f"js/{name}").split("\n", 1)[0]
        assert comment.startswith("// "), name
        assert comment in script, f"{name} is imported by none"
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    sources = script + style + page_module._text("page.html")
    sources = sources.replace('"http://www.w3.org/2000/svg"', "")  # a name, not an address
    assert [word for word in FORBIDDEN.split() if word in sources] == []
