"""What a worker has to tell the server: kept in order until it is acknowledged, and sent in batches."""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any

from treadle.errors import (
    NOT_NOW,
    ConnectionFailed,
    InvalidArguments,
    PayloadTooLarge,
    ProblemError,
    TreadleError,
    WorkerNotFound,
    error_for,
)
from treadle.ids import RunKey
from treadle.transport.retries import QuietLog
from treadle.wire.problems import Problem
from treadle.wire.runs import LINES_AT_ONCE

log: logging.Logger = logging.getLogger("treadle.worker")

ReportData = dict[str, Any]
Answer = dict[str, Any]

BATCH = 2000
"""Reports of one request at most; the rest waits for the next one."""

MUCH = 64
"""Reports that make a further request worth while beside those that are under way."""

AT_ONCE = 2
"""Requests under way at most, unless the server says otherwise: who writes one has the next at hand."""

SOFT_DELAY = 0.2
"""Seconds that progress and log lines are gathered before they are sent."""

PAUSE = 1.0
"""Seconds before what the server could not take is sent again."""

KEPT_CHARACTERS = 2_000_000
"""Characters of those lines: twenty of the longest were a request that no server takes, and all were lost."""

ENDS = frozenset({"completed", "failed", "exception", "paused", "suspended", "stopped"})


def is_untaken(report: ReportData, answer: Answer) -> bool:
    """Return whether the server refuses the report for what is in it, so that the run's end is to be told otherwise."""
    return answer["status"] in {413, 422} and report["kind"] not in {"stopped", "exception"}


_WITH_START = frozenset({"completed", "failed", "exception", "suspended"})
"""Ends that may tell the start as well."""

Send = Callable[[list[ReportData]], Awaitable[list[Answer]]]
Seal = Callable[[ReportData], ReportData | None]


def _as_it_is(report: ReportData) -> ReportData:
    return report


class _Soft:
    """Progress and lines of one run that were not sent yet: of progress only the last counts."""

    __slots__ = ("_characters", "dropped", "lines", "progress")

    def __init__(self) -> None:
        self.progress: ReportData | None = None
        self.lines: deque[dict[str, Any]] = deque()
        self.dropped = 0
        self._characters = 0

    def add(self, line: dict[str, Any]) -> None:
        """Keep a line, and of those before it as many as there is room for; the loss is told in their place."""
        self._characters += len(line["message"])
        while self.lines and (len(self.lines) == LINES_AT_ONCE or self._characters > KEPT_CHARACTERS):
            self._characters -= len(self.lines.popleft()["message"])
            self.dropped += 1
        self.lines.append(line)


@dataclass(slots=True, eq=False)
class _PendingReport:
    """A report on its way, with its place in the order and whoever waits for its answer."""

    number: int
    report: ReportData
    future: "asyncio.Future[None] | None"

    @property
    def is_whole(self) -> bool:
        """Return whether it says all that there is to say of its run, so that it depends on no other report."""
        return self.report.get("starts") is True


class Reporter:
    """Sends reports in requests that keep their order; what comes meanwhile makes the next one.

    While requests are under way further ones go out that have many reports which depend on nothing before them: so
    the server has the next work at hand when it has done the last. Bounded by what the worker holds: a run has one
    start, one end and one checkpoint under way, and coalesced lines. `on_answer` is told each end's and each refused
    report's answer. Whatever is said of a run goes through `seal` on its way in, once, so that what is sent again is
    the same.
    """

    def __init__(
        self,
        send: Send,
        on_answer: Callable[[ReportData, Answer], None],
        *,
        seal: Seal = _as_it_is,
        at_once: Callable[[], int] = lambda: AT_ONCE,
    ) -> None:
        """`at_once` tells how many requests may be under way."""
        self._send = send
        self._at_once = at_once
        self._seal = seal
        self._on_answer = on_answer
        self._waiting: deque[_PendingReport] = deque()
        self._numbers = itertools.count()
        self._flying = 0
        self._starts: dict[RunKey, ReportData] = {}
        """Starts that were not sent yet, and that nothing followed."""
        self._soft: dict[RunKey, _Soft] = {}
        self._waits = QuietLog(log)
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.online: asyncio.Event = asyncio.Event()
        """Set while the worker is open on a connection; nothing is sent before."""

    def add(self, report: ReportData) -> None:
        """Send a report, behind those before it."""
        key = (report["task_id"], report["run_id"])
        if self._soft and report["kind"] in ENDS:
            self._harden(key)
        sealed = self._seal(report)
        if sealed is None:
            return
        report = sealed
        if report["kind"] == "started":
            self._starts[key] = report
        elif (start := self._starts.pop(key, None)) is not None and report["kind"] in _WITH_START:
            # One report says both: it stands where the start stood, before which nothing of the run was said.
            start.update(report, starts=True)
            if self._flying:
                # It may be what makes a second request worth while.
                self._wake.set()
            return
        self._put(report)

    def _put(self, report: ReportData, future: "asyncio.Future[None] | None" = None) -> None:
        self._waiting.append(_PendingReport(next(self._numbers), report, future))
        self._wake.set()

    async def confirm(self, report: ReportData) -> None:
        """Send a report and wait for its answer; raise the `ProblemError` that it was refused with.

        Raises `EncryptionError` for one that can't be sealed.
        """
        sealed = self._seal(report)
        if sealed is None:
            return
        self._starts.pop((report["task_id"], report["run_id"]), None)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(sealed, future)
        await future

    def progress(self, key: RunKey, share: float | None, message: str | None) -> None:
        """Send how far the run `key` is, in a moment: a share from 0 to 1, a message, or both; of several the last."""
        report: ReportData = {"task_id": key[0], "run_id": key[1], "kind": "progress"}
        if share is not None:
            report["share"] = share
        if message is not None:
            report["message"] = message
        self._soften(key).progress = report

    def line(self, key: RunKey, message: str, level: str) -> None:
        """Send a log line in a moment, with those that come until then."""
        self._soften(key).add({"at": datetime.now(UTC), "level": level, "message": message})

    async def run(self) -> None:
        """Send for ever; ends by cancellation only."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting and self._flying < self._at_once():
                    self._empty.clear()
                    await self.online.wait()
                    batch = self._take()
                    if not batch:
                        break
                    self._flying += 1
                    group.create_task(self._fly(batch))
                if not (self._waiting or self._flying):
                    self._empty.set()

    def _take(self) -> list[_PendingReport]:
        """Take what is to be sent now: everything, or beside other requests only what is whole, if it is much."""
        size = min(BATCH, len(self._waiting))
        if self._flying:
            size = sum(1 for _ in takewhile(lambda entry: entry.is_whole, islice(self._waiting, size)))
            if size < MUCH:
                return []
        batch = [self._waiting.popleft() for _ in range(size)]
        for entry in batch:
            if entry.report["kind"] == "started":
                self._starts.pop((entry.report["task_id"], entry.report["run_id"]), None)
        return batch

    async def _fly(self, batch: list[_PendingReport]) -> None:
        """Send a request; what could not be delivered waits again, in its place."""
        try:
            await self._deliver(batch)
            self._waits.over()
        except NOT_NOW as error:
            self._waits.say(f"reports wait: {error}", "trying again")
            self._again(batch)
            await asyncio.sleep(PAUSE)
        except WorkerNotFound:
            # The connection opens the worker anew; what it reports is judged by its run, not by its worker.
            self._again(batch)
            self.online.clear()
        except ConnectionFailed:
            # Nothing is lost: the same reports go again once the worker is open on a new connection.
            self._again(batch)
            await asyncio.sleep(0.05)
        except Exception:
            log.exception("reports hit a defect, and are sent again")
            self._again(batch)
            await asyncio.sleep(PAUSE)
        finally:
            self._flying -= 1
            self._wake.set()

    async def _deliver(self, batch: list[_PendingReport]) -> None:
        """Send reports, pass on the answers. Raises what says that those that remain in it are to be sent again."""
        try:
            answers = await self._send([entry.report for entry in batch])
        except (*NOT_NOW, WorkerNotFound, ConnectionFailed):
            raise
        except (ProblemError, InvalidArguments) as error:
            # One bad report refuses the batch: each is sent alone, and the bad one is answered here.
            if len(batch) == 1 and isinstance(error, PayloadTooLarge):
                batch[:] = _halves(batch[0])
            if len(batch) == 1:
                self._pass_on(batch, [refused(batch[0].report, error)])
                return
            while batch:
                first = batch[:1]
                try:
                    await self._deliver(first)
                except BaseException:
                    batch[:1] = first
                    raise
                del batch[0]
        else:
            self._pass_on(batch, answers)

    def _again(self, batch: list[_PendingReport]) -> None:
        self._waiting = deque(sorted([*batch, *self._waiting], key=lambda entry: entry.number))

    async def flushed(self, timeout: float) -> bool:  # noqa: ASYNC109 - the answer says whether it was enough
        """Wait up to `timeout` seconds until everything is acknowledged; return whether it is."""
        for key in list(self._soft):
            self._harden(key)
        if not (self._waiting or self._flying):
            return True
        self._empty.clear()
        self._wake.set()
        try:
            async with asyncio.timeout(timeout):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def _pass_on(self, batch: list[_PendingReport], answers: list[Answer]) -> None:
        for entry, answer in zip(batch, answers, strict=True):
            report, future = entry.report, entry.future
            if future is not None and not future.done():
                _resolve(future, answer)
            elif answer["status"] != 200 or report["kind"] in ENDS:
                self._on_answer(report, answer)

    def _soften(self, key: RunKey) -> _Soft:
        soft = self._soft.get(key)
        if soft is None:
            soft = self._soft[key] = _Soft()
            asyncio.get_running_loop().call_later(SOFT_DELAY, self._harden_later, key)
        return soft

    def _harden_later(self, key: RunKey) -> None:
        if key not in self._soft:
            return
        if self.online.is_set():
            self._harden(key)
        else:
            # Gather on, in bounds, until the server is back.
            asyncio.get_running_loop().call_later(SOFT_DELAY, self._harden_later, key)

    def _harden(self, key: RunKey) -> None:
        soft = self._soft.pop(key, None)
        if soft is None:
            return
        self._starts.pop(key, None)
        if soft.progress is not None and (progress := self._seal(soft.progress)) is not None:
            self._put(progress)
        lines = list(soft.lines)
        if soft.dropped:
            lost = {"level": "warning", "message": f"{soft.dropped + 1} lines were logged too fast and left out"}
            lines[0] = lines[0] | lost
        said: ReportData = {"task_id": key[0], "run_id": key[1], "kind": "logs", "lines": lines}
        if lines and (sealed := self._seal(said)) is not None:
            self._put(sealed)


def _halves(entry: _PendingReport) -> list[_PendingReport]:
    """Return log lines that are too many for the server in two reports; what can't be divided stays as it is."""
    lines = entry.report.get("lines", ())
    if len(lines) < 2:
        return [entry]
    half = len(lines) // 2
    return [_PendingReport(entry.number, entry.report | {"lines": some}, None) for some in (lines[:half], lines[half:])]


def name_of(report: ReportData) -> str:
    """Return what a log calls a report: its kind, and the length of a line that it says."""
    lines = report.get("lines", ())
    said = f" of a line of {sum(len(line['message']) for line in lines):,} characters" if len(lines) == 1 else ""
    return f"{report['kind']} report{said}"


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


def refused(report: ReportData, error: TreadleError) -> Answer:
    """Return the answer to a report whose request was refused for it."""
    status, name, detail = 422, "validation-error", str(error)
    if isinstance(error, ProblemError):
        # Without the title, which the type has, and who is told of it says before.
        problem = error.problem
        status, name, detail = problem.status, problem.type, detail.removeprefix(f"{problem.title}: ")
    ref = {"task_id": report["task_id"], "run_id": report["run_id"]}
    return ref | {"status": status, "type": name, "detail": detail}
