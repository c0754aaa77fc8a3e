"""What happens to the line between a worker, a client and the server: no socket, or none for a while."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.worker.conftest import working_at
from tests.worker.jobs import Held, double
from tests.worker.proxies import proxy_to
from treadle import Client, Options, SyncClient, TaskFailed, WaitTimeout, task
from treadle.client import polls
from treadle.errors import Forbidden, SchemaConflict, TaskNotFound
from treadle.ids import new_task_id
from treadle_server.testing import Served, serve

SOMEDAY = datetime(2999, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.anyio


async def test_everything_works_over_plain_http_when_no_socket_can_be_opened(server: Served) -> None:
    """C1: claims are long-polled for, and results too."""
    async with proxy_to(server.url) as proxy:
        proxy.refuses_sockets = True
        async with Client(proxy.url, server.token) as client, working_at(proxy.url, server.token, double) as worker:
            handles = await client.submit_many([double.bind(number) for number in range(5)], wait=True)
            results = await asyncio.gather(*(handle.result(timeout=30) for handle in handles))
            seen = await client.worker(worker.id or "")

        assert client.is_plain
    assert results == [0, 2, 4, 6, 8]
    assert seen.state == "online"


@pytest.mark.parametrize("way", ["socket", "http"])
async def test_a_task_that_is_not_there_is_told_of_and_one_that_is_expected_is_waited_for(
    server: Served, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(polls, "COMING", 0.01)
    task_id = new_task_id()
    async with proxy_to(server.url) as proxy:
        proxy.refuses_sockets = way == "http"
        async with Client(proxy.url, server.token) as client, working_at(server.url, server.token, double):
            with pytest.raises(TaskNotFound, match=r"client\.expect"):
                await client.handle(task_id).result(timeout=30)
            coming = asyncio.ensure_future(client.expect(task_id).result(timeout=30))
            with pytest.raises(WaitTimeout):
                await client.expect(task_id).result(timeout=0.05)
            await client.submit(double.bind(2), options=Options(id=task_id))

            assert await coming == 4
            assert await client.handle(task_id).result(timeout=30) == 4
            assert client.is_plain is (way == "http")


async def test_a_worker_that_loses_its_server_goes_on_and_reports_later(
    server: Served, client: Client, until: Any
) -> None:
    """T8."""
    long = Held()
    async with proxy_to(server.url) as proxy, working_at(proxy.url, server.token, long.task):
        handle = await long.task.submit()
        await long.begun.wait()

        async def is_running() -> bool:
            return await handle.status() == "running"

        await until(is_running)
        proxy.is_down = True
        proxy.cut()
        long.release.set()
        await proxy.was_refused.wait()
        assert await handle.status() == "running"
        proxy.is_down = False

        assert await handle.result(timeout=20) == "run 0"


async def test_a_client_that_waits_is_told_after_the_connection_broke(server: Served) -> None:
    """T8: what is waited for is asked for again."""
    async with proxy_to(server.url) as proxy, Client(proxy.url, server.token) as client:
        handle = await client.submit(double.bind(4), wait=True)
        waiting = asyncio.ensure_future(handle.result(timeout=20))
        await asyncio.sleep(0)
        proxy.cut()
        async with working_at(server.url, server.token, double):
            assert await waiting == 8


async def test_a_worker_that_the_server_has_forgotten_registers_anew(server: Served, client: Client) -> None:
    async with proxy_to(server.url) as proxy, working_at(proxy.url, server.token, double) as worker:
        first = worker.id
        await client.http().request("DELETE", f"/v1/workers/{first}")
        proxy.cut()

        assert await (await double.submit(3)).result(timeout=20) == 6
        assert (await client.worker(worker.id or "")).state == "online"


async def test_a_changed_schema_is_refused_unless_it_is_to_be_replaced(server: Served, client: Client) -> None:
    @task(name="changing")
    async def old(n: int) -> int:
        return n

    @task(name="changing")
    async def new(n: int, m: int) -> int:
        return n + m

    await client.register(old)
    with pytest.raises(ExceptionGroup) as group:
        async with working_at(server.url, server.token, new):
            pass
    assert group.group_contains(SchemaConflict)
    assert (await client.workers()).items == []

    async with working_at(server.url, server.token, new, replace_schema=True):
        assert await (await new.submit(1, 2)).result(timeout=30) == 3


async def test_a_token_that_may_not_register_globally_is_refused(server: Served, client: Client) -> None:
    bob = await client.create_token("bob")

    with pytest.raises(ExceptionGroup) as group:
        async with working_at(server.url, bob.token, double):
            pass

    assert group.group_contains(Forbidden)


async def test_the_blocking_client_does_the_same(server: Served) -> None:
    def use() -> Any:
        with SyncClient(server.url, server.token) as client:
            one = client.submit(double.bind(21))
            many = client.submit_many([double.bind(n) for n in range(3)], options=Options(tags={"of": "many"}))
            results = [handle.result(timeout=20) for handle in (one, *many)]
            return results, client.list(tag="of=many").total, one.status()

    async with working_at(server.url, server.token, double):
        assert await asyncio.to_thread(use) == ([42, 0, 2, 4], 3, "completed")


async def test_tasks_are_listed_steered_edited_and_settled(client: Client) -> None:
    """T9."""
    first, second = await client.submit_many([double.bind(1), double.bind(2)], options=Options(tags={"k": "v"}))

    assert [item.id for item in (await client.list(status="pending", tag="k=v", job="@global:tasks:double")).items] == [
        second.id, first.id,
    ]  # fmt: skip
    assert (await client.edit(second.id, priority=5)).queue_position == 1
    edited = await first.edit(timeout=timedelta(minutes=1), deadline=SOMEDAY, unique_key="k", tags={"k": "w"})
    assert (edited.timeout, edited.deadline, edited.unique_key, edited.tags) == (60.0, SOMEDAY, "k", {"k": "w"})
    assert (await client.edit(first.id, timeout=None, deadline=None, if_version=edited.version)).timeout is None
    assert (await client.pause(first.id)).status == "paused"
    assert (await client.resolve(first.id, result=7)).settled
    assert await first.result(timeout=30) == 7
    assert (await client.rerun(first.id)).status == "pending"
    assert (await client.act("cancel", ids=[first.id, second.id])).changed == 2
    assert (await client.pause_queue("@global:tasks:double")).paused
    assert not (await client.resume_queue("@global:tasks:double")).paused
    assert (await client.jobs()).items[0].counts["cancelled"] == 2
    assert (await client.whoami()).superuser


async def test_a_room_is_submitted_from_and_the_same_id_is_the_same_task(server: Served) -> None:
    """G6, T3."""
    from treadle import new_task_id

    @task(room="lab")
    async def local(n: int) -> int:
        return n

    chosen = new_task_id()
    async with Client(server.url, server.token) as client:
        first = await client.submit(local.bind(1), options=Options(id=chosen))
        again = await client.submit(local.bind(1), options=Options(id=chosen))

    assert first.id == again.id == chosen
    assert first.submitted is not None
    assert first.submitted.room_id == "lab"


async def test_a_failed_task_carries_its_last_state(server: Served, client: Client) -> None:
    @task(max_retries=0)
    async def broken() -> None:
        raise KeyError("missing")

    async with working_at(server.url, server.token, broken):
        with pytest.raises(TaskFailed, match="KeyError") as failure:
            await (await broken.submit()).result(timeout=30)

    assert failure.value.task.status == "failed"


async def test_a_server_that_comes_back_finds_its_worker_again(tmp_path: Any) -> None:
    """T8."""
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    async with serve(url, data_dir=tmp_path) as first:
        port, token = int(first.url.rsplit(":", 1)[1]), first.token
        stack = working_at(first.url, token, double)
        worker = await stack.__aenter__()
    async with serve(url, data_dir=tmp_path, port=port) as second, Client(second.url, token) as client:
        assert await (await double.submit(5)).result(timeout=20) == 10
        assert (await client.worker(worker.id or "")).state == "online"
        await stack.__aexit__(None, None, None)
