"""`treadle prune`: it shows what would go, asks, and removes."""

import re

import pytest
from click.testing import CliRunner

from tests.worker.cli.conftest import Command, Shop
from treadle.cli.group import treadle


def test_the_command_shows_what_would_go_asks_and_removes_e12(command: Command, shop: Shop) -> None:
    task = shop.submit()
    command.said("cancel", task)

    shown = command.said("prune", "--older-than", "0s", "--dry-run")
    assert any(line.split() == [shop.job, "cancelled", "1"] for line in shown.splitlines())
    assert re.search(r"\n(1 task|\d+ tasks) would be removed\.\n$", shown)
    assert command.read("prune", "--older-than", "1w", "--dry-run")["tasks"] == 0
    assert "Aborted" in command.refused("prune", "--older-than", "0s")
    assert shop.status(task) == "cancelled"
    removed = command.read("prune", "--older-than", "0s", "--status", "cancelled", "--yes")
    assert {"job": shop.job, "status": "cancelled", "tasks": 1} in removed["groups"]
    assert "Task not found" in command.refused("task", task)
    command.said("prune", "--older-than", "0s", "--yes")  # what other tests have left
    assert command.said("prune", "--older-than", "0s", "--yes") == "No task is past its retention.\n"
    command.said("cancel", shop.submit())
    assert re.search(r"Remove (1 task|\d+ tasks)\?", command.refused("prune", "--older-than", "0s"))
    assert command.said("prune", "--older-than", "0s", "--yes").endswith("\n1 task removed.\n")
    assert command.said("prune", "--older-than", "0s") == "No task is past its retention.\n"
    assert command.read("prune", "--older-than", "0s") == {"dry_run": False, "tasks": 0, "groups": [], "done": True}


def test_what_goes_is_listed_once_before_the_question_e12(command: Command, shop: Shop) -> None:
    command.said("prune", "--older-than", "0s", "--yes")  # what other tests have left
    command.said("cancel", shop.submit())

    answered = CliRunner().invoke(treadle, ["prune", "--older-than", "0s"], input="y\n", env=command.environment)

    assert [line.split() for line in answered.stdout.splitlines()] == [
        ["JOB", "STATUS", "TASKS"], [shop.job, "cancelled", "1"], ["1", "task", "removed."],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--older-than", "30"], "is not a duration of up to ten years: write 90s"),
        (["--older-than", "d"], "is not a duration"),
        (["--status", "running"], "'running' is not one of"),
    ],
)
def test_the_command_says_how_an_age_and_a_status_are_written_e12(
    command: Command, words: list[str], said: str
) -> None:
    assert said in command.refused("prune", *words, code=2)
