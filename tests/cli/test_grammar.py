"""What is typed becomes the values of a signature, or a mistake that names the option."""

import shlex
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossdial.base.errors import InputError
from lossdial.cli.commands import REQUIRED, Option, commands
from lossdial.cli.grammar import convert, parse

PLACE = "--data a.csv --out o"


def values(line: str) -> dict[str, Any]:
    name, *words = shlex.split(line)
    given = parse(commands()[name], words)
    assert given is not None
    return given


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tune --maximize f1 RUN", {"run": "RUN", "maximize": "f1"}),
        ("tune --name=--odd", {"name": "--odd"}),
        ("tune --calibration none", {"calibration": None}),
        ("tune --subject-to recall=0.9,fpr=0.2", {"subject_to": {"recall": 0.9, "fpr": 0.2}}),
        ("tune --subject-to recall=0.9 --subject-to fpr=0.2", {"subject_to": {"recall": 0.9, "fpr": 0.2}}),
        ("data --root d fetch cifar10", {"action": "fetch", "name": "cifar10", "root": "d"}),
        ("results --failed --limit 3 --limit 4", {"failed": True, "limit": 4}),
        (f"train {PLACE} --drop A --drop B,C", {"data": "a.csv", "out": "o", "drop": ["A", "B", "C"]}),
        ("train --data - --out=--o --beta -3 --target a=b", {"data": "-", "out": "--o", "beta": -3, "target": "a=b"}),
    ],
)
def test_what_is_typed_is_what_is_called(line: str, expected: dict[str, Any]) -> None:
    assert values(line) == expected


def test_the_commands_of_the_documentation_are_understood() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    blocks = [block for page in pages for block in page.read_text(encoding="utf-8").split("```")[1::2]]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("lossdial ")]
    assert len(lines) > 30
    for line in lines:
        _, name, *words = shlex.split(line, comments=True)
        parse(commands()[name], words)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train", "--data and --out are needed."),
        ("train --data a.csv", "--out is needed: the folder to write."),
        ("points", "RUN is needed: the folder that `lossdial train` wrote."),
        ("train a.csv", "'a.csv' is a word too many; options are given by name, as in --data a.csv."),
        ("train --out", "--out needs a value."),
        ("train --out --epochs 3", "--out needs a value."),
        ("results --failed=true", "--failed takes no value."),
        ("train --otu o", "no option is called --otu; did you mean --out?"),
        ("tune --subjct-to=recall", "no option is called --subjct-to; did you mean --subject-to?"),
        ("tune --zzzz", "no option is called --zzzz; `lossdial tune --help` lists the options."),
        ("tune -m f1", "no option is called -m; `lossdial tune --help` lists the options."),
        ("data lst", "ACTION must be one of list, fetch; got 'lst'."),
    ],
)
def test_a_mistake_is_told_in_the_command_s_own_words(line: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        values(line)
    assert str(raised.value) == message


def converted(words: list[str], kind: Any) -> Any:
    return convert(words, Option("x", kind, REQUIRED, ""))


@pytest.mark.parametrize(
    ("words", "kind", "value"),
    [
        (["7"], int, 7),
        (["1e-3"], float | None, 0.001),
        (["vs"], Literal["vs", "focal"], "vs"),
        (['"A,B"', "C, D"], list[str], ["A,B", "C", "D"]),
        (['"say ""so"""'], list[str] | None, ['say "so"']),
        ([""], list[int], []),
        (["tau=0,3,0.333", "gamma=0"], dict[str, list[float]], {"tau": [0, 3, 0.333], "gamma": [0]}),
        (["tau=0,3,0.333,gamma=0"], dict[str, list[float]] | None, {"tau": [0, 3, 0.333], "gamma": [0]}),
        (["precision@0.5=0.1"], dict[str, float], {"precision@0.5": 0.1}),
        (["none"], float | None, None),
        (["none"], str | None, "none"),
    ],
)
def test_text_becomes_what_the_signature_says(words: list[str], kind: Any, value: Any) -> None:
    assert converted(words, kind) == value


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        ("x", int, "--x must be a whole number; got 'x'."),
        ("1.5", int | None, "--x must be a whole number; got '1.5'."),
        ("1,x", list[float], "--x must be a number; got 'x'."),
        ("v", Literal["vs", "focal"], "--x must be one of vs, focal; got 'v'."),
        ("recall", dict[str, float], "--x takes names with values, as in --x recall=0.9; got 'recall'."),
        ("=3", dict[str, list[float]], "--x takes names with values, as in --x tau=0,3,0.333; got '=3'."),
        ("recall=a", dict[str, float], "--x recall must be a number; got 'a'."),
        ("tau=1,tau=2", dict[str, float], "--x names tau twice; got 'tau=2'. Give it once."),
        ('"A', list[str], "Quote an item with a comma in it: '"),
    ],
)
def test_a_wrong_value_names_the_option(word: str, kind: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        converted([word], kind)
    assert message in str(raised.value)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)))
def test_quoted_lists_come_back(items: list[str]) -> None:
    """What any program writes as a line of CSV is read as that list."""
    typed = ",".join('"' + item.replace('"', '""') + '"' for item in items)
    assert converted([typed], list[str]) == items
