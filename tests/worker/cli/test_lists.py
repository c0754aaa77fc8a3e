"""`treadle tasks`, `failures`, `jobs` and `workers`: how many there are, and that what is claimed does not run yet."""

import pytest

from tests.worker.cli.conftest import Command, Shop

TRACEBACK = (
    'Traceback (most recent call last):\n  File "/srv/billing/charge.py", line 7, in charge\nValueError: no card'
)


def test_what_a_worker_has_claimed_ahead_neither_runs_nor_uses_a_slot(command: Command, shop: Shop) -> None:
    """As the dashboard tells it: of one slot three were used."""
    started, *_ = [shop.submit() for _ in range(3)]
    shop.start(started)
    for _ in range(2):
        assert shop.http.post("/v1/tasks/claim", json={"worker_id": shop.worker_id}).json()["task"] is not None

    jobs, workers = command.said("jobs"), command.said("workers")

    [line] = [line.split() for line in jobs.splitlines() if shop.job in line]
    assert line[1:4] == ["0", "2", "1"]
    [told] = [line for line in workers.splitlines() if shop.worker_id in line]
    assert "  1/1 +2  " in told


def test_a_list_that_is_not_whole_says_so_and_that_more_can_be_shown_only_where_they_can(
    command: Command, shop: Shop
) -> None:
    tasks = [{"job": shop.job} for _ in range(501)]
    shop.http.post("/v1/rooms/@global/tasks", json={"tasks": tasks}).raise_for_status()

    some = command.said("tasks", f"job:{shop.job}").splitlines()
    most = command.said("tasks", f"job:{shop.job}", "--limit", "500").splitlines()

    assert (len(some), some[-1]) == (52, "50 of 501; --limit shows more.")
    assert (len(most), most[-1]) == (502, "500 of 501; a list shows at most 500.")


def test_that_there_are_no_tasks_of_a_job_that_there_is_not_is_told_of_the_job(command: Command, shop: Shop) -> None:
    """Who left the room out of a name, or misspelt it, was told that it had no tasks."""
    assert command.said("tasks", f"job:{shop.job}") == "No tasks.\n"

    misspelt = command.said("tasks", f"job:{shop.job}s")
    assert misspelt.startswith(f"No tasks: there is no job {shop.job}s visible from room @global")
    assert "write room:category:name" in command.said("tasks", "job:hello")
    assert command.read("tasks", "job:hello")["items"] == []


@pytest.mark.parametrize(
    ("words", "example"),
    [(["tasks", "--", "-tag:x"], "treadle tasks -- -tag:x"), (["cancel", "--where=-tag:x id:ffff"], "--where=-tag:x")],
)
def test_the_help_shows_a_filter_that_begins_with_a_dash_as_the_command_takes_it(
    command: Command, words: list[str], example: str
) -> None:
    """That of `tasks` named an option of other commands."""
    command.said(*words)

    told = " ".join(command.said(words[0], "--help").split())
    assert f"means what is not so, as in {example}. " in told
    assert ("--where" in told) is (words[0] != "tasks")


def test_failures_are_grouped_and_their_id_is_a_filter(command: Command, shop: Shop) -> None:
    for _ in range(2):
        task = shop.submit()
        shop.start(task)
        shop.report(task, "failed", error="ValueError: no card", traceback=TRACEBACK)

    [group] = command.read("failures", "--job", shop.job)["items"]
    [heading, row] = command.said("failures", "--job", shop.job).splitlines()

    assert (group["kind"], group["runs"], group["failed"]) == ("ValueError", 2, 2)
    assert heading.split() == ["ID", "ERROR", "WHERE", "LAST", "RUNS", "FAILED", "RETRYING", "JOB", "SAID"]
    assert row.split()[:2] == [group["id"], "ValueError"]
    assert row.endswith(f"{shop.job}  ValueError: no card")
    assert f"{group['place']}  " in row
    assert command.read("tasks", f"failure:{group['id']}")["total"] == 2
    assert command.said("failures", "--room", "empty-room") == "No failures.\n"


def test_no_failures_of_a_job_that_there_is_not_are_said_to_be_none_of_it(command: Command) -> None:
    assert command.read("failures", "--job", "@global:tasks:nowhere") == {"items": [], "is_capped": False}
    assert command.said("failures", "--job", "@global:tasks:nowhere").startswith("No failures: ")
    assert "nowhere" in command.said("failures", "--job", "nowhere")
