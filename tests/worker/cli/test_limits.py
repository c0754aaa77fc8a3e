"""`treadle limits`: set, listed, shown and deleted; tasks that name them."""

import re

import pytest

from tests.worker.cli.conftest import Command, Shop


def test_a_limit_is_set_listed_shown_and_deleted(command: Command, shop: Shop) -> None:
    assert command.said("limits", "--help").startswith("Usage: treadle limits")
    made = command.said("limits", "set", "cli", "--concurrency", "1", "--rate", "100/60", "--burst", "10",
                        "--on-full", "reject")  # fmt: skip
    task = command.said("submit", shop.job, "n=1", "--limit", "cli=acme").split()[0]

    full = command.refused("submit", shop.job, "n=2", "--limit", "cli=acme")

    assert "the limit 'cli' of room @global is full for 'acme'" in full
    assert made.splitlines()[:4] == [
        "limit      cli, in @global", "at once    1", "rate       100 in 1m, 10 at once", "when full  reject",
    ]  # fmt: skip
    assert command.said("limits", "list").splitlines()[1].split()[:3] == ["cli", "@global", "1"]
    assert command.read("limits", "show", "cli")["waiting"] == 1
    shown = command.said("limits", "show", "cli").splitlines()
    assert [line.split() for line in shown[-2:]] == [["BUSIEST", "KEY", "USED", "WAITING"], ["acme", "0", "1"]]
    assert "open tasks or jobs use the limit 'cli'" in command.refused("limits", "delete", "cli")
    command.said("cancel", task)
    assert command.said("limits", "delete", "cli") == "cli deleted\n"
    assert "there is no limit 'cli'" in command.refused("limits", "show", "cli")


@pytest.mark.parametrize(
    ("seconds", "shown"), [("90", "90s"), ("0.001", "0.001s"), ("1.5", "1.5s"), ("5400", "90m"), ("86400", "1d")]
)
def test_a_length_that_was_set_is_shown_as_it_is(command: Command, shop: Shop, seconds: str, shown: str) -> None:
    limit = command.said("limits", "set", "exact", "--rate", f"5/{seconds}")
    every = str(max(1.0, float(seconds)))
    schedule = command.said("schedules", "set", "exact", shop.job, "--every", every, "--jitter", every)
    command.said("schedules", "delete", "exact")
    assert command.read("limits", "delete", "exact") == {"deleted": "exact"}

    assert f"rate       5 in {shown}\n" in limit
    told = shown if float(seconds) >= 1 else "1s"
    assert f"every {told}, up to {told} later" in schedule


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rate", "5/0"], "--rate: its seconds: write 0.001 or more, not 0.0"),
        (["--rate", "0/5"], "--rate: its count: write 1 or more, not 0"),
        (["--rate", "5/nan"], "--rate: its seconds: write a finite number, not nan"),
        (["--rate", "5/1", "--burst", "9999999"], "--burst: write at most 1000000, not 9999999"),
        (["--concurrency", "9999999"], "--concurrency: write at most 1000000, not 9999999"),
    ],
)
def test_numbers_that_no_limit_can_have_are_a_usage_error(command: Command, words: list[str], says: str) -> None:
    assert says in command.refused("limits", "set", "odd", *words, code=2)


@pytest.mark.parametrize("group", ["limits", "schedules"])
def test_what_lists_without_a_command_takes_the_options_of_list(command: Command, group: str) -> None:
    assert command.read(group) == command.read(group, "list")
    assert command.read(group, "--room", "lab", "--limit", "3")["limit"] == 3
    assert command.said(group, "--room", "lab") == f"No {group} in lab.\n"
    assert "[COMMAND] [ARGS]..." in command.said(group, "-h")


def test_a_task_that_waits_for_a_rate_says_when_it_may_start(command: Command, shop: Shop) -> None:
    command.said("limits", "set", "slow", "--rate", "1/3600")
    first, second = (command.said("submit", shop.job, f"n={n}", "--limit", "slow=a").split()[0] for n in (1, 2))
    shop.start(first)

    shown = command.said("task", second)
    listed = {line.split()[0]: line for line in command.said("tasks", f"job:{shop.job}").splitlines()}

    assert "blocked by limit:@global/slow=a\n" in shown
    assert re.search(r"not before [\d-]+ [\d:]+ UTC \(in (60m|1h)\)\n", shown)
    assert re.search(r" pending +1 +in (60m|1h) ", listed[second])
    assert re.search(r" running +- +- +0 ", listed[first])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --concurrency, --rate or both"),
        (["--concurrency", "1", "--burst", "2"], "--burst: only allowed with --rate"),
        (["--rate", "often"], "'often' is not COUNT/SECONDS, such as 100/60"),
        (["--rate", "5/"], "'5/' is not COUNT/SECONDS, such as 100/60"),
    ],
)
def test_what_is_no_limit_is_said(command: Command, words: list[str], message: str) -> None:
    assert message in command.refused("limits", "set", "cli", *words, code=2)
