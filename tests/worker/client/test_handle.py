"""Handles: how long their results are waited for, which ids they are made of, and that they stay in their process."""

import asyncio
import pickle
from datetime import timedelta
from inspect import signature
from math import inf, nan
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.worker.conftest import working_at
from treadle import Client, Context, Options, SyncClient, TaskFailed, WaitTimeout, task
from treadle.encryption import FernetCodec, new_key
from treadle.errors import CantDecrypt, InvalidArguments, ProblemError, TaskNotFound
from treadle.ids import new_task_id
from treadle.testing.inline import InlineWorker

pytestmark = pytest.mark.anyio


@task
def double(n: int) -> int:
    return 2 * n


@pytest.mark.parametrize("limit", [0.01, timedelta(milliseconds=10), timedelta(0), -1])
async def test_a_wait_ends_after_so_many_seconds_or_a_timedelta(treadle_server: Any, limit: Any) -> None:
    async with Client(treadle_server.url, treadle_server.token) as client:
        handle = await client.submit(double.bind(1))
        for waiting in (handle.result, handle.wait):
            with pytest.raises(WaitTimeout, match=f"{handle.id} had not ended after .* s; it goes on"):
                await waiting(limit)


@pytest.mark.parametrize("limit", [0, timedelta(0), -1])
async def test_the_result_of_a_task_that_has_ended_is_there_without_any_time(treadle_server: Any, limit: Any) -> None:
    """It was said that the task had not ended, and went on."""
    async with (
        working_at(treadle_server.url, treadle_server.token, double),
        Client(treadle_server.url, treadle_server.token) as client,
    ):
        ended = await client.submit(double.bind(2))
        await ended.wait(30)

        assert await client.handle(ended.id).result(limit) == 4
        assert (await client.expect(ended.id).wait(limit)).status == "completed"
        with pytest.raises(TaskNotFound):
            await client.handle(new_task_id()).result(limit)
        with pytest.raises(WaitTimeout):
            await client.expect(new_task_id()).result(limit)


@pytest.mark.parametrize("limit", [nan, "5", True, [1]])
async def test_what_is_no_duration_is_refused_by_name(treadle_server: Any, limit: Any) -> None:
    async with Client(treadle_server.url, treadle_server.token) as client:
        handle = await client.submit(double.bind(1))
        with pytest.raises(
            InvalidArguments, match=r"timeout=.* is not a duration: give a number of seconds, or a timedelta"
        ):
            await handle.result(limit)


def test_a_handle_by_which_was_waited_waits_on_when_its_client_is_opened_again(treadle_server: Any) -> None:
    """The first wait after it raised that the client had been closed, which it was no more."""
    client = SyncClient(treadle_server.url, treadle_server.token)
    with client:
        handle = client.submit(double.bind(4))
        with pytest.raises(WaitTimeout):
            handle.result(0)
    _work(treadle_server)

    with client:
        assert handle.result(30) == 8


@task(max_retries=0)
def second_time(ctx: Context) -> int:
    if ctx.run_id == 0:
        raise ValueError("not yet")
    return 8


def test_what_failed_and_goes_on_is_waited_for_anew_whoever_resumed_it(
    treadle_client: SyncClient, treadle_worker: Any
) -> None:
    """The handle told of the failure for ever, unless it was itself by what the task was resumed."""
    handle = treadle_client.submit(second_time.bind())
    worker = treadle_worker(second_time)
    worker.run_all()
    with pytest.raises(TaskFailed, match="not yet"):
        handle.result(30)

    treadle_client.resume(handle.id)
    worker.run_all()

    assert handle.result(30) == 8
    assert handle.wait(30).status == "completed"


async def test_who_has_no_key_is_told_that_the_error_of_a_task_is_encrypted(treadle_server: Any) -> None:
    """The whole ciphertext stood in what was raised."""
    codec = FernetCodec(new_key())

    @task(max_retries=0, encrypted=True)
    async def whispers() -> None:
        raise ValueError("hush")

    async with (
        Client(treadle_server.url, treadle_server.token, codec=codec) as keyed,
        Client(treadle_server.url, treadle_server.token) as bare,
        working_at(treadle_server.url, treadle_server.token, whispers, codec=codec),
    ):
        handle = await keyed.submit(whispers.bind())
        with pytest.raises(TaskFailed, match=r"failed \(error\): ValueError: hush$"):
            await handle.result(30)
        with pytest.raises(TaskFailed, match=r"failed \(error\): ValueError: \(encrypted\)$"):
            await bare.handle(handle.id).result(30)


@pytest.mark.parametrize("says_so", [True, False])
async def test_a_result_that_the_server_made_up_of_an_encrypted_task_is_none(
    treadle_server: Any, *, says_so: bool
) -> None:
    """It was taken for what the task had returned, also where it was told that the task was encrypted."""

    @task(encrypted=True)
    async def weighs() -> str:
        return "70 kg"

    async with Client(treadle_server.url, treadle_server.token, codec=FernetCodec(new_key())) as keyed:
        async with working_at(treadle_server.url, treadle_server.token, weighs, codec=keyed.sealer.codec):
            handle = await keyed.submit(weighs.bind())
            assert await handle.result(30) == "70 kg"
        handle._ending = asyncio.get_running_loop().create_future()
        handle._ending.set_result({"status": "completed", "encrypted": says_so, "result": "7 kg"})

        with pytest.raises(CantDecrypt, match="is not encrypted: the server has tampered with it"):
            await handle.result(30)


async def test_many_tasks_are_taken_from_whatever_gives_them(treadle_server: Any) -> None:
    """A generator was gone through to be checked: nothing was left of it to be submitted, and nothing was said."""

    def in_a_thread() -> list[Any]:
        with SyncClient(treadle_server.url, treadle_server.token) as blocking:
            return blocking.submit_many(double.bind(n) for n in range(3))

    async with Client(treadle_server.url, treadle_server.token) as client:
        handles = await client.submit_many(double.bind(n) for n in range(3))
        assert [(await handle.get()).payload for handle in handles] == [{"n": 0}, {"n": 1}, {"n": 2}]

    assert len(await asyncio.to_thread(in_a_thread)) == 3


def _work(served: Any) -> None:
    with InlineWorker([double], url=served.url, token=served.token) as worker:
        worker.run_all()


@pytest.mark.parametrize("limit", [None, inf, timedelta.max])
async def test_a_wait_without_end_has_the_result(treadle_server: Any, limit: Any) -> None:
    async with Client(treadle_server.url, treadle_server.token) as client:
        handle = await client.submit(double.bind(4))
        await asyncio.to_thread(_work, treadle_server)
        assert await handle.result(limit) == 8


@pytest.mark.parametrize("given", [str.upper, UUID], ids=["upper case", "UUID"])
async def test_a_task_is_found_by_its_id_as_databases_and_frameworks_give_it(treadle_server: Any, given: Any) -> None:
    """Its end is told of by the id that the server writes: under another it was waited for without end."""
    async with Client(treadle_server.url, treadle_server.token) as client:
        handle = await client.submit(double.bind(4))
        await asyncio.to_thread(_work, treadle_server)

        assert await client.handle(given(handle.id)).result(5) == 8
        assert await client.expect(given(handle.id)).result(5) == 8


ASKED_BY_ID = sorted(
    name
    for name in dir(Client)
    if not name.startswith("_")
    and callable(method := getattr(Client, name))
    and signature(method).parameters.keys() & {"task_id", "flow_id", "worker_id", "token_id"}
)


@pytest.mark.parametrize("method", ASKED_BY_ID)
async def test_whatever_takes_an_id_takes_it_as_databases_and_frameworks_give_it(
    treadle_server: Any, tmp_path: Path, method: str
) -> None:
    """What made a path of it raised a TypeError about bytes."""
    text = new_task_id()
    more = {"name": "a", "to": tmp_path}
    wanted = {name: more[name] for name in signature(getattr(Client, method)).parameters if name in more}

    async def said(given: Any) -> str:
        async with Client(treadle_server.url, treadle_server.token) as client:
            if method in {"handle", "expect", "ending"}:
                found = getattr(client, method)(given)
                assert found is client.ending(text) if method == "ending" else found.id == text
                return text
            with pytest.raises(ProblemError) as refused:
                await getattr(client, method)(given, **wanted)
        return str(refused.value)

    def said_to_sync(given: Any) -> str:
        with SyncClient(treadle_server.url, treadle_server.token) as client, pytest.raises(ProblemError) as refused:
            getattr(client, method)(given, **wanted)
        return str(refused.value)

    answer = await said(text)
    assert await said(UUID(text)) == answer
    if method not in {"handle", "expect", "ending"}:
        assert await asyncio.to_thread(said_to_sync, UUID(text)) == answer


async def test_lists_take_uuids_where_ids_are_meant(treadle_server: Any) -> None:
    async with Client(treadle_server.url, treadle_server.token) as client:
        handle = await client.submit(double.bind(1))
        await asyncio.to_thread(_work, treadle_server)

        [task] = (await client.list(id=UUID(handle.id))).items
        [run] = await client.runs(handle.id)
        assert run.worker_id is not None
        by_worker = (await client.list(worker=UUID(run.worker_id))).items
        acted = await client.act("rerun", ids=[UUID(handle.id)])
    assert (task.id, acted.changed, handle.id in {one.id for one in by_worker}) == (handle.id, 1, True)


async def test_options_take_uuids_where_ids_are_meant(treadle_server: Any) -> None:
    first, second, third = UUID(new_task_id()), UUID(new_task_id()), UUID(new_task_id())
    async with Client(treadle_server.url, treadle_server.token) as client:
        a = await client.submit(double.bind(1), options=Options(id=first))
        b = await client.submit(double.bind(2), options=Options(id=second, depends_on={"a": first}))
        c = await client.submit(double.bind(3), options=Options(id=third, depends_on={"both": [first, second]}))

        assert [a.id, b.id, c.id] == [str(first), str(second), str(third)]
        assert (await c.get()).status == "blocked"


@pytest.mark.parametrize("kind", [Client, SyncClient])
def test_a_client_and_a_handle_that_are_to_be_pickled_say_what_to_give_instead(kind: Any) -> None:
    client = kind(url="http://127.0.0.1:1", token="secret")

    with pytest.raises(TypeError, match=r"because it has a connection: create one in each"):
        pickle.dumps(client)
    with pytest.raises(TypeError, match=r"because it has a connection: send its id, and use client\.handle\(id\)"):
        pickle.dumps(client.handle(new_task_id()))
