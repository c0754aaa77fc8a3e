"""Results, errors and outcomes as they are reported."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.worker.jobs import double
from treadle import (
    Client,
    Context,
    Intermittent,
    MalformedPayload,
    Pause,
    ResourceUnavailable,
    Retry,
    SyncClient,
    TaskFailed,
    task,
)
from treadle.errors import BadValue, InvalidStep, NotAwaited, StepMismatch, error_for, problem_named
from treadle.tasks import endings
from treadle.tasks.verdicts import Verdicts
from treadle.values import clean
from treadle.wire.fields import LONGEST_OUTPUT

pytestmark = pytest.mark.anyio


def test_results_and_errors_become_reports_that_any_store_keeps() -> None:
    assert endings.completed({"a": (1, 2)}) == {"kind": "completed", "result": {"a": [1, 2]}}
    refused = endings.completed(object())
    assert (refused["kind"], refused["reason"]) == ("exception", "internal-error")
    assert "is not JSON" in refused["error"]
    assert endings.raised(ValueError("a\x00b\ud800"))["error"] == "ValueError: a\\x00b\\ud800"
    assert len(clean("x" * 3_000_000)) <= LONGEST_OUTPUT


@pytest.mark.parametrize("length", [LONGEST_OUTPUT - 1, LONGEST_OUTPUT, 3 * LONGEST_OUTPUT])
def test_an_error_is_as_long_as_the_server_takes_with_its_class_before_it(length: int) -> None:
    error = endings.raised(ValueError("x" * length))["error"]

    assert error.startswith("ValueError: x")
    assert len(error) <= LONGEST_OUTPUT


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (error_for(problem_named("forbidden", "you may not")), "Forbidden: you may not"),
        (error_for(problem_named("task-not-found", "no task")), "TaskNotFound: Task not found: no task"),
        (ValueError("ValueErrors: 3"), "ValueError: ValueErrors: 3"),
    ],
)
def test_an_error_is_named_once(error: Exception, told: str) -> None:
    """A problem's words begin with its title, which may be the name of its class."""
    assert endings.raised(error)["error"] == told


@pytest.mark.filterwarnings("error")
def test_a_coroutine_that_code_returns_is_told_by_what_to_write() -> None:
    """A decorator that is not async gives one of an async function; a warning said that it was never awaited."""

    async def work() -> None: ...

    refused = endings.completed({"pages": [work()]})

    assert refused["error"].startswith("result.pages[0]: a coroutine that was never awaited: write `await` before it")


class Underivable(ExceptionGroup[Exception]):
    def derive(self, excs: Sequence[Exception]) -> ExceptionGroup[Exception]:
        raise TypeError("it has no others")


def nested(levels: int) -> Exception:
    error: Exception = KeyError("the last one")
    for _ in range(levels):
        error = ExceptionGroup("more", [error])
    return error


def fail_with(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SyntaxError("odd", ("f.py", 1, "no number", "text")), "SyntaxError: odd (f.py, line 1)"),
        (SyntaxError("odd", (5, "1", 2, 7)), "SyntaxError: odd"),
        (Underivable("some", [ValueError("x")]), "Underivable: some (1 sub-exception)"),
        (nested(3000), "ExceptionGroup: more (1 sub-exception)"),
    ],
    ids=["an offset that is no number", "a text that is none", "a group that can't be split", "a very deep group"],
)
def test_an_error_that_can_not_be_written_out_is_told_with_its_frames_n1(error: Exception, said: str) -> None:
    with pytest.raises(type(error)):
        fail_with(error)

    told = endings.raised(error, Verdicts(fail_on=(OSError,)))

    assert (told["kind"], told["error"]) == ("failed", said)
    assert "test_endings.py" in told["traceback"]
    # From Python 3.14 on it is written out all the same, with the place on a line of its own.
    assert said.partition(" (")[0] in told["traceback"]


def test_what_a_very_deep_group_holds_decides_whether_it_is_final() -> None:
    assert endings.raised(nested(3000), Verdicts(fail_on=(KeyError,)))["kind"] == "exception"


SAYING_MORE = [
    Retry(after=7),
    Pause("asks", checkpoint=[3]),
    MalformedPayload("odd"),
    ResourceUnavailable("none"),
    Intermittent("away"),
    BadValue("checkpoint: NaN"),
    InvalidStep("no name"),
    NotAwaited("ctx.save(…) was never awaited"),
    StepMismatch("another function"),
]


@pytest.mark.parametrize("raised", SAYING_MORE, ids=lambda error: type(error).__name__)
def test_what_says_more_says_it_in_a_group_too(raised: Exception) -> None:
    """`asyncio.TaskGroup` makes a group of whatever its tasks raise: a pause was a failure, and tried again."""
    told = endings.raised(ExceptionGroup("unhandled", [ExceptionGroup("more", [raised])]))

    alone = endings.raised(raised)
    assert {**told, "traceback": None} == {**alone, "traceback": None}
    if "traceback" in told:
        assert "ExceptionGroup: unhandled" in told["traceback"]


@task(max_retries=0)
async def submits(n: Any) -> None:
    await needs_a_number.submit(n)


@task
async def needs_a_number(n: int) -> None: ...


def test_what_code_gives_to_another_task_says_nothing_of_its_own_payload(
    treadle_client: SyncClient, treadle_worker: Callable[..., Any]
) -> None:
    """It was told as a malformed payload, by which who submits is to blame."""
    handle = treadle_client.submit(submits.bind("many"))

    (ended,) = treadle_worker(submits).run_all()

    assert (ended.id, ended.status, ended.reason) == (handle.id, "failed", "internal-error")
    assert "needs_a_number can't be called like this: n: Input should be a valid integer" in ended.error


async def test_a_call_that_would_block_its_own_loop_is_not_tried_again(client: Client, working: Any) -> None:
    @task
    async def blocks() -> int:
        return double.submit_sync(1).result()

    async with working(blocks, double):
        handle = await blocks.submit()

        with pytest.raises(TaskFailed, match="would never return"):
            await handle.result(timeout=30)
    assert (await handle.get()).reason == "internal-error"
    assert len(await handle.runs()) == 1


def test_beside_another_error_only_what_is_never_tried_again_counts() -> None:
    told = [endings.raised(ExceptionGroup("some", [ValueError("x"), error])) for error in SAYING_MORE]

    assert [one["kind"] for one in told] == [
        *("failed", "failed", "exception", "exception", "failed"),
        *("exception", "exception", "exception", "exception"),
    ]
    assert [one["error"] for one in told if one["kind"] == "failed"] == 3 * ["ExceptionGroup: some (2 sub-exceptions)"]


@task
async def ask_in_a_group(ctx: Context) -> str:
    async def ask() -> None:
        raise Pause(checkpoint="asked")

    if ctx.checkpoint is None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
            group.create_task(asyncio.Event().wait())
    return str(ctx.checkpoint)


def test_a_task_of_a_group_pauses_the_run(treadle_client: SyncClient, treadle_worker: Callable[..., Any]) -> None:
    handle = treadle_client.submit(ask_in_a_group.bind())
    worker = treadle_worker(ask_in_a_group)

    assert [ended.status for ended in worker.run_all()] == ["paused"]
    handle.resume()
    assert [ended.result for ended in worker.run_all()] == ["asked"]
