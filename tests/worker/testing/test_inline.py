"""The pytest plugin, as a project's own tests use it, and the inline worker."""

from typing import Any

import pytest

from treadle import Context, Retry, SyncClient, task
from treadle.encryption import new_key
from treadle.testing.inline import InlineWorker

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
