"""Lists: a page when awaited, everything when gone through; the same with the blocking client."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from treadle import Client, Options, SyncClient, task


@task
def first(n: int) -> int:
    return n


@task
def second(n: int) -> int:
    return n


@task
def third(n: int) -> int:
    return n


@pytest.fixture
def submitted(treadle_server: Any) -> list[str]:
    """Five tasks of three jobs, the newest first."""
    with SyncClient(treadle_server.url, treadle_server.token) as client:
        handles = [client.submit(kind.bind(1)) for kind in (first, first, first, second, third)]
    return [handle.id for handle in handles][::-1]


def test_lists_are_gone_through_page_by_page(treadle_server: Any, submitted: list[str]) -> None:
    async def read() -> None:
        async with Client(treadle_server.url, treadle_server.token) as client:
            page = await client.list(limit=2)
            assert ([item.id for item in page], len(page), page.total) == (submitted[:2], 2, 5)
            assert [item.id async for item in client.list(limit=2)] == submitted
            assert [item.id async for item in client.list(limit=2, offset=1)] == submitted[1:]
            assert [item.id async for item in client.list()] == submitted
            assert [item.id async for item in client.list(limit=0)] == []
            # By offset, as all lists but that of tasks.
            assert len([job async for job in client.jobs(limit=2)]) == 3
            assert [item async for item in client.targets()] == []

    asyncio.run(read())


def test_a_blocking_client_goes_through_them_too(treadle_server: Any, submitted: list[str]) -> None:
    with SyncClient(treadle_server.url, treadle_server.token) as client:
        page = client.list(limit=2)
        assert ([item.id for item in page.items], page.total) == (submitted[:2], 5)
        assert [item.id for item in page] == submitted
        assert len(list(client.jobs(limit=1))) == 3
        assert list(client.workers()) == []


@pytest.mark.parametrize("name", [".", "..", "a b", "a?b", "%2e"])
def test_what_is_called_like_a_way_through_folders_is_asked_for_by_its_name(treadle_server: Any, name: str) -> None:
    """A path's `..` would lead to another route, which answered with what was not asked for."""
    with SyncClient(treadle_server.url, treadle_server.token, room=name) as client:
        handle = client.submit(first.bind(1), options=Options(target=name))
        client.set_schedule(name, job=first.full_name, interval=3600, payload={"n": 1})

        assert client.target(name, room=handle.get().room_id).name == name
        assert [found.name for found in client.schedules()] == [name]
        client.delete_schedule(name)
        assert list(client.schedules()) == []


def test_durations_of_schedules_and_of_what_is_removed_are_timedeltas_too(treadle_client: SyncClient) -> None:
    """As in `Every` and `Options`; the server said of a timedelta that it was no valid number."""
    treadle_client.submit(first.bind(1))

    made = treadle_client.set_schedule(
        "daily", job=first.full_name, interval=timedelta(days=1), jitter=timedelta(minutes=1), payload={"n": 1}
    )
    removed = treadle_client.prune(older_than=timedelta(days=30), status="failed", dry_run=True)

    assert (made.interval, made.jitter) == (86_400, 60)
    assert removed.done


@pytest.mark.inside  # the server is told to give little at once
def test_a_page_is_filled_where_the_server_has_looked_through_enough_for_one_request(
    treadle_server: Any, submitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle_server.store.read import walks

    monkeypatch.setattr(walks, "LOOKED_THROUGH", 2)
    firsts = submitted[2:]

    with SyncClient(treadle_server.url, treadle_server.token) as client:
        page = client.list("first", limit=2)
        whole = client.list("first", limit=50)
        assert [one.id for one in page.items] == firsts[:2]
        assert [one.id for one in page] == firsts
        assert [one.id for one in whole.items] == firsts
        assert (whole.total, whole.total_is_capped, whole.is_partial, whole.next_cursor) == (3, False, False, None)
