"""How old what an observer has is: told with each ping, whatever keeps the server from sending."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.live.conftest import Open
from tests.live.sockets import JOB, submit
from tests.live.test_feeds import Mirror
from treadle_server.live.views import JobsView
from treadle_server.testing import Served


@asynccontextmanager
async def reads_held_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Let reads of jobs wait until the block is over."""
    gate, read = asyncio.Event(), JobsView.read

    async def slow(view: JobsView, connection: Any) -> Any:
        await gate.wait()
        return await read(view, connection)

    monkeypatch.setattr(JobsView, "read", slow)
    try:
        yield
    finally:
        gate.set()


async def test_3_a_ping_tells_since_when_something_was_committed_that_was_not_sent(
    served: Served, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    jobs = await Mirror(observer, "jobs").watch("jobs")
    await Mirror(observer, "workers").watch("workers")
    while (await observer.call("ping"))["behind"]:
        pass  # the registration's own mark

    async with reads_held_up(served, monkeypatch):
        await submit(client, 1)
        first = (await observer.call("ping"))["behind"]["jobs"]
        while (await observer.call("ping"))["behind"]["jobs"] < first + 0.01:
            pass  # it grows with each answer

    await jobs.until(lambda seen: any(row["counts"].get("pending") for row in seen.rows.values()))
    while (await observer.call("ping"))["behind"]:
        pass


async def test_3_a_read_that_failed_leaves_what_it_should_have_shown_as_old_as_it_was(
    served: Served, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    await Mirror(observer, "jobs").watch("jobs")
    tried = asyncio.Event()

    async def fail(view: JobsView, connection: Any) -> Any:
        tried.set()
        raise ValueError("as the test wants it")

    monkeypatch.setattr(JobsView, "read", fail)
    await submit(client, 1)
    await tried.wait()

    assert (await observer.call("ping"))["behind"]["jobs"] > 0


async def test_3_a_commit_is_noted_also_of_what_is_to_be_read_anew_already(served: Served, opened: Open) -> None:
    """Time makes some views due, which says nothing of what was committed."""
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    await Mirror(observer, "jobs").watch("jobs")
    while (await observer.call("ping"))["behind"]:
        pass  # the registration's own mark
    feeds = served.app.state.live.feeds
    [feed] = feeds._feeds.values()

    feed.due_at, feed.again_at = float("inf"), 0.0
    feeds._mark_overdue(1.0)
    await submit(client, 1)

    assert feeds.behind(feed) > 0
