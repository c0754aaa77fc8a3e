"""N1: what can't be kept fails its own run or its own call, at once and with its place; everything else goes on."""

import asyncio
import math
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr

from tests.worker.conftest import Working, working_at
from tests.worker.oddities import (
    TASKS,
    VALUES,
    cancels_itself,
    deep,
    dies_behind_a_copy,
    echoes_bytes,
    echoes_pages,
    ends_its_worker,
    forks,
    forks_in_process,
    good,
    large,
    pauses,
    raises,
    raises_in_process,
    raw,
    returns,
    returns_in_process,
    saves,
    saves_in_thread,
    talks,
)
from treadle import CallNext, Client, Context, Options, new_task_id, task
from treadle.errors import InvalidArguments, PayloadTooLarge, TaskNotFound
from treadle.tasks import endings
from treadle.tasks.definition import Task
from treadle.wire.values import MOST_LEVELS
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio


async def ends(client: Client, bound: Any) -> tuple[Any, list[Any]]:
    """Submit, wait for the end, and return the task with its runs."""
    handle = await client.submit(bound, wait=True)
    return await handle.wait(timeout=30), await handle.runs()


@asynccontextmanager
async def worker_process(server: Served, client: Client) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the odd tasks in a worker of its own process during the block."""
    command = [sys.executable, "-c", "from treadle.cli import main; main()", "worker", "tests.worker.oddities"]
    worker = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "TREADLE_URL": server.url, "TREADLE_TOKEN": server.token or ""}
    )
    try:
        for job in TASKS:
            await client.register(job)
        yield worker
    finally:
        with suppress(ProcessLookupError):
            worker.terminate()
        await worker.wait()


async def test_a_worker_process_outlives_every_odd_value(server: Served, client: Client) -> None:
    """N1: the results and checkpoints fail their runs, once; the same process does the good task behind them."""
    async with worker_process(server, client) as worker:
        ways = [(returns, "result"), (saves, "checkpoint")]
        odd = [(job.bind(kind=kind), name + said) for job, name in ways for kind, (_, said) in VALUES.items()]

        told = await asyncio.gather(*(ends(client, bound) for bound, _ in odd))
        after = await (await client.submit(good.bind(n=1))).result(timeout=30)

        for (bound, said), (ended, runs) in zip(odd, told, strict=True):
            assert (ended.status, ended.reason, len(runs)) == ("failed", "internal-error", 1), (bound, ended.error)
            assert said in (ended.error or ""), bound
        assert after == 2
        assert worker.returncode is None


async def test_a_copy_that_code_forked_and_that_comes_back_tells_nothing(server: Served, client: Client) -> None:
    """N1: its end was taken for the next run's, and the copy of a whole worker read what was meant for the worker."""
    async with worker_process(server, client) as worker:
        for job in (forks, forks_in_process):
            for n in range(5):
                ended, _ = await ends(client, job.bind(n))
                assert (ended.status, ended.result) == ("completed", f"the worker {n}")
        dead, _ = await ends(client, dies_behind_a_copy.bind())

        assert worker.returncode is None
    assert dead.error == "ChildDied: the task's process ended with signal SIGKILL before the task did"


async def test_code_that_ends_its_worker_at_once_ends_as_many_as_its_requeues_admit(tmp_path: Path) -> None:
    """N1: it went from worker to worker for ever, for none of them had told of its start."""
    quick = {"session_grace_seconds": 0.1, "lease_seconds": 1, "sweeper_interval_seconds": 0.2}
    async with serve(data_dir=tmp_path, **quick) as server, Client(server.url, server.token) as client:
        await client.register(ends_its_worker)
        handle = await client.submit(ends_its_worker.bind())
        for _ in range(3):
            async with worker_process(server, client) as worker:
                await asyncio.wait_for(worker.wait(), 60)
        ended = await handle.wait(timeout=30)

    assert (ended.status, ended.reason) == ("failed", "claim-expired")


@pytest.mark.parametrize("is_around", [True, False], ids=["within middleware", "alone"])
async def test_code_that_cancels_its_own_task_fails_and_keeps_no_slot(
    client: Client, working: Working, *, is_around: bool
) -> None:
    """N1: it stayed running for ever, its lease renewed all the time."""

    async def around(ctx: Context, call_next: CallNext) -> Any:
        return await call_next()

    async with working(cancels_itself, good, concurrency=1, middleware=[around] if is_around else []):
        cancelled, _ = await ends(client, cancels_itself.bind())
        after = await (await client.submit(good.bind(n=1))).result(timeout=30)

    assert (cancelled.status, cancelled.error) == ("failed", "CancelledError")
    assert after == 2


@pytest.mark.parametrize("job", [returns_in_process, saves_in_thread, pauses], ids=lambda job: job.job.name)
async def test_wherever_the_code_runs_an_odd_value_fails_its_run_once(
    client: Client, working: Working, job: Task[..., Any]
) -> None:
    """N1."""
    async with working(job, good):
        for kind in ("nul", "object"):
            ended, runs = await ends(client, job.bind(kind=kind))
            name = "result" if job is returns_in_process else "checkpoint"
            assert (ended.status, ended.reason, len(runs)) == ("failed", "internal-error", 1)
            assert f"{name}{VALUES[kind][1]}" in (ended.error or "")
        assert await (await client.submit(good.bind(n=1))).result(timeout=20) == 2


async def test_what_a_task_says_is_spelt_out_and_never_fails_it(
    client: Client, either: Working, caplog: pytest.LogCaptureFixture
) -> None:
    """N1: progress, lines, and an error's text and traceback; on the socket and without one."""
    async with either(talks, raises):
        said, _ = await ends(client, talks.bind())
        assert "refused" not in caplog.text
        lines = [line.message for line in await client.logs(said.id)]
        failed, [run] = await ends(client, raises.bind(kind="nul"))
        mute, _ = await ends(client, raises.bind(kind="unspeakable"))
        unreal, _ = await ends(client, raises.bind(kind="retry"))

    assert (said.status, said.result) == ("completed", "said")
    assert lines == ["a \\x00 b", "\\ud800", "\\x00" * 2000, "odd level"]
    assert failed.error == "ValueError: a \\x00 b \\ud800"
    assert "ValueError: a \\x00 b \\ud800" in (run.traceback or "")
    assert mute.error == "Unspeakable: Unspeakable, which can't be printed"
    assert (unreal.status, unreal.reason) == ("failed", "error")


async def test_an_error_that_can_not_be_written_ends_its_own_run_alone(client: Client, working: Working) -> None:
    """N1: asyncio wrote it out at the loop's end, and then again at that of each task behind it in the process."""
    async with working(raises_in_process, concurrency=1):
        mute, [run] = await ends(client, raises_in_process.bind(0))
        after, _ = await ends(client, raises_in_process.bind(1))

    assert mute.error == "Unspeakable: Unspeakable, which can't be printed"
    assert "asyncio" not in (run.traceback or "")
    assert (after.status, after.result) == ("completed", 1)


@dataclass
class Refusing:
    """Can be made where it is given, and not where it is read again."""

    kind: str
    is_read: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.is_read:
            raise {"exit": SystemExit, "odd": NoAnswer, "key": KeyError}[self.kind](self.kind)


class NoAnswer(BaseException):
    pass


async def test_an_argument_whose_class_ends_its_process_fails_its_own_run_alone(
    client: Client, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N1: a class that said `sys.exit()` ended each worker in turn that read it, and a KeyError was called a defect."""

    @task
    async def takes(value: Refusing) -> None: ...

    handles = [await client.submit(takes.bind(Refusing(kind))) for kind in ("exit", "odd", "key")]
    monkeypatch.setattr(Refusing, "is_read", True)
    async with working(takes, good, concurrency=1):
        told = [(await handle.wait(timeout=30)).error or "" for handle in handles]
        after = await (await client.submit(good.bind(n=1))).result(timeout=30)

    said = [text.partition(" can't be called like this: ")[2] for text in told]
    assert said == ["SystemExit: exit", "NoAnswer: odd", "KeyError: 'key'"]
    assert after == 2


async def test_of_many_submits_in_one_frame_only_the_odd_ones_fail(client: Client) -> None:
    """N1: each with the place, at once; the client goes on."""
    await client.register(raw)
    odd: list[Any] = [make() for make, _ in VALUES.values()]

    async def submit(value: Any) -> str:
        try:
            return (await client.submit(raw.bind(value=value))).id
        except InvalidArguments as error:
            return str(error)

    told = await asyncio.gather(submit(1), *(submit(value) for value in odd), submit({"deep": deep(MOST_LEVELS - 2)}))

    assert await client.get(told[0])
    assert await client.get(told[-1])
    for (_, said), answer in zip(VALUES.values(), told[1:-1], strict=True):
        assert f"value{said}" in answer
    assert (await client.list(job=raw.full_name)).total == 2


async def test_a_call_with_an_odd_value_fails_alone(client: Client) -> None:
    """N1: whatever the client sends is checked before."""
    await client.register(raw)
    handle = await client.submit(raw.bind(value=1))
    bad = {"deep": ["\x00"]}
    calls = [
        lambda: client.submit_raw(raw.full_name, bad),
        lambda: client.submit_raw(raw.full_name, {"value": math.nan}),
        lambda: client.edit(handle.id, payload=bad),
        lambda: client.edit(handle.id, tags={"a": "\ud800"}),
        lambda: client.resolve(handle.id, result=bad),
        lambda: client.act("resolve", ids=[handle.id], result=math.inf),
        lambda: client.set_schedule("s", job=raw.full_name, interval=60, payload=bad),
        lambda: client.submit(raw.bind(value=1), options=Options(tags={"a": "\x00"})),
        lambda: client.submit(raw.bind(value=1), options=Options(unique_key="\ud800")),
    ]

    for call in calls:
        with pytest.raises(InvalidArguments):
            await call()

    assert (await client.edit(handle.id, payload={"value": deep(MOST_LEVELS - 1)})).payload["value"]
    assert await client.ping()


async def test_a_secret_is_sent_as_asterisks_by_no_call(client: Client) -> None:
    """In messages, edits, resolves, raw submits and schedules the code got the asterisks."""
    handle = await client.submit(raw.bind(value=1))
    secret: dict[str, Any] = {"value": [SecretStr("hush")]}
    calls = [
        lambda: client.submit_raw(raw.full_name, secret),
        lambda: client.edit(handle.id, payload=secret),
        lambda: client.resolve(handle.id, result=secret),
        lambda: client.act("resolve", ids=[handle.id], result=secret),
        lambda: client.set_schedule("s", job=raw.full_name, interval=60, payload=secret),
        lambda: client.send(handle.id, "m", secret),
    ]

    for call in calls:
        with pytest.raises(
            InvalidArguments, match="contains a secret, which would be written as asterisks: give a str"
        ):
            await call()

    assert (await client.edit(handle.id, payload={"value": "**********"})).payload == {"value": "**********"}


async def test_two_keys_that_are_one_text_in_json_are_sent_by_no_call(client: Client) -> None:
    """One of the two was left out of it, and nothing was said."""
    handle = await client.submit(raw.bind(value=1))
    bad: dict[str, Any] = {"value": [{1: "a", "1": "b"}]}
    calls = [
        lambda: client.submit(raw.bind(**bad)),
        lambda: client.submit_raw(raw.full_name, bad),
        lambda: client.edit(handle.id, payload=bad),
        lambda: client.resolve(handle.id, result=bad),
        lambda: client.set_schedule("s", job=raw.full_name, interval=60, payload=bad),
        lambda: client.send(handle.id, "m", bad),
    ]

    for call in calls:
        with pytest.raises(
            InvalidArguments, match=r"value\[0\]: the keys 1 and '1' are the same in JSON: leave one out"
        ):
            await call()

    assert (await client.edit(handle.id, payload={"value": {1: "a", "2": "b"}})).payload == {
        "value": {"1": "a", "2": "b"}
    }


@pytest.mark.parametrize("odd", ["a\ud800", "a\x00"], ids=ascii)
async def test_an_odd_text_in_a_path_or_a_query_is_not_sent_either(client: Client, odd: str, tmp_path: Path) -> None:
    """N1: what the shell or the disk names in bytes that are no text comes as such; the error shows it."""
    calls = [
        lambda: client.target(odd),
        lambda: client.targets(text=odd).page(),
        lambda: client.schedule("s", room=odd),
        lambda: client.flow(odd),
        lambda: client.job(f"@global:tasks:{odd}"),
        lambda: client.list(tag=["a", odd]).page(),
        lambda: client.webhook(odd),
        lambda: client.download(new_task_id(), f"plots/{odd}", tmp_path / "file"),
    ]

    for call in calls:
        with pytest.raises(InvalidArguments, match=r"surrogate|NUL"):
            await call()
    for of_task in (client.get, client.steps, client.artifacts):
        with pytest.raises(TaskNotFound, match="is not a task id"):
            await of_task(odd)


async def test_what_is_too_large_for_the_server_fails_alone(tmp_path: Any) -> None:
    """N1: the server says how large its frames are; a result beyond fails its run, an argument its call, unsent."""
    async with (
        serve(data_dir=tmp_path, max_body_bytes=100_000) as server,
        Client(server.url, server.token) as client,
        working_at(server.url, server.token or "", large, raw, good),
    ):
        big, runs = await ends(client, large.bind(size=200_000))
        with pytest.raises(PayloadTooLarge):
            await client.submit(raw.bind(value="x" * 200_000))
        many = await asyncio.gather(*(client.submit(raw.bind(value="x" * 9_000)) for _ in range(40)))
        after = await (await client.submit(good.bind(n=1))).result(timeout=20)

    assert (big.status, big.reason, len(runs)) == ("failed", "internal-error", 1)
    assert (big.error or "").startswith("result: can't be kept: the request has ")
    assert len({handle.id for handle in many}) == 40
    assert after == 2


async def test_log_lines_are_sent_as_the_server_takes_them_and_one_that_it_does_not_take_is_told(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Lines of a run that was over when they were refused were lost without a word."""

    @task
    async def talks(ctx: Context) -> None:
        for n in range(300):
            ctx.log(f"{n}".ljust(1_000))
        ctx.log("x" * 200_000)

    async with (
        serve(data_dir=tmp_path, max_body_bytes=100_000) as server,
        Client(server.url, server.token) as client,
        working_at(server.url, server.token or "", talks),
    ):
        handle = await client.submit(talks.bind())
        await handle.result(timeout=20)
        kept = [int(line.message) for line in await client.logs(handle.id)]

    assert kept == list(range(300))
    [said] = [record.getMessage() for record in caplog.records if "was refused" in record.getMessage()]
    assert said.startswith(f"task {handle.id}: its logs report of a line of 200,000 characters was refused: ")


async def test_bytes_come_back_as_they_were(client: Client, working: Working) -> None:
    """N1: results hold them in base64, as arguments do, whether they are text or not."""
    async with working(echoes_bytes, echoes_pages):
        for data in (b"plain", b"\xff\x00\xfe", b""):
            handle = await client.submit(echoes_bytes.bind(data=data))
            assert await handle.result(timeout=20) == data
    assert endings.completed({"a": [b"\xff"]}) == {"kind": "completed", "result": {"a": ["_w=="]}}


async def test_defaults_that_can_not_be_kept_are_left_out_of_the_schema(client: Client) -> None:
    """N1: the job is registered all the same."""

    @task(name="with_odd_defaults")
    async def odd(separator: str = "\x00", most: float = math.inf) -> None: ...

    job = await client.register(odd)

    assert job.schema_["properties"]["separator"] == {"title": "Separator", "type": "string"}
    assert job.schema_["properties"]["most"]["default"] is None
