"""Which tasks' logs are read, and how often; lines that are encrypted are opened where a key fits."""

from typing import Any

import pytest

from tests.tui.mock import FrozenClock
from tests.tui.scene import at, uuid
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle.wire.filters import TaskFilter
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.state.logs import MergedLog
from treadle_tui.core.state.model import Model
from treadle_tui.core.verbs.log_reader import TASKS, LogReader

SEALER = Sealer(FernetCodec(new_key()))


class Server:
    """Answers with some tasks and their lines, and notes what it is asked."""

    def __init__(self, *statuses: str, message: str = "frame 3") -> None:
        self.tasks = [
            {"id": uuid(number), "version": 1, "status": status, "job_name": "lab:tasks:add"}
            for number, status in enumerate(statuses)
        ]
        self.message = message
        self.asked: list[str] = []
        self.frozen: dict[str, Any] = {}
        self.found = 0

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        if op == "freeze":
            self.frozen = fields
            self.found += 1
            return {"items": self.tasks, "is_capped": True, "at": at(0)}
        self.asked.append(fields["id"])
        return {"items": [{"run_id": 0, "at": at(1), "level": "info", "message": self.message}]}


def reader(server: Server, log: MergedLog, sealer: Sealer | None = None, **more: Any) -> LogReader:
    feed = Feed(Model(FrozenClock(), sealer), server)  # type: ignore[arg-type]
    return LogReader(feed, log, TaskFilter(job="lab:tasks:add"), **more)


async def test_the_tasks_that_changed_last_are_asked_for_and_those_that_rest_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, log = Server("running", "completed", "failed"), MergedLog()
    monkeypatch.setattr(Feed, "request", lambda _, op, **fields: server.request(op, **fields))
    reading = reader(server, log)

    assert await reading.look()
    assert server.frozen == {"filter": {"job": "lab:tasks:add"}, "order": "updated", "limit": TASKS}
    assert server.asked == [uuid(0), uuid(1), uuid(2)]
    assert (reading.tasks, reading.is_capped) == (3, True)

    server.tasks[2]["version"] += 1
    assert not await reading.look()
    assert server.asked[3:] == [uuid(0), uuid(2)]


@pytest.mark.parametrize(
    ("sealer", "said"), [(SEALER, "frame 3"), (Sealer(FernetCodec(new_key())), "encrypted"), (None, "encrypted")]
)
async def test_an_encrypted_line_is_opened_where_a_key_fits_and_else_said_to_be_so(
    sealer: Sealer | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, log = Server("running", message=SEALER.text("frame 3")), MergedLog()
    monkeypatch.setattr(Feed, "request", lambda _, op, **fields: server.request(op, **fields))

    await reader(server, log, sealer).look()

    assert said in log.rows[0].message
    assert server.message not in log.rows[0].message


async def test_nothing_is_asked_about_while_nothing_runs_and_nobody_tells_of_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, told = Server("completed", "failed"), [object()]
    monkeypatch.setattr(Feed, "request", lambda _, op, **fields: server.request(op, **fields))
    reading = reader(server, MergedLog(), told=lambda: told[0])
    await reading.look()

    await reading.look()
    assert (server.found, len(server.asked)) == (1, 2)

    told[0] = object()
    server.tasks[1]["version"] += 1
    await reading.look()
    assert (server.found, server.asked[2:]) == (2, [uuid(1)])


async def test_the_tasks_are_looked_for_for_a_tenth_of_the_time_at_most_and_what_runs_is_read_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, now = Server("running"), 0.0

    async def request(_: Feed, op: str, **fields: Any) -> dict[str, Any]:
        nonlocal now
        now += 3.0 if op == "freeze" else 0.0
        return await server.request(op, **fields)

    monkeypatch.setattr(Feed, "request", request)
    reading = reader(server, MergedLog(), steady=lambda: now)
    await reading.look()

    now += 26.0
    await reading.look()
    assert (server.found, len(server.asked)) == (1, 2)

    now += 1.0
    await reading.look()
    assert server.found == 2
