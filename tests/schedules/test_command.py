"""`treadle schedules` (E10)."""

import pytest

from tests.waiting import look_until
from tests.worker.cli.conftest import Command, Shop, command, served, shop
from tests.worker.cli.test_edit import WORDS as OF_EDIT

WORDS = OF_EDIT.partition(" --delay 60")[0] + OF_EDIT.partition("+0000")[2]

__all__ = ["command", "served", "shop"]


def test_schedules_are_set_listed_shown_paused_run_and_deleted_e10(command: Command, shop: Shop) -> None:
    said = command.said(
        "schedules", "set", "nightly", shop.job, "n=1", "--cron", "0 3 * * *", "--zone", "Europe/Berlin",
        "--jitter", "30", "--priority", "2",
    )  # fmt: skip
    assert "when       0 3 * * * Europe/Berlin, up to 30s later" in said
    assert 'payload    {"n": 1}' in said
    assert 'options    {"priority": 2}' in said
    assert "missed     one late run" in said

    [line] = [line for line in command.said("schedules").splitlines() if line.startswith("nightly")]
    assert line.split()[:8] == ["nightly", "0", "3", "*", "*", "*", "Europe/Berlin", "on"]
    assert command.said("schedules", "list") == command.said("schedules", "list", "--room", "lab")
    assert command.said("schedules", "pause", "nightly") == "nightly paused\n"
    assert "nightly, in @global, paused" in command.said("schedules", "show", "nightly")
    assert command.said("schedules", "resume", "nightly").startswith("nightly next in ")

    task_id = command.said("schedules", "run", "nightly").strip()
    assert shop.status(task_id) == "pending"
    assert f"{task_id} pending" in command.said("schedules", "show", "nightly")
    assert "has not ended yet" in command.refused("schedules", "run", "nightly")
    assert command.read("schedules", "show", "nightly")["last_task_id"] == task_id

    again = command.read("schedules", "set", "nightly", shop.job, "--every", "90")
    assert (again["interval"], again["cron"], again["payload"], again["options"]) == (90, None, {}, {})
    assert command.said("schedules", "delete", "nightly") == "nightly deleted\n"
    assert "nightly" not in command.said("schedules", "list")


def test_every_option_of_a_submit_is_one_of_a_schedule(command: Command, shop: Shop) -> None:
    words = [*WORDS.split(), "--deadline", "30", "--flow-name", "nightly report"]

    made = command.read("schedules", "set", "full", shop.job, "--every", "90", *words)

    assert made["options"] == {
        "priority": 2, "timeout": 5, "max_retries": 1, "max_requeues": 2, "retry_base": 1, "retry_multiplier": 3,
        "retry_randomization": 0.5, "lease_seconds": 20, "heartbeat_increment": 5, "start_timeout": 9,
        "on_failure": "release", "target": "crane", "weight": 2, "budget": 7, "pool": "gpu", "tags": {"a": "b"},
        "scopes": ["queue:read:lab"], "unique_key": "k", "deadline": 30, "flow_name": "nightly report",
    }  # fmt: skip
    assert command.read("schedules", "delete", "full") == [{"deleted": "full"}]


def test_what_is_wrong_is_said_and_what_can_be_done_is_g9(command: Command, shop: Shop) -> None:
    command.said("schedules", "set", "good", shop.job, "--every", "60")

    result = command("schedules", "pause", "none", "good")

    assert (result.exit_code, result.stdout) == (1, "good paused\n")
    assert "Error: Schedule not found: there is no schedule 'none' in room @global" in result.stderr
    assert "is not a valid minute" in command.refused("schedules", "set", "bad", shop.job, "--cron", "61 * * * *")
    command.said("schedules", "delete", "good")


@pytest.mark.parametrize(
    "words", [[], ["--cron", "0 0 * * *", "--every", "5"], ["--every", "0.5"], ["x", "--every", "5"]]
)
def test_a_schedule_that_says_not_when_is_a_usage_error_g9(command: Command, words: list[str]) -> None:
    command.refused("schedules", "set", "bad", "@global:tasks:none", *words, code=2)


def test_a_schedule_whose_ticks_are_skipped_is_listed_so(command: Command, shop: Shop) -> None:
    holder = shop.submit(unique_key="k")
    command.said("schedules", "set", "skipping", shop.job, "--every", "1", "--unique-key", "k")

    def row() -> str:
        [row] = [line for line in command.said("schedules").splitlines() if line.startswith("skipping ")]
        return row

    look_until(lambda: " skips " in row())

    assert f"task {holder} held the key" in command.said("schedules", "show", "skipping")
    command.said("cancel", holder)
    look_until(lambda: " on " in row())
    command.said("schedules", "delete", "skipping")


def test_a_schedule_and_a_webhook_that_stand_still_say_why(command: Command, shop: Shop) -> None:
    token = command.said("token", "create", "gone", "--superuser").strip()
    owner = Command({**command.environment, "TREADLE_TOKEN": token})
    owner.said("schedules", "set", "still", shop.job, "--every", "1h")
    owner.said("webhooks", "set", "still", "https://example.org/hook")

    command.said("token", "revoke", "gone")

    why = "'gone' has no valid token: it goes on when a token is made for them"
    [row] = [line for line in command.said("schedules").splitlines() if line.startswith("still ")]
    assert " stands still " in row
    assert f"stands     still: {why}\n" in command.said("schedules", "show", "still")
    [row] = [line for line in command.said("webhooks").splitlines() if line.startswith("still ")]
    assert row.rstrip().endswith(f"stands still: {why}")
    command.said("token", "create", "gone")
    [row] = [line for line in command.said("schedules").splitlines() if line.startswith("still ")]
    assert " on " in row
    [row] = [line for line in command.said("webhooks").splitlines() if line.startswith("still ")]
    assert row.split()[-1] == "on"
