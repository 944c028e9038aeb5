"""The tests on the lowest and the newest versions of the dependencies, on every Python that is installed."""

import re
import tomllib
from pathlib import Path

import nox

nox.options.error_on_missing_interpreters = False
nox.options.default_venv_backend = "venv"

PYTHONS = ["3.11", "3.12", "3.13"]
PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
FAST = ("tests/base", "tests/spaces", "tests/losses", "tests/dial", "tests/sklearn", "tests/test_init.py")


def lowest(requirements: list[str]) -> list[str]:
    """Each requirement at the lowest version that it allows."""
    return [re.sub(r">=([\w.]+).*", r"==\1.*", requirement) for requirement in requirements]


@nox.session(python=PYTHONS)
@nox.parametrize("versions", ["lowest", "newest"])
def tests(session: nox.Session, versions: str) -> None:
    """The tests of the library without extras."""
    if versions == "lowest" and session.python != "3.11":
        session.skip("the lowest versions have wheels for Python 3.11 alone")
    pinned = lowest(PROJECT["dependencies"]) if versions == "lowest" else ["-c", "constraints.txt"]
    session.install(*pinned, "pytest", "hypothesis", "-e", ".")
    session.run("pytest", "-q", *(session.posargs or FAST), env={"OMP_NUM_THREADS": "1"})
