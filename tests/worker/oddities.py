"""Tasks that return, save and say what can't be kept, and one that does well."""

import asyncio
import dataclasses
import os
import signal
from collections.abc import Callable
from typing import Any, cast

from treadle import Context, Pause, Retry, task


def deep(levels: int) -> Any:
    """Return nested lists of so many levels."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@dataclasses.dataclass
class Page:
    text: Any


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("there are no words")

    __repr__ = __str__


VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "nul": (lambda: {"pages": [1, 2, 3, {"text": "a \x00 b"}]}, ".pages[3].text: a NUL character"),
    "surrogate": (lambda: ["\ud800"], "[0]: a lone surrogate"),
    "nan": (lambda: {"loss": float("nan")}, ".loss: a number that is not finite"),
    "infinity": (lambda: (1.0, float("inf")), "[1]: a number that is not finite"),
    "digits": (lambda: 10**5000, ": a number of more than 4,300 digits"),
    "deep": (lambda: deep(65), "[0][0]"),
    "very deep": (lambda: deep(3000), ": more than 64 levels"),
    "object": (lambda: {"page": Page(object())}, ".page.text: object, which is not JSON"),
    "key": (lambda: {"\x00": 1}, ": the key '\\x00': a NUL character"),
}
"""Values that can't be kept, and what is said of each, behind what it is called."""


@task(name="returns", max_retries=3, retry_base=0)
async def returns(kind: str) -> Any:
    return VALUES[kind][0]()


@task(name="returns_in_process", isolation="process", max_retries=3, retry_base=0)
def returns_in_process(kind: str) -> Any:
    return VALUES[kind][0]()


@task(name="saves", max_retries=3, retry_base=0)
async def saves(ctx: Context, kind: str) -> None:
    await ctx.save(VALUES[kind][0]())


@task(name="saves_in_thread", max_retries=3, retry_base=0)
def saves_in_thread(ctx: Context, kind: str) -> None:
    ctx.save(VALUES[kind][0]())


@task(name="pauses", max_retries=3, retry_base=0)
async def pauses(kind: str) -> None:
    raise Pause(checkpoint=VALUES[kind][0]())


@task(name="talks", max_retries=0)
async def talks(ctx: Context) -> str:
    for message in ("a \x00 b", "\ud800", "\x00" * 2000):
        ctx.progress(0.5, message)
        ctx.log(message)
    ctx.log("odd level", "warn")  # type: ignore[arg-type]
    await asyncio.sleep(0)
    return "said"


@task(name="raises", max_retries=0)
async def raises(kind: str) -> None:
    match kind:
        case "nul":
            raise ValueError("a \x00 b \ud800")
        case "unspeakable":
            raise Unspeakable
        case _:
            raise Retry(float("nan"))


@task(name="raises_in_process", isolation="process", max_retries=0)
async def raises_in_process(n: int) -> int:
    if n == 0:
        raise Unspeakable
    return n


@task(name="forks", max_retries=0)
async def forks(n: int) -> str:
    """Comes back twice: once in a copy of the worker."""
    return "a copy" if os.fork() == 0 else f"the worker {n}"


@task(name="forks_in_process", isolation="process", max_retries=0)
def forks_in_process(n: int) -> str:
    return "a copy" if os.fork() == 0 else f"the worker {n}"


@task(name="dies_behind_a_copy", isolation="process", max_retries=0)
def dies_behind_a_copy() -> None:
    """Leaves a process that has all that it had open."""
    if os.fork() == 0:
        while True:
            signal.pause()
    os.kill(os.getpid(), signal.SIGKILL)


@task(name="ends_its_worker", max_requeues=0)
async def ends_its_worker() -> None:
    """As a fault in a library's C code does."""
    os._exit(3)


@task(name="cancels_itself", max_retries=0)
async def cancels_itself() -> None:
    """As code does that gives its own task to somebody who cancels it."""
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().call_soon(this.cancel)
    await asyncio.Event().wait()


@task(name="good")
async def good(n: int) -> int:
    return n + 1


@task(name="raw", max_retries=0)
async def raw(value: Any = None) -> Any:
    return value


@task(name="large", max_retries=3, retry_base=0)
async def large(size: int) -> str:
    return "x" * size


@task(name="echoes_bytes")
async def echoes_bytes(data: bytes) -> bytes:
    return data


@task(name="mixes")
async def mixes(data: bytes, *, as_text: bool) -> str | bytes:
    return data.decode() if as_text else data


@task(name="mixes_in_thread")
def mixes_in_thread(data: bytes, *, as_text: bool) -> str | bytes:
    return data.decode() if as_text else data


@task(name="mixes_in_process", isolation="process")
def mixes_in_process(data: bytes, *, as_text: bool) -> str | bytes:
    return data.decode() if as_text else data


def mixed() -> str | bytes:
    return b"hi"


@task(name="mixes_in_step")
async def mixes_in_step(ctx: Context, data: bytes, *, as_text: bool) -> str | bytes:
    return data.decode() if as_text else cast("str", await ctx.step("result", mixed))


@task(name="echoes_page")
async def echoes_pages(data: bytes) -> list[Page]:
    return [Page(data.hex()), Page(data)]


TASKS = (
    returns, returns_in_process, saves, saves_in_thread, pauses, talks, raises, good, raw, large, echoes_bytes,
    echoes_pages, forks, forks_in_process, dies_behind_a_copy, ends_its_worker, cancels_itself,
)  # fmt: skip
