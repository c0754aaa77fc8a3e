"""What is wrong of a task's options is told by the flag that they were given by, and nothing is submitted."""

from datetime import datetime, timedelta

import pytest

from tests.worker.cli.conftest import Command, Shop


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--run-timeout", "1e300"], "--run-timeout: write at most"),
        (["--id", "abc"], "--id: write a UUID, such as "),
        (["--scope", ""], "--scope 0: write at least 1 character"),
        (["--tag", f"a{'b' * 300}=1"], "--tag abbb"),
        (["--at", "tomorrow"], "'--at': 'tomorrow' is not a time with a zone: write it as 2026-01-31T12:00:00+01:00"),
        (["--run-timeout", "-5"], "'--run-timeout': -5.0 is not in the range"),
        (["--delay", "soon"], "'--delay': 'soon' is not a duration: write 90s"),
        (["--timeout", "nan"], "'--timeout': 'nan' is not a duration: write 90s"),
    ],
)
def test_n4_a_wrong_option_is_told_by_its_flag(command: Command, flags: list[str], told: str) -> None:
    before = command.read("tasks")

    assert told in command.refused("submit", "@global:tasks:none", "n=1", *flags, code=2)

    assert command.read("tasks") == before


def test_what_lasts_is_given_in_seconds_or_as_filters_write_it(command: Command, shop: Shop) -> None:
    """`--delay 10s` was `not a valid float range`."""
    flags = ("--delay", "1h30m", "--run-timeout", "90", "--lease-seconds", "2m", "--budget", "3")

    task_id = command.read("submit", shop.job, "n=1", *flags)["id"]

    task = command.read("task", task_id)["task"]
    due = datetime.fromisoformat(task["scheduled_at"]) - datetime.fromisoformat(task["created_at"])
    assert (due, task["timeout"], task["lease_seconds"], task["budget"]) == (timedelta(minutes=90), 90, 120, 3)
    assert "'--budget': '3s' is not a valid float range" in command.refused(
        "submit", shop.job, "--budget", "3s", code=2
    )
    assert "'--delay': '10x' is not a duration: write 90s" in command.refused(
        "submit", shop.job, "--delay", "10x", code=2
    )


TOO_DEEP = "[" * 65 + "]" * 65
DEEP = "[" * 50_000 + "]" * 50_000


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "JOB", f"x={DEEP}"),
        ("submit", "JOB", "--payload", f'{{"x": {DEEP}}}'),
        ("submit", "JOB", "--tag", f"x:={DEEP}"),
        ("send", "TASK", "approved", DEEP),
        ("resolve", "TASK", "--result", DEEP),
        ("edit", "TASK", "--checkpoint", DEEP),
        ("submit", "JOB", f"x={TOO_DEEP}"),
        ("edit", "TASK", "--checkpoint", TOO_DEEP),
    ],
    ids=lambda words: "-".join(words[:-1]),
)
def test_json_that_is_too_deep_is_told_in_a_sentence(command: Command, shop: Shop, words: tuple[str, ...]) -> None:
    meant = {"JOB": shop.job, "TASK": shop.submit()}

    told = command.refused(*(meant.get(word, word) for word in words), code=2)

    assert "more than 64 levels of arrays and objects" in told
