"""A worker's reports to the server, kept in order until they are acknowledged, and sent in batches."""

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
from treadle.transport.answers import reading
from treadle.transport.retries import QuietLog
from treadle.values import brief
from treadle.wire.amounts import counted
from treadle.wire.problems import Problem
from treadle.wire.runs import LINES_AT_ONCE

log: logging.Logger = logging.getLogger("treadle.worker")

ReportData = dict[str, Any]
Answer = dict[str, Any]

BATCH = 2000
"""The most reports in one request; the others wait for the next."""

MUCH = 64
"""How many reports make another request worthwhile while others are under way."""

AT_ONCE = 2
"""The most requests under way unless the server says otherwise, so that it has the next at hand while it writes one."""

SOFT_DELAY = 0.2
"""Seconds for which progress and log lines are collected before they are sent."""

PAUSE = 1.0
"""Seconds before a report that the server could not accept is sent again."""

KEPT_CHARACTERS = 2_000_000
"""The most characters of such lines: twenty of the longest made a request too large for any server, and were lost."""

ENDS = frozenset({"completed", "failed", "exception", "paused", "suspended", "stopped"})


def is_untaken(report: ReportData, answer: Answer) -> bool:
    """Return whether the server refuses a report's content, so that the run's end has to be reported otherwise."""
    return answer["status"] in {413, 422} and report["kind"] not in {"stopped", "exception"}


_WITH_START = frozenset({"completed", "failed", "exception", "suspended"})
"""Ends that may also report the start."""

Send = Callable[[list[ReportData]], Awaitable[list[Answer]]]
Seal = Callable[[ReportData], ReportData | None]


def _as_it_is(report: ReportData) -> ReportData:
    return report


class _Buffered:
    """Progress and log lines of one run that were not sent yet; of progress only the last is kept."""

    __slots__ = ("_characters", "dropped", "lines", "progress")

    def __init__(self) -> None:
        self.progress: ReportData | None = None
        self.lines: deque[dict[str, Any]] = deque()
        self.dropped = 0
        self._characters = 0

    def add(self, line: dict[str, Any]) -> None:
        """Add a line, dropping the oldest ones if there is no room; a note in their place tells of the loss."""
        self._characters += len(line["message"])
        while self.lines and (len(self.lines) == LINES_AT_ONCE or self._characters > KEPT_CHARACTERS):
            self._characters -= len(self.lines.popleft()["message"])
            self.dropped += 1
        self.lines.append(line)


@dataclass(slots=True, eq=False)
class _PendingReport:
    """A report to be sent, with its place in the order and the future of its answer."""

    number: int
    report: ReportData
    future: "asyncio.Future[None] | None"

    @property
    def is_whole(self) -> bool:
        """Whether it contains all there is to report of its run, so that it depends on no other report."""
        return self.report.get("starts") is True


class Reporter:
    """Sends reports in requests that keep their order; reports added meanwhile make up the next request.

    While requests are under way, another one is sent if it has many reports that depend on nothing before them, so that
    the server has its next work at hand. The number of reports is bounded by the runs that the worker holds: each has
    at most one start, one end and one checkpoint under way, and merged log lines. `on_answer` is called with each
    answer to an end and each refusal. Whatever is reported of a run passes through `seal` once, on its way in, so that
    a repeated report is identical.
    """

    def __init__(
        self,
        send: Send,
        on_answer: Callable[[ReportData, Answer], None],
        *,
        seal: Seal = _as_it_is,
        at_once: Callable[[], int] = lambda: AT_ONCE,
    ) -> None:
        """`at_once` returns how many requests may be under way."""
        self._send = send
        self._at_once = at_once
        self._seal = seal
        self._on_answer = on_answer
        self._waiting: deque[_PendingReport] = deque()
        self._numbers = itertools.count()
        self._in_flight = 0
        self._starts: dict[RunKey, ReportData] = {}
        """Starts that were not sent yet, and that no other report followed."""
        self._buffered: dict[RunKey, _Buffered] = {}
        self._waits = QuietLog(log)
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.online: asyncio.Event = asyncio.Event()
        """Set while the worker is open on a connection; nothing is sent otherwise."""

    def add(self, report: ReportData) -> None:
        """Send a report, after those added before it."""
        key = (report["task_id"], report["run_id"])
        if self._buffered and report["kind"] in ENDS:
            self._release(key)
        sealed = self._seal(report)
        if sealed is None:
            return
        report = sealed
        if report["kind"] == "started":
            self._starts[key] = report
        elif (start := self._starts.pop(key, None)) is not None and report["kind"] in _WITH_START:
            # One report for both; it takes the place of the start, before which nothing of the run was reported.
            start.update(report, starts=True)
            if self._in_flight:
                # It may be the one that makes a further request worthwhile.
                self._wake.set()
            return
        self._put(report)

    def _put(self, report: ReportData, future: "asyncio.Future[None] | None" = None) -> None:
        self._waiting.append(_PendingReport(next(self._numbers), report, future))
        self._wake.set()

    async def confirm(self, report: ReportData) -> None:
        """Send a report and wait for its answer; raise the `ProblemError` with which it is refused.

        Raises `EncryptionError` if it can't be encrypted.
        """
        sealed = self._seal(report)
        if sealed is None:
            return
        self._starts.pop((report["task_id"], report["run_id"]), None)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(sealed, future)
        await future

    def progress(self, key: RunKey, share: float | None, message: str | None) -> None:
        """Send the progress of the run `key` after a moment: a share from 0 to 1, a message, or both; the last wins."""
        report: ReportData = {"task_id": key[0], "run_id": key[1], "kind": "progress"}
        if share is not None:
            report["share"] = share
        if message is not None:
            report["message"] = message
        self._buffer_of(key).progress = report

    def line(self, key: RunKey, message: str, level: str) -> None:
        """Send a log line after a moment, with those that come until then."""
        self._buffer_of(key).add({"at": datetime.now(UTC), "level": level, "message": message})

    async def run(self) -> None:
        """Send reports until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting and self._in_flight < self._at_once():
                    self._empty.clear()
                    await self.online.wait()
                    batch = self._take()
                    if not batch:
                        break
                    self._in_flight += 1
                    group.create_task(self._send_batch(batch))
                if not (self._waiting or self._in_flight):
                    self._empty.set()

    def _take(self) -> list[_PendingReport]:
        """Take the reports to send now: all of them, or beside other requests only whole ones, if there are many."""
        size = min(BATCH, len(self._waiting))
        if self._in_flight:
            size = sum(1 for _ in takewhile(lambda entry: entry.is_whole, islice(self._waiting, size)))
            if size < MUCH:
                return []
        batch = [self._waiting.popleft() for _ in range(size)]
        for entry in batch:
            if entry.report["kind"] == "started":
                self._starts.pop((entry.report["task_id"], entry.report["run_id"]), None)
        return batch

    async def _send_batch(self, batch: list[_PendingReport]) -> None:
        """Send a request; reports that could not be delivered go back to their place in the queue."""
        try:
            await self._deliver(batch)
            self._waits.over()
        except NOT_NOW as error:
            self._waits.say(f"reports could not be sent yet: {error}", "trying again")
            self._again(batch)
            await asyncio.sleep(PAUSE)
        except WorkerNotFound:
            # The worker is opened again on the connection; the server judges reports by their run, not by their worker.
            self._again(batch)
            self.online.clear()
        except ConnectionFailed as error:
            # Nothing is lost: the same reports are sent again once the worker is open on a new connection.
            self._again(batch)
            if self.online.is_set():
                # An answer came over a connection that is still there, and can't be read.
                self._waits.say(f"reports could not be sent yet: {error}", "trying again")
                await asyncio.sleep(PAUSE)
        except Exception:
            log.exception("sending reports failed because of a bug; they will be sent again")
            self._again(batch)
            await asyncio.sleep(PAUSE)
        finally:
            self._in_flight -= 1
            self._wake.set()

    async def _deliver(self, batch: list[_PendingReport]) -> None:
        """Send reports and pass on the answers; on an error that lets them be sent again, `batch` has the rest."""
        try:
            answers = await self._send([entry.report for entry in batch])
            with reading():
                if [type(answer["status"]) for answer in answers] != [int] * len(batch):
                    raise ValueError(f"expected {counted(len(batch), 'answer')} with a status, not {brief(answers)}")
        except (*NOT_NOW, WorkerNotFound, ConnectionFailed):
            raise
        except (ProblemError, InvalidArguments) as error:
            # A single invalid report gets the batch refused: each is sent alone, and the refused one is answered here.
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
        for key in list(self._buffered):
            self._release(key)
        if not (self._waiting or self._in_flight):
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

    def _buffer_of(self, key: RunKey) -> _Buffered:
        soft = self._buffered.get(key)
        if soft is None:
            soft = self._buffered[key] = _Buffered()
            asyncio.get_running_loop().call_later(SOFT_DELAY, self._release_later, key)
        return soft

    def _release_later(self, key: RunKey) -> None:
        if key not in self._buffered:
            return
        if self.online.is_set():
            self._release(key)
        else:
            # Go on collecting, within bounds, until the server is back.
            asyncio.get_running_loop().call_later(SOFT_DELAY, self._release_later, key)

    def _release(self, key: RunKey) -> None:
        soft = self._buffered.pop(key, None)
        if soft is None:
            return
        self._starts.pop(key, None)
        if soft.progress is not None and (progress := self._seal(soft.progress)) is not None:
            self._put(progress)
        lines = list(soft.lines)
        if soft.dropped:
            lost = {
                "level": "warning",
                "message": f"{soft.dropped + 1} lines were dropped, because they were logged too fast",
            }
            lines[0] = lines[0] | lost
        said: ReportData = {"task_id": key[0], "run_id": key[1], "kind": "logs", "lines": lines}
        if lines and (sealed := self._seal(said)) is not None:
            self._put(sealed)


def _halves(entry: _PendingReport) -> list[_PendingReport]:
    """Return log lines that are too many for the server as two reports; anything else is returned undivided."""
    lines = entry.report.get("lines", ())
    if len(lines) < 2:
        return [entry]
    half = len(lines) // 2
    return [_PendingReport(entry.number, entry.report | {"lines": some}, None) for some in (lines[:half], lines[half:])]


def name_of(report: ReportData) -> str:
    """Return what log lines call a report: its kind, and for a single log line its length."""
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
    """Return the answer to a report because of which its request was refused."""
    status, name, detail = 422, "validation-error", str(error)
    if isinstance(error, ProblemError):
        # Without the title, which the problem type has; log lines that quote the detail say it before.
        problem = error.problem
        status, name, detail = problem.status, problem.type, detail.removeprefix(f"{problem.title}: ")
    ref = {"task_id": report["task_id"], "run_id": report["run_id"]}
    return ref | {"status": status, "type": name, "detail": detail}
