"""Which function a job is: two modules' functions of one name share no queue unnoticed."""

import logging
from typing import Any

import pytest

from tests.worker.conftest import working_at
from treadle import Client, Flow, Worker, errors, task
from treadle.client.names import OTHER_VERSION, Names
from treadle.settings import Settings
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


def _shrink_of(module: str) -> Any:
    def shrink(path: str) -> None: ...

    shrink.__module__, shrink.__qualname__ = module, "shrink"
    return task(shrink)


def test_a_reloaded_function_and_a_script_s_own_are_no_second_one_of_the_name() -> None:
    """T1."""
    names = Names(["http://127.0.0.1:1"])

    for module in ("pictures", "pictures", "__main__", "pictures"):
        names.check(_shrink_of(module))


async def test_a_client_refuses_two_modules_functions_of_one_name_before_it_sends_anything() -> None:
    """T1: they would share a queue, and workers of the one would run the other's tasks."""
    client = Client("http://127.0.0.1:1", "token")
    with pytest.raises(errors.TreadleError, match="open"):
        await client.submit(_shrink_of("pictures").bind("a.png"))

    refused = r"pictures\.shrink and videos\.shrink .* share its queue"
    with pytest.raises(errors.DuplicateTask, match=refused):
        await client.submit(_shrink_of("videos").bind("a.mp4"))
    with pytest.raises(errors.DuplicateTask, match=refused):
        await client.submit_many([_shrink_of("videos").bind("a.mp4")])
    with pytest.raises(errors.DuplicateTask, match=refused):
        await client.register(_shrink_of("videos"))


async def test_two_clients_of_one_server_refuse_two_modules_functions_of_one_name_until_one_is_closed() -> None:
    """T1: in one process, however many clients it has."""
    one, other, elsewhere = (Client(f"http://127.0.0.1:{port}", "token") for port in (1, 1, 2))
    pictures, videos = _shrink_of("pictures"), _shrink_of("videos")
    for client, bound in ((one, pictures.bind("a")), (elsewhere, videos.bind("b")), (other, pictures.bind("c"))):
        with pytest.raises(errors.NoClient):
            await client.submit(bound)
    await other.close()

    with pytest.raises(errors.DuplicateTask, match=r"pictures\.shrink and videos\.shrink"):
        await other.submit(videos.bind("d"))
    await one.close()

    with pytest.raises(errors.NoClient):
        await other.submit(videos.bind("d"))


async def test_a_worker_beside_a_client_refuses_another_module_s_function_of_one_name() -> None:
    """T1."""
    client = Client("http://127.0.0.1:1", "token")
    worker = Worker([_shrink_of("videos")], url="http://127.0.0.1:2,http://127.0.0.1:1", token="t")
    with pytest.raises(errors.NoClient):
        await client.submit(_shrink_of("pictures").bind("a"))

    with pytest.raises(errors.DuplicateTask, match=r"pictures\.shrink and videos\.shrink"):
        await worker.run_async()

    del client
    worker.stop()
    await worker.run_async()


def test_a_function_is_told_by_where_it_stands_unless_others_can_not_import_it_from_there() -> None:
    """T1."""
    told = [
        _shrink_of(module).registration(Settings()).get("origin") for module in ("pictures", "__main__", "a" * 1000)
    ]

    @task
    def inner() -> None: ...

    assert told == ["pictures:shrink", None, None]
    assert "origin" not in inner.registration(Settings())


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "share a queue" in record.getMessage()]


async def test_a_worker_warns_of_another_processs_function_of_its_name(
    server: Served, either: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """T1: with both origins and what to do, once; over the socket and over plain HTTP."""
    async with Client(server.url, server.token) as client:
        await client.register(_shrink_of("pictures"))

    with caplog.at_level(logging.WARNING, "treadle"):
        async with either(_shrink_of("videos"), _alone):
            pass
        [warning] = _warnings(caplog)
        async with either(_shrink_of("pictures")):
            pass
        async with either(_shrink_of("videos"), replace_schema=True):
            pass

    assert "@global:tasks:shrink is videos:shrink here, but was registered as pictures:shrink" in warning
    assert "@task(name=…)" in warning
    assert _warnings(caplog) == [warning]


async def test_a_client_that_registers_warns_of_another_processs_function_of_its_name(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """T1: once; a reloaded or renamed function of one module is none, and a script's may be anything."""
    async with working_at(server.url, server.token, _shrink_of("pictures")):
        pass

    with caplog.at_level(logging.WARNING, "treadle"):
        for module in ("pictures", "__main__"):
            async with Client(server.url, server.token) as client:
                await client.register(_shrink_of(module))
        assert _warnings(caplog) == []
        async with Client(server.url, server.token) as client:
            for _ in range(2):
                job = await client.register(_shrink_of("videos"))

    assert job.origin == "pictures:shrink"
    [warning] = _warnings(caplog)
    assert "videos:shrink here, but was registered as pictures:shrink" in warning


@task
async def _alone() -> None: ...


async def test_arguments_that_only_this_version_of_a_function_takes_are_refused_with_what_to_do(
    treadle_async_client: Client,
) -> None:
    """As in a notebook, by a cell that was run again with another signature: the function does have that argument."""

    @task(name="measure")
    def before(n: int) -> int:
        return n

    @task(name="measure")
    def after(n: int, scale: float = 1.0) -> float:
        return n * scale

    async with treadle_async_client as client:
        await client.register(before)
        flow = Flow("measured")
        flow.add(after, n=1, scale=2.0)

        for submitting in (
            client.submit(after.bind(1, scale=2.0)),
            client.submit_many([after.bind(1, scale=2.0)]),
            flow.submit(),
        ):
            with pytest.raises(errors.InvalidPayload, match="'scale' was unexpected") as refused:
                await submitting
            assert refused.value.__notes__ == [OTHER_VERSION]

        with pytest.raises(errors.InvalidPayload) as raw:
            await client.submit_raw(after.full_name, {"n": 1, "scale": 2.0})
        assert not hasattr(raw.value, "__notes__")

        await client.register(after, replace=True)
        assert (await client.submit(after.bind(1, scale=2.0))).id
