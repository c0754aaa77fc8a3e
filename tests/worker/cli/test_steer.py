"""`treadle cancel`, `pause`, `resume`, `rerun` and `resolve`, as someone who only reads the help would use them."""

import json

import pytest

from tests.worker.cli.conftest import Command, Shop
from treadle.client.client import Client
from treadle.wire.tasks import TaskItem

NOBODY = "0199aaaa-0000-7000-8000-000000000000"


def test_verbs_take_several_ids_and_say_what_became_of_each(command: Command, shop: Shop) -> None:
    first, second = shop.submit(), shop.submit()

    assert command.said("pause", first, second) == f"{first} paused\n{second} paused\n"
    assert command.said("resolve", first, "--result", '{"x": 1}') == f"{first} completed\n"
    assert command.said("resolve", second, "--status", "failed", "--error", "no") == f"{second} failed\n"
    assert command.said("rerun", first, second) == f"{first} pending\n{second} pending\n"
    assert [item["status"] for item in command.read("cancel", first, second)] == ["cancelled", "cancelled"]


def test_a_running_task_that_is_paused_is_said_to_be_asked(command: Command, shop: Shop) -> None:
    task = shop.submit()
    shop.start(task)

    assert command.said("pause", task) == f"{task} running, asked to stop\n"
    shop.report(task, "paused", checkpoint={"at": 7})
    assert command.said("resume", task) == f"{task} pending\n"


def test_one_refusal_does_not_keep_the_others_and_makes_the_exit_code_1(command: Command, shop: Shop) -> None:
    done, task = shop.submit(), shop.submit()
    command.said("cancel", done)

    result = command("cancel", done, NOBODY, task)

    assert (result.exit_code, result.stdout) == (1, f"{task} cancelled\n")
    wrong, unknown = result.stderr.splitlines()
    assert wrong.startswith(f"Error: {done}: Invalid task transition")
    assert unknown == f"Error: Task not found: there is no task {NOBODY}"


def test_json_tells_of_each_in_its_place_what_became_of_it(command: Command, shop: Shop) -> None:
    done, task = shop.submit(), shop.submit()
    command.said("cancel", done)

    result = command("cancel", done, task, NOBODY, "ffff", "--json")

    assert result.exit_code == 1
    again, cancelled, unknown, begins_none = json.loads(result.stdout)
    assert (again["refused"], again["type"]) == (done, "/v1/problems/invalid-task-transition")
    assert (cancelled["id"], cancelled["status"]) == (task, "cancelled")
    assert (unknown["refused"], unknown["type"]) == (NOBODY, "/v1/problems/task-not-found")
    said = "no task's id begins with ffff"
    assert begins_none == {"refused": "ffff", "type": None, "detail": said}
    assert len(result.stderr.splitlines()) == 3
    assert result.stderr.splitlines()[-1] == f"Error: {said}"


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_what_was_done_is_told_though_the_server_is_lost_before_the_last(
    command: Command, shop: Shop, form: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shop.submit(), shop.submit()
    cancel = Client.cancel

    async def cancelled(client: Client, task_id: str) -> TaskItem:
        if task_id == second:
            await client.close()
        return await cancel(client, task_id)

    monkeypatch.setattr(Client, "cancel", cancelled)

    result = command("cancel", first, second, *form)

    assert result.exit_code == 1
    assert first in result.stdout
    assert second not in result.stdout
    assert result.stderr.startswith("Error: ")


def test_the_beginning_of_an_id_is_enough_when_it_is_one_tasks_alone(command: Command, shop: Shop) -> None:
    one = shop.submit(id="1a2b3c4d-0000-7000-8000-000000000001")
    shop.submit(id="1a2b3c4d-0000-7000-8000-000000000002")
    other = shop.submit(id="1a2b3c4e-0000-7000-8000-000000000003")

    assert command.said("pause", "1A2B3C4E") == f"{other} paused\n"
    assert command.said("pause", one[:-1] + "1") == f"{one} paused\n"
    assert "more than one task's id begins with 1a2b3c4d" in command.refused("pause", "1a2b3c4d")
    assert "no task's id begins with 1a2b3c4d-1" in command.refused("pause", "1a2b3c4d-1")
    assert command.read("task", "1a2b3c4e")["task"]["id"] == other
    assert "give more characters" in command.refused("task", "1a2b3c4d")


@pytest.mark.parametrize(
    "words", ["cancel {} one", "rerun {} one", "edit --priority 5 {} one", "send one hello", "task one"]
)
def test_what_can_be_no_id_is_refused_with_the_command_line_before_anything_is_done(
    command: Command, shop: Shop, words: str
) -> None:
    task = shop.submit()

    said = command.refused(*words.format(task).split(), "--json", code=2)

    assert said.endswith("\nError: 'one' is not a task's id: give a UUID, or the beginning of one\n")
    assert (shop.status(task), command.read("task", task)["task"]["priority"]) == ("pending", 0)


def test_a_filter_steers_what_the_verb_can_be_applied_to(command: Command, shop: Shop) -> None:
    pending, target, ended = shop.submit(), shop.submit(target="t-1"), shop.submit()
    command.said("cancel", ended)
    where = f"job:{shop.job}"

    assert command.said("pause", "--where", f"{where} target:t-1") == "pause: 1 of 1 tasks\n"
    assert (shop.status(pending), shop.status(target)) == ("pending", "paused")
    assert command.said("cancel", "--where", where) == "cancel: 2 of 2 tasks\n"
    assert command.read("rerun", "--where", where)["changed"] == 3
    assert command.said("resume", "--where", where) == "resume: 0 of 0 tasks\n"


def test_what_a_filter_names_and_the_verb_refuses_is_said(command: Command, shop: Shop) -> None:
    tasks = [shop.submit() for _ in range(13)]
    command.said("cancel", *tasks[:12])

    result = command("cancel", "--where", f"job:{shop.job} status:all")

    assert (result.exit_code, result.stdout) == (1, "cancel: 1 of 13 tasks\n")
    assert len(result.stderr.splitlines()) == 11
    assert result.stderr.endswith("Error: and 2 more\n")


def test_a_whole_queue_is_paused_and_resumed(command: Command, shop: Shop) -> None:
    task = shop.submit()

    assert command.said("pause", "--queue", shop.job) == f"{shop.job} paused\n"
    assert shop.http.post("/v1/tasks/claim", json={"worker_id": shop.worker_id}).json()["task"] is None
    [line] = [line for line in command.said("jobs", "--limit", "500").splitlines() if shop.job in line]
    assert line.endswith("paused")
    [item] = command.read("resume", "--queue", shop.job)
    assert (item["full_name"], item["paused"]) == (shop.job, False)
    shop.start(task)
    assert "Job not found" in command.refused("pause", "--queue", "@global:tasks:nothing")


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "rerun", "resolve"])
def test_every_verb_says_how_it_is_used(command: Command, verb: str) -> None:
    for words in ([], [NOBODY, "--where", "status:open"]):
        assert "give exactly one of IDs" in command.refused(verb, *words, code=2)
    assert "filter is empty" in command.refused(verb, "--where", " ", code=2)
    assert 'no "satus:"' in command.refused(verb, "--where", "satus:open", code=2)
    assert "treadle server" in command.refused(verb, NOBODY, TREADLE_URL="http://127.0.0.1:1")
    assert "Unauthorized" in command.refused(verb, NOBODY, TREADLE_TOKEN="wrong")
    shown = " ".join(command.said(verb, "--help").split())
    assert "status:failed" in shown
    assert "--where FILTER" in shown


@pytest.mark.parametrize("words", [["--error", "gave up"], ["--status", "failed", "--result", "3"]])
def test_a_task_is_not_settled_by_an_outcome_that_does_not_fit_what_is_given_with_it(
    command: Command, shop: Shop, words: list[str]
) -> None:
    """Who gave an error alone had the task completed, and all that waits for it went on."""
    task = shop.submit()
    command.said("pause", task)

    assert f"{words[-2]}: only " in command.refused("resolve", task, *words, code=2)

    assert shop.status(task) == "paused"
