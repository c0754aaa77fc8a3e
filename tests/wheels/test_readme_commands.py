"""What the two commands at the README's top install."""

import re

import pytest

from tests.wheels.built import ROOT, run_uv


def options_of(command: str) -> list[str]:
    """Return the options of `uv run` in the README's line that ends in a command."""
    [line] = re.findall(rf"^pip install uv && uv run (.*){command}$", (ROOT / "README.md").read_text(), re.MULTILINE)
    return str(line).split()


def installed_by(command: str) -> set[str]:
    """Return the names of the distributions that a line of the README installs from a registry."""
    exported = run_uv("export", "--frozen", "--no-hashes", "--no-annotate", "--no-header", *options_of(command))
    return set(re.findall(r"^([a-z0-9-]+)==", exported, re.MULTILINE))


def test_the_first_command_installs_what_the_demo_needs_and_nothing_of_the_tests_tools() -> None:
    found = installed_by("treadle demo")

    assert {"aiosqlite", "click", "starlette", "textual", "uvicorn", "websockets"} <= found
    assert not found & {"aiohttp", "asyncpg", "botocore", "mypy", "nox", "pytest", "ruff", "sympy", "taskiq"}
    assert len(found) < 50


def test_the_second_command_installs_the_tests_tools_and_every_extra() -> None:
    found = installed_by("nox")

    assert {"aiohttp", "asyncpg", "moto", "mypy", "nox", "pytest", "ruff", "taskiq", "textual", "uvicorn"} <= found


@pytest.mark.parametrize("place", [".ci/run", "noxfile.py"])
def test_what_checks_a_checkout_runs_the_readmes_second_command(place: str) -> None:
    command = " ".join(["uv run", *options_of("nox"), "nox"])

    assert command in (ROOT / place).read_text()
