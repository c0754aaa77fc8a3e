"""Exceptions whose classes answer nothing, wherever code raises them: they fail their run, and the worker goes on."""

import signal
from collections.abc import Iterator
from typing import Any, Never

import pytest
from pydantic import BaseModel, model_serializer

from tests.worker.jobs import double
from treadle import Client, task
from treadle.errors import BadValue
from treadle.tasks.endings import raised, trace_of
from treadle.tasks.verdicts import legible
from treadle.values import brief, plain, said_by
from treadle.wire.status import Status

pytestmark = pytest.mark.anyio


class Mute(Exception):
    def __getattribute__(self, name: str) -> Never:
        raise RuntimeError(f"nothing to say of {name}")


class NoWords(BaseException):
    def __repr__(self) -> str:
        raise RuntimeError("there are no words")


class Exits(Exception):
    def __str__(self) -> Never:
        raise SystemExit(3)


class Interrupts(Exception):
    def __str__(self) -> Never:
        raise KeyboardInterrupt


class Exiting(Exception):
    def __getattribute__(self, name: str) -> Never:
        raise SystemExit(name)


def fail(kind: str) -> Never:
    match kind:
        case "exits":
            raise Exits
        case "interrupts":
            raise Interrupts
        case "exits when read":
            raise Exiting
        case "mute":
            raise Mute
        case "group":
            raise ExceptionGroup("several", [ValueError("x"), Mute()])
        case "stop":
            raise StopIteration(NoWords())
        case _:
            raise NoWords


KINDS = ["mute", "group", "stop", "no words", "interrupts", "exits", "exits when read"]


@task(max_retries=0)
async def fails_in_loop(kind: str) -> None:
    fail(kind)


@task(max_retries=0)
def fails_in_thread(kind: str) -> None:
    fail(kind)


@task(max_retries=0, isolation="process")
def fails_in_process(kind: str) -> None:
    fail(kind)


@pytest.fixture
def handled() -> Iterator[None]:
    """Handle SIGINT, as a worker that is a process does."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("kind", KINDS)
async def test_what_can_not_be_read_fails_its_run_alone_n1(client: Client, working: Any, kind: str) -> None:
    tasks = [fails_in_loop, fails_in_thread, fails_in_process]
    async with working(*tasks, double, concurrency=1):
        for one in tasks:
            ended = await (await client.submit(one.bind(kind))).wait(timeout=30)

            assert ended.status == Status.FAILED, one
            assert ended.error
            [run] = await client.runs(ended.id)
            assert "isolation/child.py" not in (run.traceback or "")
        assert await (await double.submit(1)).result(timeout=30) == 2


def test_what_can_not_be_read_is_told_by_its_class_and_its_frames() -> None:
    with pytest.raises(RuntimeError, match="__class__"):
        isinstance(Mute(), str)

    try:
        fail("mute")
    except Mute as error:
        told = raised(legible(error))

    assert told["error"] == "Illegible: Mute, which can't be read (RuntimeError: nothing to say of __class__)"
    assert "raise Mute" in told["traceback"]


class Answering(BaseException):
    """Answers by what it raises."""

    def __init__(self, answer: BaseException) -> None:
        self.answer = answer

    def __str__(self) -> Never:
        raise self.answer

    def __repr__(self) -> Never:
        raise self.answer

    @property
    def __class__(self) -> Any:
        raise self.answer


class Writing(BaseModel):
    """Writes itself so."""

    of: Any

    @model_serializer
    def write(self) -> str:
        raise self.of


def ask(error: BaseException) -> list[Any]:
    return [
        lambda: said_by(Answering(error)),
        lambda: brief(Answering(error)),
        lambda: legible(Answering(error)),
        lambda: trace_of(Answering(error)),
        lambda: plain(Writing(of=error), "result"),
        lambda: plain([Writing(of=error)], "result"),
    ]


@pytest.mark.parametrize("number", range(4))  # pydantic makes an error of its own of a Ctrl-C in a serializer
def test_a_ctrl_c_of_the_very_moment_at_which_a_class_is_asked_is_no_answer(number: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        ask(KeyboardInterrupt())[number]()


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("number", range(6))
def test_what_a_class_raises_is_no_ctrl_c_where_a_worker_handles_it(number: int) -> None:
    try:
        told = str(ask(KeyboardInterrupt())[number]())
    except BadValue as error:
        told = str(error)

    assert told


@pytest.mark.parametrize("number", range(6))
def test_whatever_else_a_class_raises_ends_nothing(number: int) -> None:
    try:
        told = str(ask(NoWords())[number]())
    except BadValue as error:
        told = str(error)

    assert told
