"""A window that is corrected while the connection with which it was read goes back to the pool."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.live.conftest import Open
from tests.live.sockets import JOB, ref, submit
from tests.live.test_feeds import Mirror
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


async def test_a_window_never_goes_back_behind_what_it_told_while_a_read_ended_g7(
    served: Served, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, client, observer = await opened(), await opened(), await opened()
    await worker.call("open", worker={"concurrency": 1}, jobs=[JOB])
    [task] = await submit(client, 1)
    [claim] = await worker.claims(1)
    window = await Mirror(observer, "w").watch("tasks", window={"filter": {"id": task["id"]}})
    feeds, store = served.app.state.live.feeds, served.engine.store
    [feed] = feeds._feeds.values()
    has_read, gate, read = asyncio.Event(), asyncio.Event(), store.read

    @asynccontextmanager
    async def slow_to_end(**how: Any) -> AsyncIterator[Any]:
        async with read(**how) as connection:
            yield connection
            reader = asyncio.current_task()
            if reader is not None and reader.get_name() == feed.key:
                has_read.set()
                await gate.wait()

    monkeypatch.setattr(store, "read", slow_to_end)
    feeds._mark(feed)
    feeds.wake()
    await has_read.wait()
    await worker.call("reports", reports=[{**ref(claim), "kind": "completed", "starts": True}])
    await window.until(lambda seen: seen.rows[task["id"]]["status"] == "completed")
    gate.set()
    async with feed.lock:
        pass

    assert b'"completed"' in feed.rows.by_key[task["id"]]
