"""The pytest plugin, as a project's own tests use it, and the inline worker."""

import asyncio
import sys
from contextvars import ContextVar
from typing import Any

import pytest

from treadle import Client, Context, Flow, Options, Retry, SyncClient, task
from treadle.encryption import FernetCodec, new_key
from treadle.errors import BadValue, WouldBlock
from treadle.testing.inline import InlineWorker
from treadle.wire.fields import MOST_OF_REQUEST

pytest_plugins = ["pytester"]

TESTS = """
from treadle import task

@task
def double(n: int) -> int:
    return 2 * n

def test_double(treadle_client, treadle_worker):
    handle = treadle_client.submit(double.bind(21))
    ended, = treadle_worker(double).run_all()
    assert ended.status == "completed"
    assert handle.result(timeout=30) == 42
"""


def test_a_project_tests_its_tasks_with_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1)


def test_an_encrypted_task_runs_inline_with_the_keys_of_the_environment(
    treadle_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @task(encrypted=True, max_retries=0)
    async def whisper(ctx: Context, word: str) -> str:
        ctx.log(f"said {word}")
        if ctx.checkpoint is None:
            await ctx.save([word])
        if word == "no":
            raise KeyError(word)
        return word

    bare = SyncClient(treadle_server.url, treadle_server.token)
    monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS", new_key())
    with (
        bare,
        SyncClient(treadle_server.url, treadle_server.token) as client,
        InlineWorker([whisper], url=treadle_server.url, token=treadle_server.token) as worker,
    ):
        handles = [client.submit(whisper.bind(word)) for word in ("secret", "no")]
        done, failed = worker.run_all()

        assert handles[0].result(timeout=30) == "secret"
        assert (done.result, done.checkpoint, failed.error) == ("secret", ["secret"], "KeyError: 'no'")
        assert "secret" not in repr([bare.get(done.id), bare.logs(done.id)])


def test_a_client_of_a_task_inline_has_the_keys_of_its_worker(treadle_server: Any) -> None:
    @task(encrypted=True)
    async def inner(word: str) -> str:
        return word

    @task
    async def outer(ctx: Context) -> str:
        async with ctx.client() as client:
            return str((await client.submit(inner.bind("secret"))).id)

    codec = FernetCodec([new_key()])
    where = {"url": treadle_server.url, "token": treadle_server.token, "codec": codec}
    with SyncClient(**where) as client, InlineWorker([outer, inner], **where) as worker:
        client.register(inner)
        client.submit(outer.bind(), options=Options(scopes=[f"queue:create-task:@global/{inner.full_name}"]))
        ended = worker.run_all()

    assert [(one.error, one.status) for one in ended] == [(None, "completed")] * 2


def test_tasks_run_inline_in_the_order_of_the_queue_until_nothing_is_due(
    treadle_server: Any, treadle_client: SyncClient
) -> None:
    seen: list[tuple[str, int]] = []

    @task(retry_base=0)
    def first(ctx: Context, name: str) -> str:
        seen.append((name, ctx.run_id))
        ctx.progress(0.5)
        ctx.log("here")
        ctx.save(ctx.run_id)
        if name == "b" and ctx.run_id == 0:
            raise Retry(0)
        return name

    @task
    async def later(ctx: Context) -> Any:
        return ctx.resources

    handles = treadle_client.submit_many([first.bind("a"), first.bind("b"), first.bind("c")])
    other = treadle_client.submit(later.bind())
    with InlineWorker([first, later], url=treadle_server.url, token=treadle_server.token, resources=9) as worker:
        ended = worker.run_all()

    assert {item.status for item in ended if item.run_id == 1 or item.payload != {"name": "b"}} == {"completed"}
    assert sorted(seen) == [("a", 0), ("b", 0), ("b", 1), ("c", 0)]
    assert [handle.result(timeout=30) for handle in handles] == ["a", "b", "c"]
    assert other.result(timeout=30) == 9


def test_the_fixture_s_worker_has_the_resources_and_the_middleware_that_a_test_gives(
    treadle_client: SyncClient, treadle_worker: Any
) -> None:
    """What a worker's `lifespan` makes was None, and a task that needs it could not be tested by the fixture."""

    @task
    def row(ctx: Context, key: str) -> str:
        return str(ctx.resources[key])

    async def louder(ctx: Context, call_next: Any) -> Any:
        return f"{await call_next()}!"

    handle = treadle_client.submit(row.bind("a"))

    treadle_worker(row, resources={"a": "one"}, middleware=[louder]).run_all()

    assert handle.result(timeout=30) == "one!"


def test_results_that_are_too_large_for_a_claim_are_read_inline_too(
    treadle_client: SyncClient, treadle_worker: Any
) -> None:
    """F2."""

    @task
    def page(size: int) -> str:
        return "x" * size

    @task
    def length(parts: list[str]) -> int:
        return sum(map(len, parts))

    flow = Flow()
    whole = flow.add(length, parts=[flow.add(page, size=600_000), flow.add(page, size=700_000)])
    flow.submit_sync()

    *_, ended = treadle_worker(page, length).run_all()

    assert (ended.id, ended.error, ended.result) == (flow.id_of(whole), None, 1_300_000)


def test_a_checkpoint_is_stored_before_the_code_goes_on_inline_too(
    treadle_client: SyncClient, treadle_worker: Any
) -> None:
    @task
    def saves(ctx: Context) -> list[Any]:
        ctx.save(["first"])
        stored = treadle_client.get(ctx.task.id).checkpoint
        try:
            ctx.save("x" * 20_000_000)
        except BadValue as error:
            return [stored, str(error).partition(":")[0]]
        return [stored]

    treadle_client.submit(saves.bind())

    [ended] = treadle_worker(saves).run_all()

    assert (ended.error, ended.result, ended.checkpoint) == (None, [["first"], "checkpoint"], ["first"])


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_result_that_the_server_does_not_take_fails_its_run_inline_and_the_others_go_on(
    treadle_server: Any, encrypted: bool
) -> None:
    @task(encrypted=encrypted)
    def page(ctx: Context, size: int) -> str:
        ctx.log("here")
        return "x" * size

    where = {"url": treadle_server.url, "token": treadle_server.token, "codec": FernetCodec([new_key()])}
    with SyncClient(**where) as client, InlineWorker([page], **where) as worker:
        client.submit_many([page.bind(20_000_000), page.bind(3)])
        large, small = worker.run_all()

        assert (large.status, large.reason, small.result) == ("failed", "internal-error", "xxx")
        assert large.error is not None
        assert large.error.startswith("result: can't be kept: ")
        assert [line.message for line in client.logs(large.id)] == ["here"]


def test_lines_that_are_too_large_together_are_told_inline_in_parts(
    treadle_client: SyncClient, treadle_worker: Any
) -> None:
    @task
    def tells(ctx: Context) -> int:
        for number in range(400):
            ctx.log(f"{number} {'x' * 60_000}")
        return 3

    treadle_client.submit(tells.bind())

    [ended] = treadle_worker(tells).run_all()

    assert (ended.error, ended.result) == (None, 3)


def test_code_that_says_more_than_one_request_may_have_runs_inline_too(
    treadle_client: SyncClient, treadle_worker: Any
) -> None:
    @task
    def counts(ctx: Context, most: int) -> int:
        for number in range(most):
            ctx.progress(number / most)
        return most

    treadle_client.submit(counts.bind(MOST_OF_REQUEST))

    [ended] = treadle_worker(counts).run_all()

    assert (ended.status, ended.result) == ("completed", MOST_OF_REQUEST)


def test_a_payload_that_does_not_fit_fails_inline_too(treadle_client: SyncClient, treadle_worker: Any) -> None:
    """T7."""

    @task(name="same")
    def loose(n: Any): ...

    @task(name="same")
    def strict(n: int): ...

    treadle_client.register(loose)
    treadle_client.submit(loose.bind("x"))
    worker = treadle_worker(strict)
    with pytest.raises(Exception, match="Schema conflict"):
        worker.run_all()
    ended = treadle_worker(loose).run_all()

    assert [item.status for item in ended] == ["completed"]


@task(name="leaves", max_retries=0)
def leaves() -> None:
    sys.exit("no such file")


@task(name="leaves_later", max_retries=0)
async def leaves_later() -> None:
    sys.exit("no such file")


@task(name="cancels_itself", max_retries=0)
async def cancels_itself() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("each", "error"),
    [
        (leaves, "SystemExit: no such file"),
        (leaves_later, "SystemExit: no such file"),
        (cancels_itself, "CancelledError"),
    ],
)
def test_code_that_leaves_python_or_is_cancelled_fails_as_in_a_real_worker(
    treadle_client: SyncClient, treadle_worker: Any, each: Any, error: str
) -> None:
    """It ended the test, and its task stayed claimed."""
    treadle_client.submit(each.bind())
    treadle_client.submit(each.bind())

    assert [(ended.status, ended.error) for ended in treadle_worker(each).run_all()] == 2 * [("failed", error)]


@task(name="ends_the_test", max_retries=0)
def ends_the_test() -> None:
    pytest.skip("without what it needs")


def test_what_ends_a_test_goes_through(treadle_client: SyncClient, treadle_worker: Any) -> None:
    treadle_client.submit(ends_the_test.bind())

    with pytest.raises(pytest.skip.Exception, match="without what it needs"):
        treadle_worker(ends_the_test).run_all()


def test_a_function_that_is_not_async_runs_in_no_event_loop(treadle_client: SyncClient, treadle_worker: Any) -> None:
    """As in a worker's thread: Django's models refused to be used in tests of tasks, and so did `asyncio.run`."""

    @task(max_retries=0)
    def nested(n: int) -> int:
        async def double() -> int:
            return 2 * n

        return asyncio.run(double())

    handle = treadle_client.submit(nested.bind(21))
    treadle_worker(nested).run_all()

    assert handle.result(timeout=30) == 42


def test_a_task_sees_the_context_of_the_test_that_runs_it(treadle_client: SyncClient, treadle_worker: Any) -> None:
    tenant = ContextVar("tenant", default="nobody")

    @task
    def plain() -> str:
        return tenant.get()

    @task(name="in_the_loop")
    async def in_the_loop() -> str:
        return tenant.get()

    worker = treadle_worker(plain, in_the_loop)
    worker.run_all()
    tenant.set("ann")
    treadle_client.submit_many([plain.bind(), in_the_loop.bind()])

    assert [ended.result for ended in worker.run_all()] == ["ann", "ann"]


async def test_a_coroutine_is_told_to_have_tasks_run_in_a_thread(
    treadle_async_client: Client, treadle_worker: Any
) -> None:
    @task
    async def triple(n: int) -> int:
        return 3 * n

    worker = treadle_worker(triple)
    async with treadle_async_client:
        handle = await triple.submit(2)
        with pytest.raises(WouldBlock, match=r"use `await asyncio.to_thread\(worker.run_all\)`"):
            worker.run_all()

        await asyncio.to_thread(worker.run_all)
        with pytest.raises(WouldBlock, match=r"use `await asyncio.to_thread\(worker.close\)`"):
            worker.close()

        assert await handle.result(timeout=30) == 6


SHOP = """
import pytest
from treadle import SyncClient, task

@task
def double(n: int) -> int:
    return 2 * n

client = SyncClient("http://127.0.0.1:9", "none")

def view(n):
    client.open()
    return client.submit(double.bind(n)).id

@pytest.mark.parametrize("n", [1, 2])
def test_view(treadle_client, treadle_worker, monkeypatch, n):
    monkeypatch.setattr(f"{__name__}.client", treadle_client)
    assert view(n)
    assert [ended.result for ended in treadle_worker(double).run_all()] == [2 * n]

def test_none_is_left():
    from treadle.client.open_clients import shown
    assert shown() == []
"""


def test_an_application_is_given_the_client_of_the_test_in_the_place_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHOP)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=3)
