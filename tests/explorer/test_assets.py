import re
from collections import Counter
from importlib.resources import files

import pytest

from lossdial.explorer import assets

STATIC = files("lossdial.explorer") / "static"
MODULES = sorted(path.name for path in (STATIC / "js").iterdir())


def test_no_name_is_declared_twice() -> None:
    declared = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", assets.bundle("main"), re.MULTILINE)
    declared += [
        name
        for names in re.findall(r"^const \[([^\]]+)\] =", assets.bundle("main"), re.MULTILINE)
        for name in names.split(", ")
    ]
    assert len(declared) > 100
    assert [name for name, count in Counter(declared).items() if count > 1] == []


def test_every_module_is_in_the_page_and_none_is_long() -> None:
    script = assets.script()
    for name in MODULES:
        source = assets.text(f"js/{name}")
        assert source.count("\n") <= 300, name
        comment = source.split("\n", 1)[0]
        assert comment.startswith("// "), name
        assert comment in script, f"{name} is imported by none"
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


@pytest.mark.parametrize(
    "word",
    [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "http://",
        "https://",
    ],
)
def test_the_page_neither_writes_markup_nor_asks_a_network(word: str) -> None:
    script = assets.script().replace('"http://www.w3.org/2000/svg"', "")  # a name, not an address
    assert word not in script + assets.style() + assets.text("page.html")


def test_a_circle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"js/a.js": 'import { b } from "./b.js";\n', "js/b.js": 'import { a } from "./a.js";\n'}
    monkeypatch.setattr(assets, "text", sources.__getitem__)
    assets.bundle.cache_clear()
    with pytest.raises(ValueError, match="a -> b -> a"):
        assets.bundle("a")
    assets.bundle.cache_clear()
