"""What a task's code is given to show to the server, in each isolation (C9, G10)."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.worker import jobs
from treadle import Client, Context, Options, SyncClient, TaskFailed, task
from treadle.clock import monotonic
from treadle.errors import ConnectionFailed, StaleRun, error_for, problem_named
from treadle.tasks.awaitables import Credential
from treadle.worker.credentials import Credentials
from treadle.worker.lease import Held
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    """The SDK is the same whatever the database is."""
    async with serve() as served:
        yield served


SUBMITS = Options(scopes=["queue:create-task:@global/*", "queue:read:@global"])


@task(max_retries=0)
async def shows(ctx: Context) -> str:
    return await ctx.credentials()


@task(max_retries=0)
def shows_in_thread(ctx: Context) -> str:
    credential = ctx.credentials()
    assert isinstance(credential, str)
    return credential


@task(max_retries=0)
async def submits(ctx: Context, n: int) -> int:
    async with ctx.client() as client:
        handle = await client.submit(jobs.small.bind(n=n))
        return await handle.result(timeout=20)


@task(max_retries=0)
def submits_in_thread(ctx: Context, n: int) -> int:
    with SyncClient(ctx.url, ctx.credentials) as client:
        return client.submit(jobs.small.bind(n=n)).result(timeout=20)


async def who_shows(server: Served, credential: str) -> Any:
    headers = {"Authorization": f"Bearer {credential}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as code:
        return (await code.get("/v1/whoami")).json()


async def test_c9_code_of_every_isolation_gets_a_credential_of_its_own_run(
    server: Served, client: Client, either: Any, until: Any
) -> None:
    async with either(jobs.shows_and_waits, shows, shows_in_thread):
        process = await client.submit(jobs.shows_and_waits.bind())
        for one in (shows, shows_in_thread):
            handle = await client.submit(one.bind())
            credential = await handle.result(timeout=20)
            assert credential.count(".") == 2
            # The run is over: its credential is dead.
            assert (await who_shows(server, credential))["status"] == 401

        async def has_shown() -> bool:
            return bool(await client.logs(process.id))

        await until(has_shown)
        [line] = await client.logs(process.id)
        shown = await who_shows(server, line.message)
        await client.cancel(process.id)

    assert shown["scopes"] == [f"queue:claim-task:{process.id}/0"]
    assert shown["superuser"] is False


@pytest.mark.parametrize("one", [submits, submits_in_thread, jobs.submits_in_process])
async def test_g10_a_tasks_client_submits_what_its_scopes_allow_and_nothing_without_them(
    client: Client, working: Any, one: Any
) -> None:
    async with working(one, jobs.small, concurrency=2):
        allowed = await client.submit(one.bind(n=1), options=SUBMITS)
        assert await allowed.result(timeout=30) == 2
        refused = await client.submit(one.bind(n=1))
        await refused.wait(timeout=30)
        error = (await refused.get()).error

    assert error is not None
    assert "Forbidden" in error


async def test_code_that_waits_for_what_it_submits_is_told_of_the_scope_that_this_takes(
    client: Client, working: Any
) -> None:
    async with working(submits, jobs.small, concurrency=2):
        blind = await client.submit(submits.bind(n=1), options=Options(scopes=["queue:create-task:@global/*"]))

        with pytest.raises(TaskFailed, match="credential needs the scope queue:read of its room"):
            await blind.result(timeout=30)


async def test_g10_a_child_process_does_not_inherit_the_workers_token(
    client: Client, working: Any, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_TOKEN", server.token)
    monkeypatch.setenv("treadle_token", server.token)
    monkeypatch.setenv("TREADLE_TEST_KEPT", "kept")

    async with working(jobs.environment):
        seen = await (await client.submit(jobs.environment.bind())).result(timeout=30)

    assert seen["TREADLE_TEST_KEPT"] == "kept"
    assert server.token not in seen.values()
    assert os.environ["TREADLE_TOKEN"] == server.token


class FakeServer:
    """Answers reclaims; each with another credential."""

    def __init__(self) -> None:
        self.asked = 0
        self.failing: list[Exception] = []

    async def reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        if self.failing:
            raise self.failing.pop(0)
        self.asked += 1
        return {**ref, "seconds_left": 60.0, "credentials": f"c{self.asked}"}


def held(**claim: Any) -> Held:
    return Held({"id": "t", "run_id": 0, "seconds_left": 60.0, **claim}, monotonic())


def credentials_of(server: FakeServer) -> Credentials:
    online = asyncio.Event()
    online.set()
    return Credentials(server.reclaim, online, ("http://x",))


async def test_a_credential_is_asked_for_once_and_again_when_half_of_its_lease_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, run, passed = FakeServer(), held(), 0.0
    monkeypatch.setattr("treadle.worker.credentials.monotonic", lambda: monotonic() + passed)
    credentials = credentials_of(server)

    assert [await credentials.of(run), await credentials.of(run)] == ["c1", "c1"]
    passed = 31.0

    assert [await credentials.of(run), await credentials.of(run)] == ["c2", "c2"]
    assert server.asked == 2


async def test_a_claim_that_came_with_a_credential_needs_no_reclaim() -> None:
    server = FakeServer()

    assert await credentials_of(server).of(held(credentials="given")) == "given"
    assert server.asked == 0


async def test_a_broken_connection_is_waited_for_and_a_lost_run_is_told() -> None:
    server, run = FakeServer(), held()
    server.failing = [ConnectionFailed("gone"), error_for(problem_named("stale-run", "over"))]
    credentials = credentials_of(server)

    with pytest.raises(StaleRun):
        await credentials.of(run)

    assert await credentials.of(run) == "c1"


@pytest.mark.parametrize("odd", [7, {}, {"credentials": "c", "seconds_left": "long"}, "store-unavailable"])
async def test_code_does_not_see_that_the_server_could_not_answer_its_request_for_a_credential(
    odd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It was a `KeyError` or a `TypeError` in the task's code, which failed by it; so it did by a database's outage."""
    answers = [odd, {"credentials": "c1", "seconds_left": 60.0}]

    async def reclaim(ref: dict[str, Any]) -> Any:
        if isinstance(answer := answers.pop(0), str):
            raise error_for(problem_named(answer, "not now"))
        return answer

    server = FakeServer()
    server.reclaim = reclaim  # type: ignore[method-assign]

    assert await credentials_of(server).of(held()) == "c1"
    [record] = caplog.records
    assert record.getMessage().startswith("a credential could not be had yet: ")


async def test_a_credential_at_hand_may_be_awaited_as_well() -> None:
    credential = Credential("x")

    assert await credential == "x"
    assert isinstance(await credential, Credential)
