import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossdial.base.errors import InputError
from lossdial.cli.commands import Command, commands
from lossdial.cli.grammar import parse, print_config
from lossdial.cli.values import Words, as_plain, convert
from lossdial.training import Recipe, Steps

TRAIN, TUNE, RESULTS = commands()["train"], commands()["tune"], commands()["results"]
PLACE = ["--data", "a.csv", "--out", "o"]


def values(command: Command, *words: str) -> dict[str, Any]:
    return parse(command, words).values


def test_options_in_every_spelling() -> None:
    wanted = {"data": "a.csv", "out": "o", "validation_fraction": 0.25, "drop": ["A", "B"], "tensorboard": True}
    for fraction in (["--validation-fraction", "0.25"], ["--validation-fraction=0.25"], ["--validation_fraction=0.25"]):
        for drop in (["--drop", "A", "--drop", "B"], ["--drop=A,B"], ["--drop", "A, B"]):
            assert values(TRAIN, *PLACE, *fraction, *drop, "--tensorboard") == wanted


def test_flags_are_bare() -> None:
    assert values(RESULTS, "--failed") == {"failed": True}
    assert values(RESULTS, "--failed", "--no-failed") == {"failed": False}
    assert values(RESULTS, "--failed=false", "--limit", "3") == {"failed": False, "limit": 3}


def test_places_and_options_mix() -> None:
    assert values(TUNE, "--maximize", "f1", "RUN") == {"run": "RUN", "maximize": "f1"}
    assert values(TUNE, "--maximize", "f1", "--", "--odd") == {"run": "--odd", "maximize": "f1"}
    assert values(commands()["data"], "fetch", "cifar10") == {"action": "fetch", "name": "cifar10"}


def test_a_value_may_look_like_much() -> None:
    assert values(TRAIN, "--data", "-", "--out=--o", "--beta", "-3", "--target", "a=b")["target"] == "a=b"
    assert values(TRAIN, *PLACE, "--drop", '"A,B"')["drop"] == ["A,B"]


def test_the_commands_of_the_documentation_are_understood() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    blocks = [block for page in pages for block in page.read_text(encoding="utf-8").split("```")[1::2]]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("lossdial ")]
    assert len(lines) > 30
    for line in lines:
        _, name, *words = shlex.split(line, comments=True)
        parse(commands()[name], words)


def test_objectives() -> None:
    found = values(TUNE, "RUN", "--subject-to", "recall=0.9", "--subject-to", "fpr=0.2,precision@0.5=0.1")
    assert found["subject_to"] == {"recall": 0.9, "fpr": 0.2, "precision@0.5": 0.1}
    assert values(TUNE, "RUN", "--calibration", "none")["calibration"] is None
    assert values(TRAIN, *PLACE, "--space", "tau=0,3,0.333", "--space", "gamma=0")["space"] == {
        "tau": [0, 3, 0.333],
        "gamma": [0],
    }


def test_parts_of_a_recipe() -> None:
    found = values(
        TRAIN, *PLACE, "--recipe.schedule", "steps", "--recipe.schedule.milestones", "4,5", "--recipe.epochs=6"
    )
    assert found["recipe"] == Recipe(epochs=6, schedule=Steps(milestones=(4.0, 5.0)))
    other_way_round = values(TRAIN, *PLACE, "--recipe.schedule.milestones", "4,5", "--recipe.schedule", "steps")
    assert other_way_round["recipe"] == Recipe(schedule=Steps(milestones=(4.0, 5.0)))


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        (TRAIN, [], "--data and --out are needed."),
        (TRAIN, ["--data", "a.csv"], "--out is needed: the folder to write."),
        (commands()["points"], [], "RUN is needed: the folder that `lossdial train` wrote."),
        (TRAIN, ["a.csv"], "'a.csv' is a word too many; options are given by name, as in --data a.csv."),
        (TRAIN, ["--out"], "--out needs a value."),
        (TRAIN, ["--out", "--epochs", "3"], "--out needs a value; --epochs is an option of its own."),
        (TRAIN, ["--otu", "o"], "no option is called --otu; did you mean --out?"),
        (TUNE, ["--subjct-to", "recall=0.9"], "no option is called --subjct-to; did you mean --subject-to?"),
        (TUNE, ["--subject-to.recall", "0.9"], "no option is called --subject-to.recall; write --subject-to recall=…"),
        (TUNE, ["--name.x", "0.9"], "no option is called --name.x."),
        (TUNE, ["--zzzz"], "no option is called --zzzz; `lossdial tune --help` lists the options."),
        (TUNE, ["-m", "f1"], "no option is called -m; options begin with two hyphens."),
        (RESULTS, ["--failed", "true"], "--failed takes no value; got 'true'."),
        (RESULTS, ["--no-limit"], "no option is called --no-limit"),
        (TRAIN, [*PLACE, "--recipe.optimizer.lr", "0"], "lr must be greater than 0; got 0.0."),
        (TRAIN, [*PLACE, "--recipe.optimizer.name", "foo"], "--recipe.optimizer.name must be one of sgd, adam, adamw"),
        (commands()["data"], ["lst"], "ACTION must be one of list, fetch; got 'lst'."),
    ],
)
def test_mistakes_in_the_command_s_own_words(command: Command, words: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(command, words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_config_file_and_what_is_typed(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(
        "out: o\nvalidation-fraction: 0.3\ntarget: yes\npositive: '010'\ndrop: ['A,B', 7]\nbeta: null\n"
        "tensorboard: true\nrecipe:\n  clip_norm: 1e-1\n  schedule: steps\n  optimizer: {lr: 1e-2, weight-decay: 3}\n"
    )
    words = ["--config", str(file), "--data", "a.csv", "--recipe.optimizer.lr", "0.5", "--recipe.schedule.factor=0.2"]
    found = values(TRAIN, *words, "--validation-fraction", "0.1", "--no-tensorboard")
    recipe = found.pop("recipe")
    # `yes` and 010 are text, as they would be if typed.
    assert found == {
        **{"data": "a.csv", "out": "o", "validation_fraction": 0.1, "target": "yes", "positive": "010"},
        **{"drop": ["A,B", "7"], "beta": None, "tensorboard": False},
    }
    assert (recipe.clip_norm, recipe.schedule, recipe.optimizer.lr) == (0.1, Steps(factor=0.2), 0.5)
    assert recipe.optimizer.weight_decay == 3


def test_what_is_printed_can_be_read(tmp_path: Path) -> None:
    words = ["--data", "a: b.csv", "--out", "yes", "--drop", "A,null", "--space", "tau=0,3,0.333"]
    words += ["--recipe.schedule.floor", "0.25", "--recipe.optimizer.lr", "1e-5", "--tensorboard"]
    first = parse(TRAIN, [*words, "--print-config"])
    assert first.print_config
    printed = print_config(TRAIN, first.values)
    assert "validation-fraction: null" in printed
    assert "_" not in printed
    (tmp_path / "c.yaml").write_text(printed)
    again = values(TRAIN, "--config", str(tmp_path / "c.yaml"))
    assert {name: again[name] for name in first.values} == first.values
    assert all(again[name] == TRAIN.options[name].default for name in again.keys() - first.values.keys())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "no option is called --epoch; did you mean --epochs?"),
        ("epochs: [3]", "--epochs takes one value"),
        ("- epochs", "must be a mapping of options to values"),
        ("3: 4\n? [a]\n: b", "is not YAML"),
        ("a: [", "is not YAML"),
        ("[" * 5000, "nested too deeply"),
        ("a: !!python/object/apply:os.system [echo]", "is not YAML"),
    ],
)
def test_config_files_that_are_wrong(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        parse(TRAIN, [*PLACE, "--config", str(tmp_path / "c.yaml")])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@dataclass(frozen=True)
class Shape(ABC):
    size: float = 1.0

    @abstractmethod
    def area(self) -> float: ...


@dataclass(frozen=True)
class Square(Shape):
    def area(self) -> float:
        return self.size**2


@dataclass(frozen=True)
class Ring(Shape):
    holes: tuple[int, ...] = ()

    def area(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    note: str | None = None

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise InputError("rate", "must be greater than 0", got=self.rate)


@dataclass(frozen=True)
class Outer:
    count: int = 3
    inner_part: Inner = field(default_factory=lambda: Inner(rate=0.5))
    shape: Shape = field(default_factory=lambda: Square(2.0))


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        (Words(["7"]), int, 7),
        (Words(["1", "2"]), int, 2),  # the last one counts
        (Words(["-0.5"]), float, -0.5),
        ("1e-3", float, 0.001),
        (Words(["vs+lct"]), Literal["vs", "vs+lct"], "vs+lct"),
        (Words(["4"]), Literal[2, 4], 4),
        (Words(["yes"]), bool | Literal["twice"], True),
        (Words(["twice"]), bool | Literal["twice"], "twice"),
        (Words(["A,B"]), list[str], ["A", "B"]),
        (Words(["A", "B, C"]), list[str] | None, ["A", "B", "C"]),
        (Words(['"A,B",C']), list[str], ["A,B", "C"]),
        (Words(['"say ""so"""']), list[str], ['say "so"']),
        (Words([""]), list[int], []),
        (["A,B"], list[str], ["A,B"]),  # an item of a list in a file is one item
        ("A,B", list[str], ["A", "B"]),
        (Words(["64,32"]), tuple[int, ...], (64, 32)),
        (Words(["0.65,1"]), tuple[float, float], (0.65, 1.0)),
        (Words(["recall=0.9,fpr=0.2"]), dict[str, float], {"recall": 0.9, "fpr": 0.2}),
        (Words(["recall=0.9", "fpr=0.2"]), dict[str, float] | None, {"recall": 0.9, "fpr": 0.2}),
        (Words(["tau=0,3,0.333", "gamma=0"]), dict[str, list[float]], {"tau": [0, 3, 0.333], "gamma": [0]}),
        (Words(["tau=0,3,0.333,gamma=0"]), dict[str, list[float]], {"tau": [0, 3, 0.333], "gamma": [0]}),
        ({"tau": ["0", "3"]}, dict[str, list[float]], {"tau": [0, 3]}),
        (Words(["none"]), float | None, None),
        (Words(["none"]), str | None, "none"),
        (Words(["none"]), Literal["auto"] | None, None),
        (None, int | None, None),
        (Words(["yes"]), bool, True),
        ({"count": "4"}, Outer, Outer(4)),
        ({"inner_part": {"rate": Words(["0.2"])}}, Outer | None, Outer(inner_part=Inner(0.2))),
        ({"inner_part": {"note": "x"}}, Outer, Outer(inner_part=Inner(0.5, "x"))),  # the rest stays as it was
        ({"shape": {"size": "5"}}, Outer, Outer(shape=Square(5.0))),
        ({"shape": Words(["ring"])}, Outer, Outer(shape=Ring())),
        ({"shape": {"kind": "Ring", "holes": Words(["1,2"])}}, Outer, Outer(shape=Ring(holes=(1, 2)))),
    ],
)
def test_text_becomes_what_the_signature_says(raw: Any, kind: Any, value: Any) -> None:
    assert convert(raw, kind, "--x") == value


@pytest.mark.parametrize(
    ("raw", "kind", "message"),
    [
        (Words(["x"]), int, "--x must be a whole number; got 'x'."),
        (Words(["1.5"]), int | None, "--x must be a whole number; got '1.5'."),
        (Words(["x"]), list[float], "--x must be a number; got 'x'."),
        (Words(["[1, 2]"]), list[int], "--x is written without brackets: --x 1,2."),
        (Words(["v"]), Literal["vs", "focal"], "--x must be one of vs, focal; got 'v'."),
        (Words(["recall"]), dict[str, float], "--x takes names with values, as in --x recall=0.9; got 'recall'."),
        (Words(["=3"]), dict[str, list[float]], "--x takes names with values, as in --x tau=0,3,0.333; got '=3'."),
        (Words(["recall=a"]), dict[str, float], "--x recall must be a number; got 'a'."),
        (Words(['"A']), list[str], "Quote an item with a comma in it: '"),
        (Words(["1,2,3"]), tuple[float, float], "--x takes 2 values; got 3."),
        ({"a": "b"}, int, "--x takes one value; got {'a': 'b'}."),
        ({"a": "b"}, list[str], "--x is a list; got {'a': 'b'}."),
        (["a"], dict[str, float], "--x takes names with values, as in name=0.5; got ['a']."),
        (None, int, "--x must not be empty."),
        ("maybe", bool, "--x is true or false; got 'maybe'."),
        (Words(["a"]), Outer, "--x is given setting by setting, as in --x.count."),
        ({"coun": "4"}, Outer, "no option is called --x.coun; did you mean --x.count?"),
        ({"shape": Words(["oval"])}, Outer, "--x.shape must be one of square, ring; got 'oval'."),
        ({"shape": {"holes": "1"}}, Outer, "no option is called --x.shape.holes; --x.shape has size."),
        ({"inner_part": {"rate": "0"}}, Outer, "--x.inner-part.rate must be greater than 0; got 0.0."),
    ],
)
def test_mistakes_name_the_option(raw: Any, kind: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(raw, kind, "--x")
    assert message in str(caught.value)


def test_a_giant_value_is_told_in_short() -> None:
    with pytest.raises(InputError) as caught:
        convert(["9" * 10_000] * 10_000, int, "--x")
    assert len(str(caught.value)) < 300


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)))
def test_quoted_lists_come_back(items: list[str]) -> None:
    """What any program writes as a line of CSV is read as that list."""
    typed = ",".join('"' + item.replace('"', '""') + '"' for item in items)
    assert convert(Words([typed]), list[str], "--x") == items


def test_what_is_printed_is_what_is_read() -> None:
    value = Outer(2, Inner(0.25, "a, b"), Ring(3.0, (1, 2)))
    plain = as_plain(value)
    assert plain["inner-part"] == {"rate": 0.25, "note": "a, b"}
    assert plain["shape"]["kind"] == "ring"

    def as_text(part: Any) -> Any:
        if isinstance(part, dict):
            return {k.replace("-", "_"): as_text(v) for k, v in part.items()}
        return [as_text(v) for v in part] if isinstance(part, list) else str(part)

    assert convert(as_text(plain), Outer, "--x") == value
