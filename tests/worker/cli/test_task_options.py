"""What is wrong of a task's options is told by the flag that they were given by, and nothing is submitted."""

import pytest

from tests.worker.cli.conftest import Command


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--run-timeout", "1e300"], "--run-timeout: Input should be less than or equal to"),
        (["--scope", ""], "--scope 0: String should have at least 1 character"),
        (["--tag", f"a{'b' * 300}=1"], "--tag abbb"),
        (["--at", "tomorrow"], "'--at': 'tomorrow' is no time with a zone: write it as 2026-01-31T12:00:00+01:00"),
        (["--run-timeout", "-5"], "'--run-timeout': -5.0 is not in the range"),
    ],
)
def test_n4_a_wrong_option_is_told_by_its_flag(command: Command, flags: list[str], told: str) -> None:
    before = command.read("tasks")

    assert told in command.refused("submit", "@global:tasks:none", "n=1", *flags, code=2)

    assert command.read("tasks") == before
