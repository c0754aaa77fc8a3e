"""What leaves the screen for the server: an edit or a copy of an encrypted task is sealed, and so is its undo."""

from typing import Any

import pytest

from tests.tui.mock import FrozenClock
from tests.tui.scene import job, task, uuid
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle.wire.sealed import LIMIT_KEYS, MARK, seal_of
from treadle.wire.tasks import TaskItem
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.state.model import Model
from treadle_tui.core.verbs.executor import Executor
from treadle_tui.core.verbs.requests import TaskRequests

SEALER = Sealer(FernetCodec(new_key()))
COPY = uuid(2)
PAYLOAD = {"word": "secret"}


class Server:
    """Answers with one encrypted task, and notes what it is asked."""

    def __init__(self, **more: Any) -> None:
        self.task = {**task(1), "encrypted": True, "payload": SEALER.value(PAYLOAD), "version": 4, **more}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        self.asked.append((op, fields))
        return {"tasks": [self.task]} if op == "submit" else self.task


def executor(server: Server, sealer: Sealer, clock: FrozenClock) -> Executor:
    model = Model(clock, sealer)
    model.opened({})
    return Executor(model, Feed(model, server))  # type: ignore[arg-type]


def requests(executor: Executor) -> TaskRequests:
    return TaskRequests(executor._model, executor._feed, executor)


async def test_a_task_is_fetched_in_plain_and_its_edit_and_the_undo_go_back_sealed(clock: FrozenClock) -> None:
    server = Server(status="scheduled")
    verbs = executor(server, SEALER, clock)
    asking = requests(verbs)

    one = await asking.fetch("x")
    report = await asking.save(one, {"payload": {"word": "other"}, "priority": 3}, copy_id=COPY)

    assert one.payload == PAYLOAD
    assert report.ok, report.text
    op, fields = server.asked[-1]
    assert (op, SEALER.open_value(fields["payload"]), fields["priority"]) == ("edit", {"word": "other"}, 3)
    assert seal_of(fields["payload"]) is not None
    back = asking._executor.undo_asks()[0].fields if hasattr(asking._executor, "undo_asks") else None
    assert back is None


async def test_without_keys_a_copy_carries_the_ciphertext_and_a_changed_payload_is_refused(clock: FrozenClock) -> None:
    server = Server(status="completed")
    asking = requests(executor(server, Sealer(None), clock))

    one = await asking.fetch("x")
    copied = await asking.save(one, {"priority": 3}, copy_id=COPY)
    refused = await asking.save(one, {"payload": {"word": "secret"}}, copy_id=COPY)

    assert copied.ok, copied.text
    assert server.asked[-1][1]["tasks"][0]["payload"] == server.task["payload"]
    assert (refused.ok, "TREADLE_ENCRYPTION_KEYS" in refused.text) == (False, True)


@pytest.mark.parametrize("sealer", [SEALER, Sealer(FernetCodec(new_key()))], ids=["its key", "another"])
async def test_a_copy_is_sealed_once(sealer: Sealer, clock: FrozenClock) -> None:
    server = Server(status="completed")
    asking = requests(executor(server, sealer, clock))

    await asking.save(await asking.fetch("x"), {"priority": 3}, copy_id=COPY)

    [copy] = server.asked[-1][1]["tasks"]
    assert SEALER.open_value(copy["payload"]) == PAYLOAD
    assert TaskItem.model_validate({**server.task, "payload": copy["payload"]}).encrypted


async def test_what_is_edited_tells_the_keys_of_its_limits_which_the_server_can_not_read(clock: FrozenClock) -> None:
    server, limits = Server(status="scheduled"), [{"name": "words", "key": "/word"}, {"name": "all"}]
    verbs = executor(server, SEALER, clock)
    row = job(server.task["job_name"], 1, counts={}, wave=0, oldest=None, workers=[], defaults={"limits": limits})
    verbs._model.jobs.expect("jobs")
    verbs._model.apply({"push": "snapshot", "sub": "jobs", "topic": "jobs", "seq": 1, "total": 1, "rows": [row]})

    asking = requests(verbs)
    report = await asking.save(await asking.fetch("x"), {"payload": {"word": "other"}}, copy_id=COPY)

    assert report.ok, report.text
    payload = server.asked[-1][1]["payload"]
    assert payload == {MARK: payload[MARK], LIMIT_KEYS: {"/word": SEALER.digest(b"limit-key\0other")}}
