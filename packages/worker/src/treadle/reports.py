"""What a worker has to tell the server: kept in order until it is acknowledged, and sent in batches."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from treadle.endings import clean
from treadle.errors import (
    ConnectionFailed,
    InternalServerError,
    InvalidArguments,
    ProblemError,
    StoreUnavailable,
    TooManyRequests,
    TreadleError,
    WorkerNotFound,
    error_for,
)
from treadle.wire.problems import Problem

log = logging.getLogger("treadle.worker")

Report = dict[str, Any]
Answer = dict[str, Any]
Key = tuple[str, int]

BATCH = 2000
"""Reports of one request at most; the rest waits for the next one."""

SOFT_DELAY = 0.2
"""Seconds that progress and log lines are gathered before they are sent."""

KEPT_LINES = 1000
"""Log lines of a run that wait to be sent; further ones push out the oldest, and the loss is told in their place."""

ENDS = frozenset({"completed", "failed", "exception", "paused", "stopped"})

_WITH_START = frozenset({"completed", "failed", "exception"})
"""Ends that may tell the start as well."""

Send = Callable[[list[Report]], Awaitable[list[Answer]]]


class _Soft:
    """Progress and lines of one run that were not sent yet: of progress only the last counts."""

    __slots__ = ("dropped", "lines", "progress")

    def __init__(self) -> None:
        self.progress: Report | None = None
        self.lines: deque[dict[str, Any]] = deque(maxlen=KEPT_LINES)
        self.dropped = 0


class Reporter:
    """Sends reports one request at a time, so that their order holds; what comes meanwhile makes the next batch.

    Bounded by what the worker holds: a run has one start, one end and one checkpoint under way, and coalesced lines.
    `on_answer` is told each end's and each refused report's answer.
    """

    def __init__(self, send: Send, on_answer: Callable[[Report, Answer], None]) -> None:
        self._send = send
        self._on_answer = on_answer
        self._queue: deque[tuple[Report, asyncio.Future[None] | None]] = deque()
        self._starts: dict[Key, Report] = {}
        """Starts that were not sent yet, and that nothing followed."""
        self._soft: dict[Key, _Soft] = {}
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.online = asyncio.Event()
        """Set while the worker is open on a connection; nothing is sent before."""

    def add(self, report: Report) -> None:
        """Send a report, behind those before it."""
        key = (report["task_id"], report["run_id"])
        if self._soft and report["kind"] in ENDS:
            self._harden(key)
        if report["kind"] == "started":
            self._starts[key] = report
        elif (start := self._starts.pop(key, None)) is not None and report["kind"] in _WITH_START:
            # One report says both: it stands where the start stood, before which nothing of the run was said.
            start.update(report, starts=True)
            return
        self._queue.append((report, None))
        self._wake.set()

    async def confirm(self, report: Report) -> None:
        """Send a report and wait for its answer; raise the `ProblemError` that it was refused with."""
        self._starts.pop((report["task_id"], report["run_id"]), None)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((report, future))
        self._wake.set()
        await future

    def progress(self, key: Key, share: float | None, message: str | None) -> None:
        """Send progress in a moment; of several the last."""
        report: Report = {"task_id": key[0], "run_id": key[1], "kind": "progress"}
        if share is not None:
            report["share"] = share
        if message is not None:
            report["message"] = clean(message)
        self._soften(key).progress = report

    def line(self, key: Key, message: str, level: str) -> None:
        """Send a log line in a moment, with those that come until then."""
        soft = self._soften(key)
        soft.dropped += len(soft.lines) == KEPT_LINES
        soft.lines.append({"at": datetime.now(UTC), "level": level, "message": clean(message)})

    async def run(self) -> None:
        """Send for ever; ends by cancellation only."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                self._empty.clear()
                await self.online.wait()
                await self._send_batch(min(BATCH, len(self._queue)))
            self._empty.set()

    async def flushed(self, timeout: float) -> bool:  # noqa: ASYNC109 - the answer says whether it was enough
        """Wait up to `timeout` seconds until everything is acknowledged; return whether it is."""
        for key in list(self._soft):
            self._harden(key)
        if not self._queue:
            return True
        self._empty.clear()
        self._wake.set()
        try:
            async with asyncio.timeout(timeout):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    async def _send_batch(self, size: int) -> None:
        batch = list(islice(self._queue, size))
        self._starts.clear()
        try:
            answers = await self._send([report for report, _ in batch])
        except (StoreUnavailable, TooManyRequests, InternalServerError) as error:
            log.warning("reports wait: %s", error)
            await asyncio.sleep(1)
        except WorkerNotFound:
            # The connection opens the worker anew; what it reports is judged by its run, not by its worker.
            self.online.clear()
        except ConnectionFailed:
            # Nothing is lost: the same reports go again once the worker is open on a new connection.
            await asyncio.sleep(0.05)
        except (ProblemError, InvalidArguments) as error:
            # One bad report refuses the batch: each is sent alone, and the bad one is answered here.
            if size > 1:
                for _ in range(size):
                    await self._send_batch(1)
            else:
                self._settle([_refused(batch[0][0], error)])
        else:
            self._settle(answers)

    def _settle(self, answers: list[Answer]) -> None:
        for answer in answers:
            report, future = self._queue.popleft()
            if future is not None and not future.done():
                _resolve(future, answer)
            elif answer["status"] != 200 or report["kind"] in ENDS:
                self._on_answer(report, answer)

    def _soften(self, key: Key) -> _Soft:
        soft = self._soft.get(key)
        if soft is None:
            soft = self._soft[key] = _Soft()
            asyncio.get_running_loop().call_later(SOFT_DELAY, self._harden_later, key)
        return soft

    def _harden_later(self, key: Key) -> None:
        if key not in self._soft:
            return
        if self.online.is_set():
            self._harden(key)
        else:
            # Gather on, in bounds, until the server is back.
            asyncio.get_running_loop().call_later(SOFT_DELAY, self._harden_later, key)

    def _harden(self, key: Key) -> None:
        soft = self._soft.pop(key, None)
        if soft is None:
            return
        self._starts.pop(key, None)
        if soft.progress is not None:
            self._queue.append((soft.progress, None))
        lines = list(soft.lines)
        if soft.dropped:
            lost = {"level": "warning", "message": f"{soft.dropped + 1} lines were logged too fast and left out"}
            lines[0] = lines[0] | lost
        if lines:
            self._queue.append(({"task_id": key[0], "run_id": key[1], "kind": "logs", "lines": lines}, None))
        self._wake.set()


def _resolve(future: "asyncio.Future[None]", answer: Answer) -> None:
    if answer["status"] == 200:
        future.set_result(None)
        return
    kind = answer.get("type") or "stale-run"
    problem = Problem(
        type=kind,
        title=kind.rsplit("/", 1)[-1].replace("-", " ").capitalize(),
        status=answer["status"],
        detail=answer.get("detail"),
    )
    future.set_exception(error_for(problem))


def _refused(report: Report, error: TreadleError) -> Answer:
    status = error.problem.status if isinstance(error, ProblemError) else 422
    name = error.problem.type if isinstance(error, ProblemError) else "validation-error"
    ref = {"task_id": report["task_id"], "run_id": report["run_id"]}
    return ref | {"status": status, "type": name, "detail": str(error)}
