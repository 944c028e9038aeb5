"""One file that shows a dial, and the points that people save on it. It opens from a disk and needs no network."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lossdial.base.errors import InputError
from lossdial.base.files import write
from lossdial.dial.dial import Dial
from lossdial.dial.points import OperatingPoint
from lossdial.explorer.images import require_images
from lossdial.explorer.payload import FORMAT, Unlabelled, labelled_payload, unlabelled_payload

_REMEDY = "Save it again from the page (Save points)."


@dataclass(frozen=True)
class Page:
    """A page as text; a notebook shows it.

    Parameters
    ----------
    html : str
        The whole page.
    title : str
        What it is called.
    path : Path, optional
        Where it was written.

    Examples
    --------
    >>> explore(Dial([0, 0, 1] * 50, [-1.0, 0.0, 1.0] * 50), title="Fraud").title
    'Fraud'
    """

    html: str
    title: str
    path: Path | None = None

    def write(self, path: str | Path) -> Path:
        """Write the page as one file, whole or not at all; where it is."""
        write(Path(path), self.html)
        return Path(path)

    def _repr_html_(self) -> str:
        source = html.escape(self.html, quote=True)
        name = html.escape(f"Explorer: {self.title}", quote=True)
        return (
            f'<iframe title="{name}" srcdoc="{source}" sandbox="allow-scripts allow-downloads" '
            'style="width: 100%; height: 860px; border: 1px solid #8884; border-radius: 8px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Page({self.title!r}, {len(self.html) / 1000:,.0f} kB, path={self.path})"


def explore(
    dial: Dial | Unlabelled,
    path: str | Path | None = None,
    *,
    points: Sequence[OperatingPoint] | Mapping[str, OperatingPoint] = (),
    title: str = "Operating points",
    classes: tuple[str, str] = ("negative", "positive"),
    noun: str = "people",
    images: Any = None,
) -> Page:
    """A page on which people move λ, threshold, prevalence and costs, and see what follows.

    Parameters
    ----------
    dial : Dial or Unlabelled
        Labels and scores. Of scores alone, the page shows the alerts that every threshold raises.
    path : str or Path, optional
        Where to write the page.
    points : sequence or mapping of OperatingPoint
        Points to show besides the dial's own. One with two cuts (of `Dial.refer`) is shown with what it clears, refers
        and acts on.
    title : str
        What the page is called.
    classes : tuple of str
        The names of the negative and of the positive class.
    noun : str
        What a row is, in the page's sentences ("people", "payments").
    images : sequence, optional
        One picture for each sample (arrays, PIL images or paths). Thumbnails of the false alarms with the highest
        scores and of the missed positives with the lowest are then in the file.

    Returns
    -------
    Page

    Examples
    --------
    >>> page = explore(Dial([0, 0, 1, 0, 1] * 30, [-2.0, -1.0, 1.0, 0.5, 2.0] * 30), title="Fraud")
    >>> page.html.startswith("<!doctype html>")
    True
    """
    if not isinstance(dial, Dial | Unlabelled):
        remedy = "Use Dial.of(classifier, X, y) for a fitted classifier."
        problem = "must be a Dial (labels and scores), or Unlabelled scores"
        raise InputError("dial", problem, got=type(dial).__name__, remedy=remedy)
    names = [str(name) for name in classes]
    if len(names) != 2:
        raise InputError("classes", "must be two names, of the negative and the positive class", got=classes)
    own = {} if isinstance(dial, Unlabelled) else dial.points
    others = points.values() if isinstance(points, Mapping) else points
    shown = [*{point.name: point for point in (*own.values(), *others)}.values()]  # of equal names the last
    if isinstance(dial, Unlabelled):
        if images is not None:
            raise InputError("images", "show false alarms and misses, which need labels", remedy="Give a Dial.")
        content = unlabelled_payload(dial, shown)
    else:
        if images is not None:
            require_images(images, dial.y.size)
        content = labelled_payload(dial, shown, images)
    content |= {"title": str(title), "classes": names, "noun": str(noun)}
    page = Page(_filled(content, str(title)), str(title))
    return page if path is None else replace(page, path=page.write(path))


def read_points(path: str | Path) -> tuple[OperatingPoint, ...]:
    """The points that a page saved. They are somebody's choice on the page's data, so none is certified.

    Parameters
    ----------
    path : str or Path
        The file that "Save points" wrote.

    Returns
    -------
    tuple of OperatingPoint

    Raises
    ------
    ValueError
        Where the file holds something else.

    Examples
    --------
    >>> read_points("points.json")  # doctest: +SKIP
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} does not hold points of an explorer page ({error}). {_REMEDY}") from error
    return points_from(content, str(path))


def points_from(content: Any, path: str) -> tuple[OperatingPoint, ...]:
    """The points in the content of such a file, none of them certified; errors call it `path`."""
    if isinstance(content, dict) and "score" in content and "format" not in content:
        raise ValueError(
            f"{path} holds what `lossdial tune --scores` chose for another model's scores, and no point of this one; "
            f"`lossdial serve RUN --points {path}` decides by it."
        )
    try:
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        points = [replace(OperatingPoint.from_json(data), certificate=None) for data in content["points"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} does not hold points of an explorer page ({error}). {_REMEDY}") from error
    names = [point.name for point in points]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{path} has the name {doubled[0]!r} twice; give every point a name of its own.")
    return tuple(points)


_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) )", re.MULTILINE)


def _text(name: str) -> str:
    """A file of `static/`."""
    return (files("lossdial.explorer") / "static" / name).read_text(encoding="utf-8")


@cache
def joined_modules(entry: str) -> str:
    """The module `static/js/<entry>.js` and all that it imports, as plain declarations, each after those it needs.

    They are ordinary modules. Here their imports and exports are left out, which suffices because no two of them
    declare the same name (a test checks it).
    """
    done: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        source = _text(f"js/{name}.js")
        for needed in _IMPORT.findall(source):
            visit(needed)
        done[name] = _EXPORT.sub("", _IMPORT.sub("", source)).strip()

    visit(entry)
    return "\n\n".join(done.values())


@cache
def script_and_style() -> tuple[str, str]:
    """The page's script, and its style sheets in order."""
    style = "\n".join(_text(f"css/{name}.css") for name in ("tokens", "layout", "charts"))
    return f'(() => {{\n"use strict";\n{joined_modules("main")}\n}})();\n', style


def _filled(content: Mapping[str, Any], title: str) -> str:
    script, style = script_and_style()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"policy": policy, "title": html.escape(title), "style": style, "script": script}
    parts["payload"] = as_script_data(content)
    # In one pass: what is filled in is not looked at again, whatever it holds.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], _text("page.html"))


def as_script_data(content: Mapping[str, Any]) -> str:
    """JSON that may stand in a script element: no tag, comment or line end of its own can be read into it.

    >>> as_script_data({"name": "</script><b>"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}'
    """
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
