import os
import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest

from lossdial.base.errors import InputError, warn
from lossdial.cli import main
from lossdial.cli.commands import commands

HEAVY = {"torch", "pandas", "sklearn", "scipy", "numpy", "matplotlib", "yaml", "rich"}


def loaded(*words: str) -> set[str]:
    """Which heavy packages a command has loaded when it ends, in a process of its own."""
    program = f"import sys; from lossdial.cli import main; main(sys.argv[1:]); print({HEAVY!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    return eval(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([name, "--help"] for name in commands())])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    assert loaded(*words) == set()


@pytest.mark.parametrize("words", [["train", "--dta", "a.csv"], ["tune", "RUN", "--subject-to", "recall"]])
def test_a_mistake_is_told_before_anything_heavy_is_imported(words: list[str]) -> None:
    assert loaded(*words) == {"rich"}


def test_help_speaks_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["--help"]), main([])) == (0, 2)
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{command.name} {command.summary}" in text for command in commands().values())


@pytest.mark.parametrize("command", commands().values(), ids=lambda c: c.name)
def test_every_option_is_explained_and_hyphenated(command, capsys, monkeypatch):
    assert command.text.splitlines()[0] == command.summary  # the table says what the docstring says
    assert all(option.help for option in command.options.values())
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command.name, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for option in command.options.values():
        assert any(option.flag in line for line in lines) or option.default is True
    assert not any("_" in line.split()[0] for line in lines if line.startswith("  --"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "lossdial: no command is called 'trian'; did you mean 'train'?"),
        (["--data", "a.csv"], "lossdial: no option is called '--data'; the command comes first"),
        (["predict", "RUN"], "lossdial predict: --data and --out are needed."),
    ],
)
def test_mistakes_take_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(message)
    assert told.err.count("\n") == 1


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], int]:
    """``failing(error)``: the exit code of a command that ends with that error."""

    def run(error: BaseException) -> int:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("lossdial.cli.commands.Command.run", fail)
        return main(["train", "--data", "a.csv", "--out", "o"])

    return run


class OutOfMemoryError(RuntimeError):
    """As torch's own."""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("pos_label", "must be 'a' or 'b'", got="c"), "--positive must be 'a' or 'b'; got 'c'."),
        (ValueError("no column 'dat'; did you mean 'data'?"), "no column 'dat'; did you mean 'data'?"),
        (PermissionError(13, "Permission denied", "/root/o"), "/root/o: Permission denied."),
        (FileExistsError(17, "File exists", "o"), "o: File exists."),
        (OSError("no weights there"), "no weights there"),
        (ModuleNotFoundError("No module named 'timm.x'", name="timm.x"), "pip install 'lossdial[vision]'"),
        (ModuleNotFoundError("Neither `tensorboard` nor …"), "Neither `tensorboard` nor …"),
        (MemoryError(), "there is not enough memory for this."),
        (OutOfMemoryError("CUDA"), "there is not enough memory for this."),
        (RecursionError(), "the input is nested too deeply."),
    ],
)
def test_what_went_wrong_is_told_in_a_line(error, message, failing, capsys):
    assert failing(error) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("lossdial train: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("error", [KeyError("target"), RuntimeError("a bug"), ModuleNotFoundError("x", name="nothing")])
def test_a_bug_stays_a_traceback(error: Exception, failing: Callable[[BaseException], int]) -> None:
    with pytest.raises(type(error)):
        failing(error)


@pytest.mark.parametrize("kept", [(), ("stopped; 3 epochs are kept.",)])
def test_interrupted(kept: tuple[str, ...], failing: Callable[[BaseException], int], capsys) -> None:
    assert failing(KeyboardInterrupt(*kept)) == 130
    assert capsys.readouterr().err == (*kept, "stopped; nothing was kept.")[0] + "\n"


@pytest.mark.skipif(os.name != "posix", reason="pipes as in a shell")
def test_a_reader_that_leaves_is_no_mistake() -> None:
    for words in (["--help"], ["data", "list"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [sys.executable, "-m", "lossdial", *words], stdout=write, stderr=subprocess.PIPE, check=False
        )
        os.close(write)
        assert done.stderr == b""
        assert done.returncode != 0


def test_own_warnings_take_a_line_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*_: object, **__: object) -> None:
        for _ in range(2):
            warn("'a' is taken as positive. Give {pos_label} to choose.")
            warnings.warn("somebody else's", UserWarning, stacklevel=1)
        print("{}")

    monkeypatch.setattr("lossdial.cli.commands.Command.run", run)
    assert main(["train", "--data", "a.csv", "--out", "o"]) == 0
    notes = "note: 'a' is taken as positive. Give --positive to choose.\nnote: somebody else's\n"
    assert capsys.readouterr() == ("{}\n", notes)


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_no_output_fails_on_a_character_that_the_terminal_lacks(variables):
    program = r"from lossdial.cli import main; main(['tune', '--help']); print('\xfc \u4eac \udcff')"
    variables = {**os.environ, "PYTHONCOERCECLOCALE": "0", **variables}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Choose lambda and threshold for an objective" in done.stdout
    assert done.stdout.endswith(b"\\xfc \\u4eac \\udcff\n")


@pytest.mark.parametrize(
    "line",
    [
        "train --data rows.csv --out {file}/run",
        "explore run --out {file}/page.html",
        "predict run --data rows.csv --out {file}/scored.csv",
        "export run --card {file}/card.md",
        "export run --onnx {file}/model.onnx",
        "tune --scores scores.csv --target y --score p --maximize f1 --out {file}/p.json",
        "evaluate run --out {file}",
        "demo --out {file}",
    ],
)
def test_what_cannot_be_written_is_told_before_anything_is_read(line, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(line.format(file=tmp_path / "file").split()) == 2
    told = capsys.readouterr()
    assert f"{tmp_path / 'file'}: nothing can be written there (" in told.err  # not that there is no run, nor data
    assert told.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
