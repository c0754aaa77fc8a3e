"""Tasks under limits, tasks that take others' results, and tasks of steps: they write down themselves what they do.

They stand beside `labour`, which older versions serve too.
"""

import asyncio
import time
from typing import Any
from uuid import uuid4

from tests.history.journal import Journal
from tests.storm.labour import DEFAULTS, STEP, end, journal_of, labour, toil
from tests.storm.wishes import CAPS, GLOBAL
from treadle import Client, Context, Limit, task

BENCHES = [
    Limit(cap.name, key="/key", concurrency=cap.concurrency, rate=cap.rate, burst=cap.burst or None)
    for cap in CAPS
    if cap.room == GLOBAL
]
"""What `craft` counts against, for each key by itself."""


async def prepare(client: Client) -> None:
    """Register the jobs, and make the limits."""
    for one in (labour, toil, *JOURNEYS):
        await client.register(one)
    for cap in CAPS:
        await client.set_limit(
            cap.name, room=cap.room, concurrency=cap.concurrency, rate=cap.rate, burst=cap.burst or None
        )


GO = "go"
"""The name of the messages that journeys wait for."""


@task(**DEFAULTS, limits=BENCHES)
async def craft(ctx: Context, n: int, key: str, seconds: float = 0.0) -> dict[str, int]:
    """Take so long at a bench."""
    journal, until = journal_of(ctx, n), time.monotonic() + seconds
    journal.mark("begin")
    while time.monotonic() < until:
        await asyncio.sleep(STEP)
        journal.mark("beat")
    return end(journal, ctx.run_id, n, raises=0)


@task(**DEFAULTS)
async def gather(
    ctx: Context, n: int, raises: int = 0, seconds: float = 0.0, parts: list[dict[str, int]] | None = None
) -> dict[str, int]:
    """Take what others came to; raise in the first so many runs."""
    journal = journal_of(ctx, n)
    journal.mark("begin")
    journal.mark("given", ctx.results)
    if parts is not None:
        assert parts == ctx.results["parts"]
    await asyncio.sleep(seconds)
    return end(journal, ctx.run_id, n, raises)


@task(**DEFAULTS)
async def journey(ctx: Context, n: int, steps: int, nap: float = 0.0, messages: int = 0) -> dict[str, int]:
    """Take so many steps, sleep in their midst, and then receive so many messages."""
    journal = journal_of(ctx, n)
    journal.mark("begin")
    for i in range(steps):
        name, occurrence = _name(i)
        journal.mark("used", [name, occurrence, await ctx.step(name, _act, journal, name, occurrence)])
        if nap and i == steps // 2:
            journal.mark("nap")
            await ctx.sleep(nap)
    for number in range(messages):
        journal.mark("received", [number, await ctx.receive(GO)])
    return end(journal, ctx.run_id, n, raises=0)


@task(**DEFAULTS)
def trek(ctx: Context, n: int, steps: int, nap: float = 0.0, messages: int = 0) -> dict[str, int]:
    """The same in a thread."""
    journal = journal_of(ctx, n)
    journal.mark("begin")
    for i in range(steps):
        name, occurrence = _name(i)
        journal.mark("used", [name, occurrence, ctx.step(name, _toil, journal, name, occurrence)])
        if nap and i == steps // 2:
            journal.mark("nap")
            ctx.sleep(nap)
    for number in range(messages):
        journal.mark("received", [number, ctx.receive(GO)])
    return end(journal, ctx.run_id, n, raises=0)


JOURNEYS = (craft, gather, journey, trek)


def _name(i: int) -> tuple[str, int]:
    """Return the name of a step, and how often it came before: two names take turns."""
    return ("left", "right")[i % 2], i // 2


async def _act(journal: Journal, name: str, occurrence: int) -> str:
    """Do what must be done once; return what nobody else returns."""
    token = _effect(journal, name, occurrence)
    await asyncio.sleep(STEP / 2)
    return token


def _toil(journal: Journal, name: str, occurrence: int) -> str:
    token = _effect(journal, name, occurrence)
    time.sleep(STEP / 2)
    return token


def _effect(journal: Journal, name: str, occurrence: int) -> str:
    note: list[Any] = [name, occurrence, uuid4().hex]
    journal.mark("effect", note)
    return str(note[2])
