"""One file that shows a dial: open it from a disk, send it by mail; it asks no network for anything."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lossdial.base.files import write
from lossdial.dial.dial import Dial
from lossdial.dial.points import OperatingPoint
from lossdial.explorer import assets
from lossdial.explorer.images import require_images
from lossdial.explorer.payload import labelled_payload, unlabelled_payload
from lossdial.explorer.unlabelled import Unlabelled


@dataclass(frozen=True)
class Page:
    """A page as text. In a notebook it shows itself; `write` makes a file of it."""

    html: str
    title: str
    path: Path | None = None

    def write(self, path: str | Path) -> Path:
        """Write the page as one file, whole or not at all."""
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
        return f"Page({self.title!r}, {len(self.html.encode()) / 1000:,.0f} kB, path={self.path})"


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
    """A page on which people move λ, threshold, prevalence and costs, and see what it costs them.

    It shows the dial's own points and `points`; `classes` are the names of the negative and the positive class,
    and `noun` is what the rows are (people, payments). With
    `images`, one picture per sample (arrays, PIL images or paths), it shows the false alarms with the highest scores
    and the positives with the lowest; those thumbnails are then in the file. With a `path` the page is written there.
    A point with two cuts (of `Dial.refer`) is shown with what it clears, refers and acts on.
    Of `Unlabelled` scores it shows the alerts that every threshold raises.

    >>> page = explore(Dial([0, 0, 1, 0, 1] * 30, [-2.0, -1.0, 1.0, 0.5, 2.0] * 30), title="Fraud")
    >>> page.html.startswith("<!doctype html>")
    True
    """
    if not isinstance(dial, Dial | Unlabelled):
        raise ValueError(
            f"dial must be a Dial (labels and scores), or Unlabelled scores; got {type(dial).__name__}. "
            "Use Dial.of(classifier, X, y) for a fitted classifier."
        )
    names = tuple(str(name) for name in classes)
    if len(names) != 2:
        raise ValueError(f"classes must be two names, of the negative and the positive class; got {classes!r}.")
    given = points.values() if isinstance(points, Mapping) else points
    if isinstance(dial, Unlabelled):
        if images is not None:
            raise ValueError("images show false alarms and misses, which need labels; leave them out, or give a Dial.")
        content = unlabelled_payload(dial, _distinct(given))
    else:
        if images is not None:
            require_images(images, dial.y.size)
        content = labelled_payload(dial, _distinct([*dial.points.values(), *given]), images)
    page = Page(
        _fill({**content, "title": str(title), "classes": list(names), "noun": str(noun)}, str(title)), str(title)
    )
    return page if path is None else Page(page.html, page.title, page.write(path))


def _distinct(points: Any) -> list[OperatingPoint]:
    """Of points that share a name, the last."""
    return list({point.name: point for point in points}.values())


def _fill(content: Mapping[str, Any], title: str) -> str:
    script, style = assets.script(), assets.style()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "script": script,
        "payload": as_script_data(content),
    }
    # In one pass: what is filled in is not looked at again, whatever it holds.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], assets.text("page.html"))


def as_script_data(content: Mapping[str, Any]) -> str:
    """JSON that may stand in a script element: no tag, comment or line end of its own can be read into it.

    >>> as_script_data({"name": "</script><b>"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}'
    """
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
