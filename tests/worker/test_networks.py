"""Networks that misbehave, and what stands between a worker or a client and its server (N4)."""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.wires import wire_to
from tests.waiting import until
from tests.worker.conftest import settings_in, working_at
from tests.worker.fakes import echo, fake_server, session_to
from tests.worker.jobs import Held, double
from tests.worker.proxies import proxy_to
from treadle import Client, Worker
from treadle.errors import ConnectionFailed, ConnectionLost, ProblemError, Unauthorized
from treadle.transport.http import HttpChannel
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio


async def test_a_worker_goes_back_to_the_socket_with_its_id_and_its_runs_n4(
    server: Served, client: Client, caplog: pytest.LogCaptureFixture, until: Any
) -> None:
    """What runs meanwhile runs once, and what comes meanwhile is done."""
    caplog.set_level(logging.INFO, "treadle")
    long = Held()
    async with proxy_to(server.url) as proxy:
        proxy.refuses_sockets = True
        async with working_at(proxy.url, server.token, long.task, double, concurrency=2) as worker:
            first = worker.id
            handle = await long.task.submit()
            await long.begun.wait()
            proxy.refuses_sockets = False

            async def is_on_the_socket() -> bool:
                results = [await (await double.submit(n)).result(timeout=30) for n in range(2)]
                assert results == [0, 2]
                return caplog.text.count("is open for 2 jobs") == 2

            await until(is_on_the_socket)
            long.release.set()

            assert await handle.result(timeout=20) == "run 0"
            assert worker.id == first
            assert [item.id for item in (await client.workers()).items] == [first]


async def test_a_worker_that_loses_its_socket_for_good_goes_on_over_plain_http_n4(
    server: Served, client: Client
) -> None:
    async with proxy_to(server.url) as proxy, working_at(proxy.url, server.token, double) as worker:
        first = worker.id
        assert await (await double.submit(1)).result(timeout=30) == 2
        proxy.refuses_sockets = True
        proxy.cut()

        assert await (await double.submit(2)).result(timeout=30) == 4
        assert worker.id == first
        assert [item.id for item in (await client.workers()).items] == [first]


async def test_every_address_is_tried_for_the_socket_before_plain_http_n4(
    server: Served, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever of the two comes first."""
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxy_to(server.url))
        proxy.refuses_sockets = True
        for _ in range(8):
            worker = working_at(f"{proxy.url},{server.url}", server.token, double)
            await stack.enter_async_context(worker)
        results = [await (await double.submit(n)).result(timeout=30) for n in range(4)]

    assert results == [0, 2, 4, 6]
    assert "plain HTTP" not in caplog.text


async def test_a_client_goes_over_to_plain_http_and_back_and_what_it_waits_for_arrives_n4(
    server: Served, until: Any
) -> None:
    async with proxy_to(server.url) as proxy, Client(proxy.url, server.token) as client:
        pushed = asyncio.ensure_future((await client.submit(double.bind(1), wait=True)).result(timeout=60))
        assert not client.is_plain
        proxy.refuses_sockets = True
        proxy.cut()

        async def is_plain() -> bool:
            return client.is_plain

        await until(is_plain)
        polled = asyncio.ensure_future((await client.submit(double.bind(2))).result(timeout=60))
        proxy.refuses_sockets = False

        async def is_back() -> bool:
            return not client.is_plain

        await until(is_back)
        async with working_at(server.url, server.token, double):
            assert await asyncio.gather(pushed, polled) == [2, 4]


async def test_who_waits_over_plain_http_goes_on_though_a_proxy_reaches_nobody_for_a_websocket_n4(
    server: Served, until: Any
) -> None:
    """As while a server starts again, or where the proxy has another one for them: all waits failed at once."""
    async with proxy_to(server.url) as proxy, Client(proxy.url, server.token) as client:
        proxy.refuses_sockets = True
        handle = await client.submit(double.bind(1))
        polled = asyncio.ensure_future(handle.result(timeout=60))
        assert client.is_plain
        proxy.refusal = "502 Bad Gateway"
        so_far = proxy.refused

        async def is_refused_twice() -> bool:
            return proxy.refused >= so_far + 2

        await until(is_refused_twice)
        assert not polled.done()
        async with working_at(server.url, server.token, double):
            assert await polled == 2


async def test_a_clients_first_request_over_http_is_as_patient_as_those_over_its_socket_n4(server: Served) -> None:
    """Its socket had reached the server, and the first list while that was away failed at once."""
    async with proxy_to(server.url) as proxy, Client(proxy.url, server.token) as client:
        await client.submit(double.bind(1))
        assert not client.is_plain
        proxy.is_down = True
        proxy.cut()
        listed = asyncio.ensure_future(client.list().page())
        await proxy.was_refused.wait()
        proxy.is_down = False

        assert (await listed).total == 1


async def test_a_session_outlives_frames_that_are_none_and_parts_that_fail_n4() -> None:
    """What a stranger says, and a defect in what is called, cost a connection and not the session."""
    pushed: asyncio.Queue[Any] = asyncio.Queue()

    def take(item: dict[str, Any]) -> None:
        pushed.put_nowait(item["of"])

    async with fake_server(echo) as fake, session_to(fake, on_push=take) as session:
        await session.call("ping")
        await fake.connections[-1].send("<html>")
        assert (await session.call("ping"))["echo"]["op"] == "ping"
        await fake.push(push="odd")
        assert (await session.call("ping"))["echo"]["op"] == "ping"
        await fake.push(push="even", of=1)

        assert await pushed.get() == 1


@pytest.mark.parametrize("refuse", [HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND])
async def test_a_proxy_is_no_server_that_refuses_n4(refuse: HTTPStatus) -> None:
    """Its 401 is not ours: the session goes on trying, and is there when the proxy is."""
    async with fake_server(echo) as fake:
        fake.refuse = refuse
        async with session_to(fake) as session:
            with pytest.raises(ConnectionFailed, match=str(refuse.value)):
                await session.call("ping")
            fake.refuse = None
            await until(lambda: session.is_connected)

            assert (await session.call("ping"))["echo"]["op"] == "ping"


@pytest.mark.parametrize("fault", ["gateway", "stranger"])
async def test_what_a_stranger_answers_over_http_is_no_answer_n4(server: Served, fault: Any) -> None:
    async with wire_to(server.url) as wire:
        await wire.begin(fault)
        impatient = HttpChannel((wire.url,), server.token)
        patient = HttpChannel((wire.url,), server.token, patience=30)
        try:
            with pytest.raises(ConnectionFailed, match=r"is a Treadle server there|is not ready"):
                await impatient.request("GET", "/v1/whoami")
            asking = asyncio.ensure_future(patient.request("GET", "/v1/whoami"))
            await until(lambda: wire.met >= 3)
            await wire.restore()

            assert (await asking)["superuser"]
        finally:
            await impatient.close()
            await patient.close()


async def test_what_may_not_be_repeated_is_not_when_its_answer_was_lost_n4(server: Served) -> None:
    """Not at the second address either."""
    async with wire_to(server.url) as one, wire_to(server.url) as other:
        await one.begin("gateway")
        await other.begin("gateway")
        channel = HttpChannel((one.url, other.url), server.token, patience=30)
        try:
            with pytest.raises(ConnectionLost):
                await channel.request("POST", "/v1/tasks/actions", {})
        finally:
            await channel.close()
        assert one.met + other.met == 1


async def test_a_defect_in_one_part_of_a_worker_ends_none_of_the_others_n4(
    server: Served, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from treadle.worker.lease import Leases

    async def broken(self: Leases, online: asyncio.Event) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(Leases, "run", broken)
    async with working_at(server.url, server.token, double):
        assert await (await double.submit(4)).result(timeout=30) == 8
    assert "failed because of a bug" in caplog.text


async def test_a_worker_waits_for_the_token_that_a_server_has_not_written_yet_n4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is a token final that another server left there, and the new one writes over."""
    monkeypatch.delenv("TREADLE_TOKEN", raising=False)
    caplog.set_level(logging.INFO, "treadle")
    async with serve(f"sqlite:///{tmp_path / 'treadle.db'}", data_dir=tmp_path / "data") as server:
        worker = Worker([double], url=server.url, settings=settings_in(tmp_path / "mine"), drain_grace=0.5)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(worker.run_async())
            await until(lambda: "trying again with the token that" in caplog.text)
            assert str(tmp_path / "mine" / "token") in caplog.text
            _write(tmp_path / "mine", "left-from-before")
            await until(lambda: caplog.text.count("trying again with the token that") == 2)
            assert not running.done()
            _write(tmp_path / "mine", server.token)

            async with asyncio.timeout(20):
                await worker.ready.wait()
            worker.stop()


async def test_a_client_finds_the_token_that_is_written_after_it_was_made_n4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.delenv("TREADLE_TOKEN", raising=False)
    async with AsyncExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'treadle.db'}"
        server = await stack.enter_async_context(serve(url, data_dir=tmp_path / "data"))
        async with Client(server.url, settings=settings_in(tmp_path / "mine")) as client:
            with pytest.raises(Unauthorized):
                await client.ping()
            _write(tmp_path / "mine", server.token)

            assert (await client.whoami()).superuser

            async def is_let_in() -> bool:
                with suppress(Unauthorized):
                    return bool(await client.ping())
                return False

            await until(is_let_in)


async def test_a_token_that_its_file_keeps_is_refused_in_the_end_n4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TREADLE_TOKEN", raising=False)
    monkeypatch.setattr("treadle.transport.bearer.KEPT_SECONDS", 0.2)
    _write(tmp_path / "mine", "of-another-server")
    async with serve(f"sqlite:///{tmp_path / 'treadle.db'}", data_dir=tmp_path / "data") as server:
        worker = Worker([double], url=server.url, settings=settings_in(tmp_path / "mine"), drain_grace=0.5)
        async with asyncio.timeout(20):
            with pytest.raises(Unauthorized):
                await worker.run_async()


async def test_a_token_that_was_given_and_is_refused_ends_a_worker_n4(server: Served) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(ProblemError):
            await Worker([double], url=server.url, token="wrong", drain_grace=0.5).run_async()


def _write(directory: Path, token: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "token").write_text(token)
