import pytest

from lossdial.cli import main
from lossdial.cli.main import COMMANDS


def test_help_speaks_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(function.__name__ in text for function in COMMANDS)


@pytest.mark.parametrize("function", COMMANDS, ids=lambda f: f.__name__)
def test_every_option_is_explained(
    function: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([function.__name__, "--help"])  # type: ignore[attr-defined]  # a function has a name
    lines = capsys.readouterr().out.splitlines()
    # An option without a docstring shows only its type: "--x X   (type: int, default: 3)".
    bare = [line for line in lines if line.strip().startswith("--") and line.split(maxsplit=2)[-1].startswith("(type")]
    assert bare == []


def test_both_spellings_of_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--validation-fraction", "--validation_fraction"):
        with pytest.raises(SystemExit):
            main(["train", "--data", "a.csv", "--target", "y-z", "--out", "o", option, "0.25", "--print_config"])
        printed = capsys.readouterr().out
        assert "validation_fraction: 0.25" in printed
        assert "target: y-z" in printed  # values are left alone


def test_an_unknown_command_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["trian"])
    assert stop.value.code == 2
    assert "train" in capsys.readouterr().err
