"""Verbs whose answer was lost: what was done is not done once more, and what was not is (G6)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

import pytest

from tests.chaos.wires import Wire
from tests.waiting import until
from tests.worker.conftest import working_at
from treadle import Client, TaskHandle, task
from treadle.errors import TaskFailed
from treadle.wire.status import Status
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


class Losing(Wire):
    """Loses the next request, or its answer, once it is told to, and then lets nobody through until it is restored."""

    loses: Literal["request", "answer"] | None = None

    def cut_at(self, data: bytes, *, is_sent: bool) -> int | None:
        if self.loses != ("request" if is_sent else "answer"):
            return None
        self.loses = None
        assert self._server is not None
        self._server.close()
        return 0


@pytest.fixture
async def wire(server: Served) -> AsyncIterator[Losing]:
    wire = Losing(server.url)
    await wire.listen()
    yield wire
    wire.close()


@task(max_retries=0)
async def fails() -> None:
    raise ValueError("always")


def lose(what: Literal["request", "answer"], of: Client, wire: Losing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the first verb that the client sends lose its request or its answer."""
    call, verbs = of.call, [what]

    async def sent(op: str, fields: Mapping[str, Any] | None = None, **how: Any) -> Any:
        if op == "action" and verbs:
            wire.loses = verbs.pop()
        return await call(op, fields, **how)

    monkeypatch.setattr(of, "call", sent)


async def has_failed(handle: TaskHandle[None]) -> None:
    with pytest.raises(TaskFailed):
        await handle.result(timeout=30)


@pytest.mark.parametrize("verb", ["rerun", "resume"])
async def test_what_ran_and_ended_before_its_answer_was_missed_does_not_run_once_more(
    server: Served, client: Client, wire: Losing, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working_at(server.url, server.token, fails), Client(wire.url, server.token) as far:
        handle = await client.submit(fails.bind())
        await has_failed(handle)
        await far.get(handle.id)
        lose("answer", far, wire, monkeypatch)

        asking = asyncio.ensure_future(getattr(far, verb)(handle.id))
        await until(lambda: client.get(handle.id), lambda item: (item.run_id, item.status) == (1, Status.FAILED))
        await wire.is_met.wait()  # the run may end before the answer has come that far
        await wire.restore()

        assert (await asking).run_id == 1
        assert [run.run_id for run in await handle.runs()] == [0, 1]
        assert (await handle.get()).status is Status.FAILED


@pytest.mark.parametrize("verb", ["rerun", "resume"])
async def test_what_was_lost_on_the_way_is_done_when_there_is_one_again(
    server: Served, client: Client, wire: Losing, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(wire.url, server.token) as far:
        async with working_at(server.url, server.token, fails):
            handle = await client.submit(fails.bind())
            await has_failed(handle)
        await far.get(handle.id)
        lose("request", far, wire, monkeypatch)

        asking = asyncio.ensure_future(getattr(far, verb)(handle.id))
        await wire.is_met.wait()
        await wire.restore()

        assert (await asking).status is Status.PENDING
