"""A check that the limits named in a worker's code allow what the code says; the registered limits apply."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from treadle.client.limiting import limit_path
from treadle.errors import TreadleError
from treadle.transport.answers import read
from treadle.wire.amounts import in_seconds
from treadle.wire.limits import LimitItem

if TYPE_CHECKING:
    from treadle.client.limit import Limit
    from treadle.tasks.definition import Task

log = logging.getLogger("treadle.worker")

_Caps: TypeAlias = tuple[int | None, tuple[int, float, int] | None, str | None]
"""What a limit allows: its concurrency; its rate as count, seconds and burst; and, if the code declares it, what
happens when it is full."""


async def warn_of_others(
    tasks: "Iterable[Task[..., Any]]", request: Callable[[str, str], Awaitable[dict[str, Any]]]
) -> None:
    """Warn of each limit that allows something other than the code says; `request` asks the server over HTTP."""
    for task in tasks:
        for limit in task.limits:
            if limit.caps:
                await _compare(task, limit, request)


async def _compare(
    task: "Task[..., Any]", limit: "Limit", request: Callable[[str, str], Awaitable[dict[str, Any]]]
) -> None:
    try:
        known = read(LimitItem, await request("GET", limit_path(task.job.room, limit.name)))
    except TreadleError as error:
        log.info("could not compare the limit %s with what %s declares: %s", limit.name, task.full_name, error)
        return
    if (allowed := _allowed(known, limit)) != (wanted := _wanted(limit)):
        log.warning(
            "the limit %s of %s allows %s, but %s declares %s: the first applies; `treadle limits set` changes it",
            limit.name, task.job.room, _words(*allowed), task.full_name, _words(*wanted),
        )  # fmt: skip


def _allowed(known: LimitItem, limit: "Limit") -> _Caps:
    rate = None if known.rate is None else (known.rate.count, known.rate.seconds, known.rate.burst)
    return known.concurrency, rate, known.on_full if limit.on_full else None


def _wanted(limit: "Limit") -> _Caps:
    rate = None if limit.rate is None else (limit.rate[0], float(limit.rate[1]), limit.burst or limit.rate[0])
    return limit.concurrency, rate, limit.on_full


def _words(concurrency: int | None, rate: tuple[int, float, int] | None, on_full: str | None) -> str:
    parts = [] if concurrency is None else [f"{concurrency} at once"]
    if rate is not None:
        count, seconds, burst = rate
        parts.append(f"{count} in {in_seconds(seconds)}, {burst} together")
    if on_full is not None:
        parts.append(f"on_full: {on_full}")
    return " and ".join(parts)
