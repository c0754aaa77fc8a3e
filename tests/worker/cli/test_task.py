"""`treadle task`: names keep to their lines; and with `tasks`, `submit` and `edit` of an encrypted task (F7)."""

import json
import queue
import threading
from typing import Any

import httpx
import pytest

from tests.waiting import SECONDS
from tests.worker.cli.conftest import Command, Shop
from treadle import Client
from treadle.cli import task as module
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle_server.testing import Served

KEY = new_key()
SEALER = Sealer(FernetCodec(KEY))
SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}}


def test_a_newline_in_a_name_does_not_break_its_line(command: Command, shop: Shop) -> None:
    task = shop.submit(target="arm\nfree", tags={"a\nb": "c\nd"})
    shop.start(task)
    shop.report(task, "step", step="charge\ntwice", occurrence=1, function="charge", result=1, seconds=0.2)
    parent = shop.submit(pool="cpu\ngpu", depends_on={"first\none": task})

    shown = command.said("task", task)
    assert "\ntarget     arm\\nfree\n" in shown
    assert "\ntags       a\\nb=c\\nd\n" in shown
    assert "\nstep 0     charge\\ntwice #2 " in shown
    waiting = command.said("task", parent)
    assert "\npool       cpu\\ngpu\n" in waiting
    assert f"\ndepends on first\\none: {task}" in waiting
    assert command.said("targets", "arm\nfree").startswith("target     arm\\nfree, in @global\n")
    assert command.said("send", task, "go\non") == f"{task} go\\non waits until the task's code receives it\n"


@pytest.mark.parametrize(("end", "code"), [("completed", 0), ("failed", 1)])
@pytest.mark.parametrize("is_json", [False, True])
def test_a_followed_task_is_told_anew_with_each_change_until_its_end(
    command: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch, end: str, code: int, is_json: bool
) -> None:
    first, task = shop.submit(), shop.submit(max_retries=0)
    printed, begun = queue.Queue[str](), module._print_change

    def print_and_tell(item: Any, *, is_json: bool) -> None:
        begun(item, is_json=is_json)
        printed.put(f"{item.status} {item.queue_position} {item.progress and item.progress['share']}")

    def work() -> None:
        wait_for("pending 2 None")
        shop.start(first)
        wait_for("pending 1 None")
        shop.start(task)
        wait_for("running None None")
        shop.report(task, "progress", share=0.4, message="part\n2")
        wait_for("running None 0.4")
        shop.report(task, end, **({"error": "no"} if end == "failed" else {}))

    def wait_for(said: str) -> None:
        while printed.get(timeout=SECONDS) != said:
            pass

    monkeypatch.setattr(module, "_print_change", print_and_tell)
    worker = threading.Thread(target=work)
    worker.start()
    done = command("task", task[:-1], "-f", *(["--json"] if is_json else []))
    worker.join()

    assert done.exit_code == code, done.output
    lines = done.stdout.splitlines()
    if is_json:
        assert [json.loads(line)["id"] for line in lines] == [task] * len(lines)
        assert json.loads(lines[-1])["status"] == end
    else:
        told = [line.partition(" ")[2] for line in lines]
        assert told[0] == "pending, place 2"
        assert "pending, place 1" in told
        assert told[-2] == "running, 40% part\\n2"
        assert told[-1] == {"completed": "completed", "failed": "failed (error)"}[end]


def test_what_waits_for_a_message_without_an_end_is_not_due(command: Command, shop: Shop) -> None:
    task = shop.submit()
    shop.start(task)
    shop.report(task, "suspended", step="answer", receives=True)

    [listed] = [line for line in command.said("tasks").splitlines() if task in line]

    assert "3650d" not in listed
    assert "\ndue " not in command.said("task", task)


def test_the_steps_of_a_task_that_waits_for_a_message_are_read_once(
    command: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were read again for what it waits for."""
    task, read, steps = shop.submit(), list[str](), Client.steps
    shop.start(task)
    shop.report(task, "suspended", step="answer", receives=True)

    async def noted(client: Client, task_id: str) -> Any:
        read.append(task_id)
        return await steps(client, task_id)

    monkeypatch.setattr(Client, "steps", noted)
    told = command.said("task", task)

    assert "it waits for the message 'answer'; send it with `treadle send`" in told
    assert read == [task]


@pytest.mark.parametrize(("seconds", "said"), [(0.0, "no message came until"), (3600.0, "no message; waits until")])
def test_a_receive_whose_time_is_over_does_not_wait(command: Command, shop: Shop, seconds: float, said: str) -> None:
    task = shop.submit()
    shop.start(task)
    shop.report(task, "suspended", step="answer", receives=True, seconds=seconds)

    [told] = [line for line in command.said("task", task).splitlines() if line.startswith("step 0 ")]

    assert f", {said} 20" in told


@pytest.fixture
def keyed(command: Command) -> Command:
    return Command(command.environment | {"TREADLE_ENCRYPTION_KEYS": KEY})


@pytest.fixture
def failed(served: Served, keyed: Command) -> str:
    """Submit a task, and fail it with all that a run can say."""
    with httpx.Client(base_url=served.url, headers=served.headers) as http:
        body = {"category": "tasks", "name": "vault", "schema": SCHEMA, "encrypted": True}
        worker = http.put("/v1/rooms/@global/jobs", json=body).json()["worker_id"]
        task = keyed.said("submit", "@global:tasks:vault", "word=secret-word").strip()
        claim = http.post("/v1/tasks/claim", json={"worker_id": worker}).json()["task"]
        assert claim["id"] == task
        run = f"/v1/tasks/{task}/runs/0"
        error = SEALER.text("KeyError: 'secret-error'", error_class="KeyError")
        for kind, said in (
            ("started", None),
            ("checkpoint", {"checkpoint": SEALER.value(["secret-checkpoint"])}),
            ("logs", {"lines": [{"message": SEALER.text("secret-line")}]}),
            ("failed", {"error": error, "traceback": SEALER.text("secret-trace")}),
        ):
            answer = http.post(f"{run}/{kind}", **({} if said is None else {"json": said}))
            assert answer.status_code == 200, answer.text
    return task


def test_with_the_keys_all_is_shown_in_plain_and_without_them_that_it_is_encrypted(
    command: Command, keyed: Command, failed: str
) -> None:
    opened, closed, listed = keyed.said("task", failed), command.said("task", failed), command.said("tasks")
    strange = Command(command.environment | {"TREADLE_ENCRYPTION_KEYS": new_key()}).said("task", failed)

    for word in ("word", "error", "checkpoint", "line", "trace"):
        assert f"secret-{word}" in opened
    assert "encrypted  yes\n" in opened
    for said in (closed, strange):
        assert "secret" not in said
        assert "treadle:encrypted" not in said
        assert "encrypted  yes, but no key available here can decrypt it" in said
        assert "payload    (encrypted)" in said
        assert said.count("KeyError: (encrypted)") == 2
    assert "treadle:encrypted" not in listed
    assert "secret-word" in keyed.said("tasks")
    assert keyed.read("task", failed)["task"]["payload"] == {"word": "secret-word"}
    assert "treadle:encrypted" in command.read("task", failed)["task"]["payload"]


def test_what_is_submitted_and_edited_without_keys_is_refused_and_says_what_to_set(
    command: Command, keyed: Command, failed: str
) -> None:
    assert "TREADLE_ENCRYPTION_KEYS" in command.refused("submit", "@global:tasks:vault", "word=plain")
    told = keyed.refused("submit", "@global:tasks:vault", "word=7")
    assert """payload.word: 7 is not of type "string"; as text it is written 'word="7"'""" in told
    later = keyed.said("submit", "@global:tasks:vault", "word=x", "--delay", "3600").strip()
    assert "TREADLE_ENCRYPTION_KEYS" in command.refused("edit", later, "--payload", '{"word": "plain"}')
    [edited] = keyed.read("edit", later, "--payload", '{"word": "sealed"}')
    assert edited["payload"] == {"word": "sealed"}
    assert "treadle:encrypted" in str(command.read("task", later)["task"]["payload"])


def test_keys_that_are_none_are_named_by_their_variable(command: Command) -> None:
    said = command.refused("tasks", TREADLE_ENCRYPTION_KEYS="hunter2", code=2)

    assert "TREADLE_ENCRYPTION_KEYS: encryption key 1 of 1 is invalid" in said
    assert "hunter2" not in said
