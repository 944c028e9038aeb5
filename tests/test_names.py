"""One word for one thing: names in the code are those of docs/notation.md, and no two public classes share one."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
NOTATION = (Path(__file__).parents[1] / "docs" / "notation.md").read_text(encoding="utf-8")
FILES = sorted(SOURCE.rglob("*.py"))
#: words that another stands for, as docs/notation.md lists them
REFUSED = {
    word.strip("`* ")
    for row in re.findall(r"^\| \*(?:[^|]+)\* \| ([^|]+) \|", NOTATION, re.MULTILINE)
    for word in row.split(",")
}


def public_names() -> Iterator[tuple[str, str]]:
    """Every public name and where it stands: modules, classes, functions, and their parameters."""
    for path in FILES:
        place = str(path.relative_to(SOURCE))
        yield path.stem, place
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                yield node.name, place
                if isinstance(node, ast.FunctionDef):
                    arguments = node.args
                    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                        yield argument.arg, f"{place}, {node.name}"


def words_of(name: str) -> set[str]:
    """The words of a name, lower case: of `PriceOffer` and `price_offer` price and offer."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def test_no_name_has_a_word_that_another_stands_for():
    assert {"aim", "promise", "watch"} <= REFUSED
    assert sorted({f"{name} ({place})" for name, place in public_names() if words_of(name) & REFUSED}) == []


def test_no_two_public_classes_share_a_name():
    classes = Counter(
        node.name
        for path in FILES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in classes.items() if count > 1] == []
