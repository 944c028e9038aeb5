"""The page's parts, small files to read and test, as the one script and the one style sheet of a page."""

import re
from functools import cache
from importlib.resources import files

_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) )", re.MULTILINE)


def text(name: str) -> str:
    """A file of `static/`."""
    return (files("lossdial.explorer") / "static" / name).read_text(encoding="utf-8")


@cache
def bundle(entry: str) -> str:
    """The module `static/js/<entry>.js` and all that it needs as plain declarations, each after those it imports.

    They are ordinary modules, which a browser or Node loads as they are; here their imports and exports are left out,
    which suffices because no two of them declare the same name (a test sees to it).
    """
    done: dict[str, str] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"modules import each other in a circle: {' -> '.join((*path, name))}.")
        if name in done:
            return
        source = text(f"js/{name}.js")
        for needed in _IMPORT.findall(source):
            visit(needed, (*path, name))
        done[name] = _EXPORT.sub("", _IMPORT.sub("", source)).strip()

    visit(entry, ())
    return "\n\n".join(done.values())


@cache
def script() -> str:
    """The page's script."""
    return f'(() => {{\n"use strict";\n{bundle("main")}\n}})();\n'


@cache
def style() -> str:
    """The style sheets, in order."""
    return "\n".join(text(f"css/{name}.css") for name in ("tokens", "layout", "charts"))
