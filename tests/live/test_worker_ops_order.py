"""What a worker is told of a run comes behind its claim."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.live.conftest import Open
from tests.live.sockets import JOB, NAME, ref, submit
from treadle_server.live import worker_ops

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def carrying_held_up(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncio.Event]:
    """Let what claims carry be read only after the block; the event says that somebody wants to read it."""
    wanted, gate, carried_by = asyncio.Event(), asyncio.Event(), worker_ops.carried_by

    async def slow(*args: Any) -> Any:
        wanted.set()
        await gate.wait()
        return await carried_by(*args)

    monkeypatch.setattr(worker_ops, "carried_by", slow)
    try:
        yield wanted
    finally:
        gate.set()


@pytest.mark.parametrize(("action", "push"), [("cancel", "cancel"), ("pause", "pause")])
async def test_no_stop_of_a_run_overtakes_its_claim_whose_results_are_still_read(
    opened: Open, monkeypatch: pytest.MonkeyPatch, action: str, push: str
) -> None:
    worker, client = await opened(), await opened()
    await worker.call("open", worker={"concurrency": 1}, jobs=[JOB])
    [first] = await submit(client, 1)
    [claim] = await worker.claims(1)
    await worker.call("reports", reports=[{**ref(claim), "kind": "completed", "starts": True}])

    async with carrying_held_up(monkeypatch) as wanted:
        spec = {"job": NAME, "payload": {}, "depends_on": {"first": first["id"]}}
        [second] = (await client.call("submit", room="lab", tasks=[spec]))["tasks"]
        await wanted.wait()
        await client.call("action", id=second["id"], action=action)

    stop = await worker.pushed(push)
    assert stop["runs"] == [ref(second) | {"run_id": 0}]
    assert [one["push"] for one in worker.pushes] == ["claim"]  # it came before
