"""Steps of a task's code, in the loop, in threads and in processes, on the socket and over plain HTTP."""

import asyncio
import gc
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel, Field

from tests.waiting import turns, until
from tests.worker import stepping
from tests.worker.conftest import Working
from treadle import Client, Context, Options, TaskFailed, task
from treadle.errors import BadValue, InvalidArguments, InvalidStep, NotAwaited, StaleRun, StepMismatch, problem_named
from treadle.tasks import step_calls
from treadle.tasks import steps as steps_of
from treadle.tasks.context import check_end
from treadle.tasks.endings import meant
from treadle.wire.amounts import in_seconds
from treadle.wire.status import Reason, Status

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0", "\ud800", b"a", 5, None], ids=ascii)
def test_g9_a_step_whose_name_can_not_be_kept_is_refused_where_it_is_asked_for(name: Any) -> None:
    steps = steps_of.Steps(cast("Any", None), {}, lambda _: False, None)

    with pytest.raises(InvalidStep, match="a step's name must be 1 to 255 characters of valid Unicode"):
        steps.call(name, len, ([],), retries=0, timeout=None)


class Keeping:
    """Keeps steps."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    async def kept_steps(self) -> list[dict[str, Any]]:
        return []

    async def keep_step(self, step: dict[str, Any]) -> None:
        self.kept.append(step["step"])


def test_g9_a_step_that_can_not_be_kept_any_more_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_of, "MOST_STEPS", 2)
    port, done = Keeping(), list[str]()
    steps = steps_of.Steps(cast("Any", port), {}, lambda _: False, None)

    for name in ("a", "b"):
        steps.call(name, done.append, (name,), retries=0, timeout=None)
    with pytest.raises(InvalidStep, match="step 'a': a task may have at most 2 steps: do more in each step"):
        steps.call("a", done.append, ("c",), retries=0, timeout=None)

    assert done == port.kept == ["a", "b"]


def test_g9_what_is_no_json_is_told_by_the_step_and_its_place() -> None:
    steps = steps_of.Steps(cast("Any", Keeping()), {}, lambda _: False, None)

    for result, place in ((object(), "step 'charge': "), ({"by": [object()]}, "step 'charge'.by[0]: ")):
        with pytest.raises(BadValue, match=f"^{re.escape(place)}object, which is not JSON"):
            steps.call("charge", lambda value=result: value, (), retries=0, timeout=None)


KINDS = [stepping.in_loop, stepping.in_thread, stepping.in_process, stepping.async_in_process]


@pytest.mark.parametrize("each", KINDS, ids=lambda each: each.job.name)
async def test_what_a_step_came_to_is_returned_by_the_run_that_follows(
    client: Client, either: Working, tmp_path: Path, each: Any
) -> None:
    async with either(each):
        handle = await client.submit(each.bind(tmp_path / "effects"))
        result = await handle.result(timeout=30)
        kept = await handle.steps()

    assert result == ["charged 7", ["mailed", 1], ["mailed", 2]]
    # The second run, which came after the first had failed, did only what was not kept.
    assert (tmp_path / "effects").read_text().split() == ["charge", "mail", "fail", "mail"]
    assert [(step.step, step.occurrence, step.kind, step.run_id) for step in kept] == [
        ("charge", 0, "call", 0),
        ("mail", 0, "call", 0),
        ("mail", 1, "call", 1),
    ]
    assert all(step.seconds is not None and step.seconds < 30 for step in kept)


@pytest.mark.inside  # the server is told to give little at once
@pytest.mark.parametrize("most", [0, 2], ids=["asked for", "carried"])
async def test_what_is_kept_comes_with_the_claim_or_is_asked_for(
    client: Client, either: Working, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    from treadle_server.operations import carrying
    from treadle_server.store.read import steps as read_steps

    asked: list[int] = []

    async def of_task(connection: Any, task_seq: int, **more: int) -> Any:
        asked.append(task_seq)
        return await read_task(connection, task_seq, **more)

    read_task = read_steps.of_task
    monkeypatch.setattr(read_steps, "of_task", of_task)
    monkeypatch.setattr(carrying, "MOST_STEPS", most)
    async with either(*KINDS):
        handles = [await client.submit(each.bind(tmp_path / each.job.name)) for each in KINDS]
        results = [await handle.result(timeout=30) for handle in handles]

    assert results == [["charged 7", ["mailed", 1], ["mailed", 2]]] * len(KINDS)
    assert len(set(asked)) == (0 if most else len(KINDS))


@pytest.mark.parametrize("each", KINDS, ids=lambda each: each.job.name)
async def test_a_task_sleeps_and_receives_and_holds_no_place_in_the_worker(
    client: Client, either: Working, tmp_path: Path, each: Any
) -> None:
    waits = stepping.WAITING[each.job.name]
    async with either(waits, stepping.plain, concurrency=1):
        handle = await client.submit(waits.bind())
        await stepping.asleep(handle, "approved")
        beside = await (await client.submit(stepping.plain.bind())).result(timeout=30)
        await handle.send("approved", {"by": "ann"})
        result = await handle.result(timeout=30)
        runs = await handle.runs()

    assert (beside, result) == ("plain", {"by": "ann"})
    assert [run.status for run in runs] == ["suspended", "suspended", "completed"]
    assert (await handle.get()).retry_count == 0


async def test_messages_that_came_before_are_received_without_another_run(client: Client, either: Working) -> None:
    handle = await client.submit(stepping.gathers.bind(3))
    for n in range(3):
        await handle.send("page", n, id=str(n))
        await handle.send("page", n, id=str(n))

    async with either(stepping.gathers):
        result = await handle.result(timeout=30)

    assert result == [0, 1, 2]
    assert len(await handle.runs()) == 1


async def test_a_receive_whose_time_is_over_raises(client: Client, working: Working) -> None:
    async with working(stepping.waits_briefly):
        handle = await client.submit(stepping.waits_briefly.bind())

        assert await handle.result(timeout=30) == "nobody: no message 'approved' came within 0.05 s"


async def test_a_receive_whose_end_was_edited_says_how_long_it_was(client: Client, working: Working) -> None:
    """It was said that nothing came within ten years."""

    @task
    async def waits(ctx: Context) -> str:
        try:
            return str(await ctx.receive("approved"))
        except TimeoutError as error:
            return f"nobody: {error}"

    async with working(waits):
        handle = await client.submit(waits.bind())
        await until(handle.get, lambda item: item.reason is Reason.SUSPENDED)
        await client.edit(handle.id, delay=0)
        told = await handle.result(timeout=30)
        [step] = await handle.steps()

    assert step.until is not None
    assert (
        told
        == f"nobody: no message 'approved' came within {in_seconds(round((step.until - step.at).total_seconds(), 3))}"
    )
    assert step.until - step.at < timedelta(minutes=1)


async def test_another_function_under_a_kept_step_is_a_mismatch(client: Client, working: Working) -> None:
    handle = await client.submit(stepping.changes.bind("other function"))
    async with working(stepping.changes):
        with pytest.raises(TaskFailed, match=r"step 'charge' was a call of charge .* and is now a call of mail"):
            await handle.result(timeout=30)

    item = await handle.get()
    assert (item.status, item.reason, item.retry_count) == (Status.FAILED, Reason.INTERNAL_ERROR, 1)


@pytest.mark.parametrize("change", ["no step", "another step", "caught"])
async def test_a_completion_that_never_asked_for_a_kept_step_is_a_mismatch(
    client: Client, working: Working, change: str
) -> None:
    handle = await client.submit(stepping.changes.bind(change))
    async with working(stepping.changes):
        with pytest.raises(TaskFailed, match=r"step 'charge'|1 step that"):
            await handle.result(timeout=30)

    assert (await handle.get()).reason is Reason.INTERNAL_ERROR


def test_a_task_without_a_context_never_asks_for_what_is_kept() -> None:
    check_end({"steps": 0}, None)

    with pytest.raises(StepMismatch, match="without asking for 2 steps"):
        check_end({"steps": 2}, None)


async def test_code_that_catches_its_sleep_and_returns_fails(client: Client, working: Working) -> None:
    async with working(stepping.swallows):
        handle = await client.submit(stepping.swallows.bind())
        with pytest.raises(TaskFailed, match=r"let the exception of ctx\.sleep and ctx\.receive through"):
            await handle.result(timeout=30)


async def test_a_sleep_within_a_group_of_tasks_is_a_sleep(client: Client, working: Working) -> None:
    async with working(stepping.sleeps_in_a_group):
        handle = await client.submit(stepping.sleeps_in_a_group.bind())

        assert await handle.result(timeout=30) == [1, 2]
        assert [run.status for run in await handle.runs()] == ["suspended", "completed"]


async def test_a_step_is_tried_again_as_often_as_it_says(
    client: Client, working: Working, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(steps_of, "FIRST_PAUSE", 0.0)
    async with working(stepping.flaky_step, stepping.flaky_step_in_thread):
        for each in (stepping.flaky_step, stepping.flaky_step_in_thread):
            effects = tmp_path / each.job.name
            assert await (await client.submit(each.bind(effects, 2))).result(timeout=30) == 3
            with pytest.raises(TaskFailed, match="ValueError: try 2"):
                await (await client.submit(each.bind(effects.with_suffix(".less"), 1))).result(timeout=30)


async def test_a_step_past_its_timeout_raises(client: Client, working: Working) -> None:
    stepping.over.clear()
    try:
        async with working(*stepping.SLOW):
            for each in stepping.SLOW:
                said = r"TimeoutError: step 'slow' took longer than its timeout of 0\.05 s"
                with pytest.raises(TaskFailed, match=said):
                    await (await client.submit(each.bind())).result(timeout=30)
    finally:
        stepping.over.set()


async def test_a_result_that_can_t_be_kept_fails_the_run_and_names_the_step(client: Client, working: Working) -> None:
    async with working(stepping.bad_results):
        for how, why in {"nul": "step 'bad'.*NUL", "large": "step 'bad'.*artifact", "object": "step 'bad'"}.items():
            handle = await client.submit(stepping.bad_results.bind(how))
            with pytest.raises(TaskFailed, match=why):
                await handle.result(timeout=30)
            assert (await handle.get()).reason is Reason.INTERNAL_ERROR


async def test_a_result_has_the_type_that_the_function_says_in_every_run(client: Client, working: Working) -> None:
    async with working(stepping.typed):
        handle = await client.submit(stepping.typed.bind())

        assert await handle.result(timeout=30) == [["Order", 7], ["timedelta", 5.0], ["tuple", 2]]


def test_a_result_whose_type_is_none_stays_as_it_is() -> None:
    def charge() -> Annotated[str, Field(pattern="(")]:
        return "it"

    assert step_calls.returned(charge).read("it") == "it"


async def test_many_steps_are_read_page_by_page(client: Client, working: Working) -> None:
    async with working(stepping.counts):
        handle = await client.submit(stepping.counts.bind(1100), options=Options(max_retries=1, retry_base=0.0))

        assert await handle.result(timeout=60) == sum(range(1100))
        assert len(await handle.steps()) == 1100


async def test_steps_are_in_the_timeline(client: Client, working: Working) -> None:
    async with working(stepping.begins):
        handle = await client.submit(stepping.begins.bind())
        await handle.wait(timeout=30)
    answer = await client.call("history", {"id": handle.id})

    assert [(event["kind"], event["step"], event["status"]) for event in answer["items"]][3:5] == [
        ("step", "charge", "call"),
        ("ended", None, "failed"),
    ]


async def test_a_rerun_from_a_step_does_it_and_what_followed_again(
    client: Client, working: Working, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    async with working(stepping.three):
        handle = await client.submit(stepping.three.bind(effects))
        await handle.result(timeout=30)
        await handle.rerun(from_step="b")
        await handle.result(timeout=30)
        await handle.rerun()
        await handle.result(timeout=30)

    assert effects.read_text().split() == ["a", "b", "c", "b", "c", "a", "b", "c"]


CHARGE = {"step": "charge", "occurrence": 0, "kind": "call", "function": "len", "result": 0}


@pytest.mark.parametrize(
    ("claim", "is_asked"),
    [
        ({}, False),
        ({"steps": 1, "kept_steps": [CHARGE]}, False),
        ({"steps": 1}, True),  # of a server that knows no other way, and of what is large
        ({"steps": 1, "kept_steps": []}, True),
    ],
)
async def test_a_run_asks_for_what_its_claim_does_not_carry_once(claim: dict[str, Any], is_asked: bool) -> None:
    port = Nobody()
    ctx = Context({"id": "x", "run_id": 0, "payload": {}, **claim}, port)  # type: ignore[arg-type]
    port.keeps = [CHARGE]

    assert await ctx.step("charge", len, ()) == 0
    assert await ctx.step("more", len, ()) == 0

    assert port.asked == is_asked
    # What was kept is not kept again.
    assert [one["step"] for one in port.kept] == (["more"] if claim else ["charge", "more"])
    check_end(claim, ctx)


class Nobody:
    """A port of a run that keeps nothing, unless it is said what."""

    def __init__(self) -> None:
        self.keeps: list[dict[str, Any]] = []
        self.asked = 0
        self.kept: list[dict[str, Any]] = []

    async def kept_steps(self) -> list[dict[str, Any]]:
        self.asked += 1
        return self.keeps

    async def keep_step(self, step: dict[str, Any]) -> None:
        self.step = step
        self.kept.append(step)

    async def receive(self, step: dict[str, Any]) -> None:
        self.step = step


REFUSED: dict[str, tuple[Callable[[Context], Any], str]] = {
    "no name": (lambda ctx: ctx.step("", len, ()), "^name: "),
    "a long name": (lambda ctx: ctx.step("x" * 256, len, ()), "^name: "),
    "a NUL": (lambda ctx: ctx.step("nul\0", len, ()), "^name: "),
    "no function": (
        lambda ctx: ctx.step("a", "b"),
        r"give the function that the step calls, .* ctx\.step\('a', charge, order\), not 'b'",
    ),
    "called already": (lambda ctx: ctx.step("a", asyncio.sleep(0)), "give the function that the step calls"),
    "retries below 0": (lambda ctx: ctx.step("a", len, (), retries=-1), "'a': retries must be"),
    "retries without end": (lambda ctx: ctx.step("a", len, (), retries=10**400), "'a': retries must be"),
    "retries that are a text": (lambda ctx: ctx.step("a", len, (), retries=True and "2"), "'a': retries must be"),
    "an endless step": (lambda ctx: ctx.step("a", len, (), timeout=float("inf")), "'a': timeout: write seconds"),
    "a sleep into the past": (lambda ctx: ctx.sleep(-1), "^sleep: delay: write seconds"),
    "a sleep that is no number": (lambda ctx: ctx.sleep(float("nan")), "^sleep: delay: write seconds"),
    "a sleep of a century": (lambda ctx: ctx.sleep(timedelta(days=36_500)), "^sleep: delay: .*at most 315,360,000"),
    "an instant": (lambda ctx: ctx.sleep(datetime(2026, 1, 1)), r"^sleep: delay: .*at - datetime\.now\(UTC\)"),  # noqa: DTZ001
    "a text for seconds": (lambda ctx: ctx.receive("a", timeout="5"), "receive 'a': timeout: write seconds"),
    "a receive without a name": (lambda ctx: ctx.receive(""), "^name: "),
}


@pytest.mark.parametrize(("asked", "said"), REFUSED.values(), ids=REFUSED)
async def test_what_makes_no_sense_is_refused_at_once_and_its_argument_named(
    asked: Callable[[Context], Any], said: str
) -> None:
    port = Nobody()
    ctx = Context({"id": "x", "run_id": 0, "payload": {}}, port)  # type: ignore[arg-type]

    with pytest.raises(InvalidStep, match=said):
        asked(ctx)

    # What was refused was never asked for: the next one of the name is its first.
    assert await ctx.step("a", len, ()) == 0
    assert port.step["occurrence"] == 0


@pytest.mark.parametrize("each", [stepping.asks_wrongly, stepping.asks_wrongly_in_process], ids=["loop", "process"])
async def test_a_step_that_can_not_be_asked_for_is_the_code_s_error_and_not_the_payload_s(
    client: Client, working: Working, each: Any
) -> None:
    async with working(each):
        handle = await client.submit(each.bind())
        with pytest.raises(TaskFailed, match="sleep: delay: write seconds from 0 up"):
            await handle.result(timeout=30)

    item = await handle.get()
    assert (item.reason, item.retry_count) == (Reason.INTERNAL_ERROR, 0)


@pytest.mark.parametrize("group", [False, True])
async def test_a_step_within_a_step_is_not_tried_again(group: bool) -> None:
    ctx = Context({"id": "x", "run_id": 0, "payload": {}}, Nobody())  # type: ignore[arg-type]
    tries: list[int] = []

    def outer() -> None:
        tries.append(1)
        try:
            ctx.step("inner", len, ())
        except InvalidStep as error:
            raise (ExceptionGroup("of its tasks", [error]) if group else error) from None

    with pytest.raises((InvalidStep, ExceptionGroup)) as refused:
        await ctx.step("outer", outer, retries=3)

    assert "'inner' is inside step 'outer'" in str(meant(refused.value))
    assert tries == [1]


@pytest.mark.parametrize("asked", [lambda ctx: ctx.step("a", len, ()), lambda ctx: ctx.sleep(5)], ids=["step", "sleep"])
async def test_a_step_that_was_never_awaited_is_told(asked: Callable[[Context], Any]) -> None:
    ctx = Context({"id": "x", "run_id": 0, "payload": {}}, Nobody())  # type: ignore[arg-type]
    await ctx.step("a", len, ())
    asked(ctx)

    with pytest.raises(NotAwaited, match=r"step '\w+'( \(number 2 of that name\))? was never awaited"):
        check_end({}, ctx)


@pytest.mark.parametrize("is_begun", [False, True], ids=["bare", "create_task"])
@pytest.mark.parametrize("each", [stepping.forgets, stepping.forgets_in_process], ids=["loop", "process"])
async def test_a_step_that_nobody_awaits_fails_the_run_and_is_no_second_error_of_the_log(
    client: Client, working: Working, caplog: pytest.LogCaptureFixture, each: Any, *, is_begun: bool
) -> None:
    async with working(each):
        handle = await client.submit(each.bind(is_begun=is_begun))
        with pytest.raises(TaskFailed, match=r"'add' \(number 2 of that name\) was never awaited"):
            await handle.result(timeout=30)
    gc.collect()  # what is left of it is told now

    assert "asyncio" not in {record.name for record in caplog.records}


async def test_a_step_that_was_cancelled_before_it_began_is_none() -> None:
    ctx = Context({"id": "x", "run_id": 0, "payload": {}}, Nobody())  # type: ignore[arg-type]
    await ctx.step("a", len, ())
    begun = asyncio.ensure_future(ctx.step("b", len, ()))
    begun.cancel()
    await asyncio.wait([begun])

    check_end({}, ctx)


async def test_what_could_not_be_read_for_a_run_that_was_cancelled_is_no_error_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    class Failing(Nobody):
        async def kept_steps(self) -> list[dict[str, Any]]:
            await failing
            return []

    ctx = Context({"id": "x", "run_id": 0, "payload": {}, "steps": 1}, Failing())  # type: ignore[arg-type]
    asking = asyncio.ensure_future(ctx.step("a", len, ()))
    await turns(5)
    asking.cancel()
    await asyncio.wait([asking])

    failing.set_exception(StaleRun(problem_named("stale-run", "it is over")))
    await turns(5)
    del ctx, asking
    gc.collect()

    assert caplog.messages == []


async def test_a_thread_of_an_async_task_is_told_that_it_has_no_steps() -> None:
    ctx = Context({"id": "x", "run_id": 0, "payload": {}}, Nobody())  # type: ignore[arg-type]

    with pytest.raises(InvalidArguments, match="in a thread of an async task"):
        await asyncio.to_thread(ctx.step, "a", len, ())


async def test_a_step_has_no_steps_of_its_own() -> None:
    ctx = Context({"id": "x", "run_id": 0, "payload": {}}, Nobody())  # type: ignore[arg-type]

    async def outer() -> None:
        await ctx.step("inner", len, ())

    with pytest.raises(InvalidArguments, match="'inner' is inside step 'outer'"):
        await ctx.step("outer", outer)


async def test_steps_beside_each_other_are_counted_in_the_order_of_their_calls() -> None:
    port = Nobody()
    ctx = Context({"id": "x", "run_id": 0, "payload": {}}, port)  # type: ignore[arg-type]
    gates = [asyncio.Event() for _ in range(2)]

    async def waits(n: int) -> int:
        await gates[n].wait()
        return n

    both = asyncio.gather(*(ctx.step("page", waits, n) for n in range(2)))
    await asyncio.sleep(0)
    gates[1].set()
    await turns()
    later = dict(port.step)
    gates[0].set()

    assert await both == [0, 1]
    assert (later["occurrence"], port.step["occurrence"]) == (1, 0)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def _ask_in_threads(port: Nobody) -> Context:
    """Ask for eight steps of one name in as many threads."""
    start = Barrier(8)
    claim = {"id": "x", "run_id": 0, "payload": {}, "steps": len(port.keeps)}
    ctx = Context(claim, port, is_async=False)  # type: ignore[arg-type]

    def ask(_: int) -> None:
        start.wait(30)
        ctx.step("charge", len, ())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask, range(8)))
    return ctx


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("_number", range(20))
def test_threads_whose_steps_are_the_first_of_a_run_count_them_together(_number: int) -> None:
    port = Nobody()

    _ask_in_threads(port)

    assert sorted(step["occurrence"] for step in port.kept) == [*range(8)]


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("_number", range(20))
def test_threads_that_read_what_is_kept_at_the_same_time_have_asked_for_what_they_asked_for(_number: int) -> None:
    port = Nobody()
    port.keeps = [{**CHARGE, "occurrence": n} for n in range(8)] + [{**CHARGE, "step": f"m{n}"} for n in range(2000)]

    ctx = _ask_in_threads(port)

    with pytest.raises(StepMismatch, match="step 'm0', which the task keeps"):
        check_end({}, ctx)


def test_a_mismatch_is_an_error_of_the_sdk() -> None:
    assert issubclass(StepMismatch, RuntimeError)
    assert issubclass(InvalidStep, InvalidArguments)


class Order(BaseModel):
    number: int


@task
async def unused(ctx: Context) -> None:
    """Has steps with the types that mypy knows."""
    total: int = await ctx.step("sum", stepping.add, 1, 2)
    assert total
