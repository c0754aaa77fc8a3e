"""Tasks that many tests run, and that child processes can import."""

import asyncio
import atexit
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

from treadle import Context, MalformedPayload, Pause, Retry, task
from treadle.errors import StaleRun


class Held:
    """A task that begins, waits until it is let go, and tells its run; a lost worker ends it for good."""

    def __init__(self) -> None:
        self.begun, self.release = asyncio.Event(), asyncio.Event()

        @task(max_requeues=0, max_retries=0)
        async def held(ctx: Context) -> str:
            self.begun.set()
            await self.release.wait()
            return f"run {ctx.run_id}"

        self.task = held


@task
async def double(n: int) -> int:
    return 2 * n


@task(max_retries=0)
def resources(ctx: Context) -> object:
    return ctx.resources


@task(isolation="process")
def pid(extra: int = 0) -> int:
    return os.getpid() + extra


@task(isolation="process", timeout=0.5, max_retries=0)
def never_ends(started: Path) -> None:
    started.write_text(str(os.getpid()))
    threading.Event().wait()


@task(isolation="process")
def endless(started: Path) -> None:
    started.write_text(str(os.getpid()))
    threading.Event().wait()


@task(isolation="process", max_retries=0)
def dies() -> None:
    os._exit(3)


@task(isolation="process")
async def steps(ctx: Context, to: int) -> list[int]:
    first = ctx.checkpoint or 0
    for number in range(first, to):
        await asyncio.sleep(0)
        await ctx.save(number + 1)
        ctx.progress((number + 1) / to, f"step {number}")
        ctx.log(f"did {number}")
        ctx.spend(1.5)
        if number == 1 and first == 0:
            raise Retry(0)
    return [first, to]


@task(isolation="process")
def picky() -> None:
    raise MalformedPayload("nothing suits me")


@task
def where() -> int:
    return os.getpid()


@task(isolation="process")
def begets(pids: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    pids.write_text(f"{os.getpid()} {child.pid}")
    child.wait()


@task(isolation="process")
def patient(ctx: Context) -> str:
    if ctx.checkpoint is not None:
        return f"went on from {ctx.checkpoint}"
    ctx.save({"at": 1})
    ctx.wait_cancelled(60)
    ctx.raise_if_cancelled()
    return "was not stopped"


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie doesn't."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # gone before the file was opened, or read
        return False


@task(isolation="process", max_retries=0)
def shows_and_waits(ctx: Context) -> None:
    ctx.log(ctx.credentials())
    ctx.wait_cancelled(60)


@task(max_retries=0, room="@global")
async def small(n: int) -> int:
    return n + 1


@task(isolation="process", max_retries=0)
async def submits_in_process(ctx: Context, n: int) -> int:
    async with ctx.client() as client:
        handle = await client.submit(small.bind(n=n))
        return await handle.result(timeout=20)


@task(isolation="process")
def environment() -> dict[str, str]:
    return dict(os.environ)


@task(isolation="process", max_retries=2, retry_base=0, retry_on=ConnectionError)
def raises(error: str) -> None:
    raise {"key": KeyError("gone"), "connection": ConnectionError("no")}[error]


@task(isolation="process", max_retries=0)
def doubles(n: int) -> int:
    if n < 0:
        raise ValueError(f"{n} is too small")
    return n * 2


@task(isolation="process", max_retries=0)
def speaks_in_a_process(n: int) -> None:
    print("printed", n)
    logging.getLogger("someone.elses").warning("warned of %d", n)
    print("without an end", end="")


@task(max_retries=0)
def speaks_in_a_thread(n: int) -> None:
    print("printed", n)


@task(isolation="process", max_retries=0)
def dies_of_an_error() -> None:
    raise LookupError("nothing there")


def _trace_within() -> str:
    from opentelemetry import trace

    with trace.get_tracer("the code's own").start_as_current_span("inside") as span:
        return f"{span.get_span_context().trace_id:032x}"


@task(max_retries=0)
async def traced(n: int) -> str:
    return _trace_within()


@task(max_retries=0)
def traced_in_a_thread(n: int) -> str:
    return _trace_within()


def _carried_within() -> dict[str, object]:
    from opentelemetry import baggage, trace

    return {**baggage.get_all(), "state": trace.get_current_span().get_span_context().trace_state.to_header()}


@task(max_retries=0)
async def carries(n: int) -> dict[str, object]:
    return _carried_within()


@task(max_retries=0)
def carries_into_a_thread(n: int) -> dict[str, object]:
    return _carried_within()


@task(max_retries=0, isolation="process")
def carries_into_a_process(n: int) -> dict[str, object]:
    return _carried_within()


@task(max_retries=0)
async def traced_and_fails() -> None:
    raise LookupError("nothing there")


@task(max_retries=0)
def speaks_letters() -> None:
    print("Żółw é 😀")


@task(isolation="process", max_retries=0)
def speaks_letters_in_a_process() -> None:
    print("Żółw é 😀")


_left: list[tuple[threading.Event, threading.Thread, list[str]]] = []
"""In a child process: a thread that a run has left behind, what lets it go on, and what it was told."""


@task(isolation="process", max_retries=0)
def leaves_a_thread(ctx: Context) -> None:
    goes_on, said = threading.Event(), list[str]()

    def late() -> None:
        goes_on.wait()
        ctx.log("late")
        ctx.progress(0.5, "late")
        ctx.spend(7)
        for ask in (lambda: ctx.save({"late": True}), ctx.credentials, lambda: ctx.upload(b"late", name="late")):
            try:
                ask()
            except StaleRun as error:
                said.append(str(error))

    thread = threading.Thread(target=late, daemon=True)
    thread.start()
    _left.append((goes_on, thread, said))


@task(isolation="process", max_retries=0)
def finds_a_thread(ctx: Context) -> list[str]:
    goes_on, thread, said = _left.pop()
    goes_on.set()
    thread.join(20)
    assert not thread.is_alive()
    ctx.save({"its": "own"})
    raise Pause("; ".join(said))


@task(isolation="process", max_retries=0)
def writes_at_exit(path: Path) -> None:
    atexit.register(path.write_text, "at the exit", "utf-8")


@task(isolation="process", max_retries=0)
def never_exits() -> int:
    atexit.register(threading.Event().wait)
    return os.getpid()
