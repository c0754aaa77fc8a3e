"""A commit that was done and not answered, on each database: whoever looks or waits is told to look anew (G7)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.live.conftest import Open
from tests.live.sockets import JOB, ref, submit
from treadle_server.errors import StoreUnavailable
from treadle_server.store.transaction import hot
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


def unheard_once(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    """Let the next commit that completes a run be done, and its answer be lost."""
    store = served.engine.store
    write, complete, ended = store.write, hot.complete, []

    async def noted(tx: Any, moved: Any, *more: Any) -> None:
        await complete(tx, moved, *more)
        if moved:
            ended.append(tx)

    @asynccontextmanager
    async def unheard(**how: Any) -> AsyncIterator[Any]:
        async with write(**how) as tx:
            yield tx
        if tx in ended:
            monkeypatch.undo()
            raise StoreUnavailable("whether it was done is unknown")

    monkeypatch.setattr(hot, "complete", noted)
    monkeypatch.setattr(store, "write", unheard)


async def test_who_looks_and_who_waits_are_told_and_the_worker_has_its_room_again_g7(
    served: Served, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, client, observer = await opened(), await opened(), await opened()
    await worker.call("open", worker={"concurrency": 1}, jobs=[JOB], prefetch=0)
    first, second = await submit(client, 2, wait=True)
    [claim] = await worker.claims(1)
    await observer.call("every", on=True)
    await observer.call("watch", sub="t", topic="tasks")
    await observer.pushed("snapshot")
    unheard_once(monkeypatch, served)

    refused = await worker.ask("reports", reports=[{**ref(claim), "kind": "completed", "starts": True}])

    assert refused["problem"]["status"] == 503
    await observer.pushed("reload")
    [result] = (await client.pushed("result"))["tasks"]
    assert (result["id"], result["status"]) == (first["id"], "completed")
    # Without a word of the worker, which may have died meanwhile.
    assert [one["id"] for one in await worker.claims(1)] == [second["id"]]
