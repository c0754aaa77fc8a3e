"""One run of a worker, from its opening to its drain: it connects the link to the server with the running code."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from treadle.client.client import Client
from treadle.client.scheduling import schedule_path
from treadle.clock import monotonic
from treadle.errors import (
    NOT_NOW,
    ConnectionFailed,
    DefinitionError,
    Forbidden,
    LoopTaken,
    ProblemError,
    ScheduleNotFound,
    TreadleError,
)
from treadle.isolation.output import captured
from treadle.tasks import endings
from treadle.tasks.registrations import registration
from treadle.transport.retries import QuietLog, delays
from treadle.values import brief
from treadle.wire.amounts import counted, in_seconds
from treadle.wire.log_lines import bound
from treadle.wire.names import INTERNAL
from treadle.worker.connector import Connector
from treadle.worker.credentials import Credentials
from treadle.worker.fallback_heartbeat import FallbackHeartbeat
from treadle.worker.guarded_group import GuardedGroup
from treadle.worker.idle_stop import IdleStop
from treadle.worker.lease import Leases
from treadle.worker.lifespan import Cuttable, LifespanCut
from treadle.worker.limits import warn_of_others
from treadle.worker.reports import ENDS, Answer, ReportData, Reporter, is_untaken, name_of
from treadle.worker.runner import Runner
from treadle.worker.sealing import RunSealing
from treadle.worker.uploads import Uploader
from treadle.worker.watchdog import Watchdog, end_process

if TYPE_CHECKING:
    from treadle.tasks.definition import Task
    from treadle.worker.config import WorkerConfig

log: logging.Logger = logging.getLogger("treadle.worker")

LAST_REPORTS = 5.0
"""Seconds for which an ending worker waits for an answer, such as to its last reports; less if its grace is over."""

LEAST_WAIT = 2.0
"""The least seconds that it waits for an answer: less would mistake a busy server for an absent one."""

LAST_CODE = 5.0
"""Seconds that code which was told to stop gets, before the worker ends without it."""


CANCELLED = "cancelled the worker's own tasks, which asyncio.all_tasks() returns too"
"""One of the two ways in which code takes the worker's event loop; the other is to stop it."""

WITH_THE_LOOP = (
    "the worker was cancelled with everything in its event loop, as asyncio.run does at its end: its tasks are"
    " requeued when their leases end. Call stop() and await run_async() first"
)

OF_THE_SERVER = (
    "the worker gets no tasks of %s: the server itself runs what is in @internal, `treadle server --internal`"
)


class WorkerRun:
    """A worker at work. `stops` ends it; `on_open` is called with its id each time the server has accepted it.

    With `is_alone` the event loop is its own, not that of a program that may end it at any time.
    """

    def __init__(
        self, config: "WorkerConfig", stops: asyncio.Event, *, on_open: Callable[[str], None], is_alone: bool
    ) -> None:
        self._config = config
        self._is_alone = is_alone
        self._stops = stops
        self._on_open = on_open
        self._uploader = Uploader(config.urls, config.token)
        self._leases = Leases(self._send_beat, self._reconnect, stops.set)
        self._sealing = RunSealing(config.sealer, self._leases.held)
        self._reporter = Reporter(
            self._send_reports,
            self._on_answer,
            seal=self._sealing.seal,
            at_once=lambda: self._connector.reports_at_once,
        )
        self._connector = Connector(
            config,
            self._leases,
            self._reporter.online,
            on_open=self._on_opened,
            on_refused=self._give_up,
            spawn=self._spawn,
        )
        self._idle_stop = IdleStop(config.max_idle or 0.0, self._leases, self._reporter.online, stops)
        self._hurries = asyncio.Event()
        self._group = GuardedGroup()
        self._background: list[asyncio.Task[object]] = []
        self._fatal: TreadleError | None = None
        self._has_begun = False
        self._is_ending = False
        self._has_limits = any(task.limits for task in config.tasks.values())
        self._has_schedules = any(task.schedule is not None for task in config.tasks.values())
        """Whether there are schedules that the server has not been sent yet."""
        self._runner: Runner
        self._helper: Client
        self._task: asyncio.Task[object]

    async def work(self) -> None:
        """Work until `stops` is set, then drain; raises the error with which the server refused the worker."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        of = bound(worker=lambda: self._connector.worker_id)
        if internal := [str(task.job) for task in self._config.tasks.values() if task.job.room == INTERNAL]:
            log.warning(OF_THE_SERVER, ", ".join(internal))
        with of, captured(wanted=self._config.settings.capture_output):
            try:
                await self._work()
            except LifespanCut:
                log.warning("the lifespan was cancelled: the worker was ending, and had to wait for it")
        if self._fatal is not None:
            raise self._fatal

    async def _work(self) -> None:
        async with self._resources() as resources, self._client() as self._helper, self._group:
            self._begin(resources)
            try:
                await self._stops.wait()
                await self._drain(self._config.drain_grace)
            except asyncio.CancelledError:
                if self._beating.cancelling() and not self._is_alone:
                    log.warning(WITH_THE_LOOP)
                await _to_its_end(self._drain(0))
                raise
            finally:
                await _to_its_end(self._end())

    def hurry(self) -> None:
        """End the grace: stop what is running."""
        self._hurries.set()
        self._stop_runs()

    def _stop_runs(self) -> None:
        for held in self._runner.running if self._has_begun else ():
            self._leases.stop_run(held, "shutdown")

    def _resources(self) -> AbstractAsyncContextManager[Any]:
        if self._config.lifespan is None:
            return nullcontext()
        manager: object = self._config.lifespan()
        if not isinstance(manager, AbstractAsyncContextManager):
            raise DefinitionError(
                f"the lifespan returned {brief(manager)}, which is not an async context manager: put"
                " @asynccontextmanager before an async function that yields once"
            )
        return Cuttable(manager, self._stops, self._hurries)

    def _client(self) -> Client:
        # Tasks that submit tasks find this client open; it connects when one of them does.
        config = self._config
        codec = config.sealer.codec
        return Client(",".join(config.urls), config.token, settings=config.settings, default=False, codec=codec)

    def _begin(self, resources: Any) -> None:
        config = self._config
        self._runner = Runner(
            config.tasks,
            self._reporter,
            self._leases,
            self._group,
            concurrency=config.concurrency,
            hoards=config.prefetch is not None,
            give_back=lambda refs: self._spawn(self._connector.give_back(refs)),
            uploader=self._uploader,
            credentials=Credentials(self._connector.reclaim, self._reporter.online, config.urls),
            resources=resources,
            middleware=config.middleware,
            captures_output=config.settings.capture_output,
            sealing=self._sealing,
            step_link=self._connector,
        )
        loop = asyncio.get_running_loop()

        def apply(answer: dict[str, Any], sent: float) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._leases.apply, answer, sent)

        self._watchdog = Watchdog(self._leases)
        self._fallback = FallbackHeartbeat(
            self._leases, config.urls, config.token, worker_id=lambda: self._connector.worker_id, apply=apply
        )
        self._watchdog.start()
        self._fallback.start()
        self._keep(self._connector.run(self._runner))
        self._keep(self._reporter.run())
        self._beating = self._keep(self._leases.run(self._reporter.online))
        if config.max_idle is not None:
            self._spawn(self._idle_stop.run(self._runner))
        self._has_begun = True

    def _spawn(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        task = self._group.create_task(work)
        self._background.append(task)
        task.add_done_callback(self._background.remove)
        return task

    def _keep(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        """Start a task that the worker can't do without: whoever cancels it before the worker's end ends the worker."""
        task = self._spawn(work)
        task.add_done_callback(self._look_at)
        return task

    def _look_at(self, task: asyncio.Task[object]) -> None:
        if not task.cancelled() or self._is_ending or self._fatal is not None:
            return
        if self._is_alone or not self._task.cancelling():
            log.error("%s", self.taken(CANCELLED))
            self._stops.set()

    def taken(self, how: str) -> TreadleError:
        """Return the error for code that did `how` to the event loop; it names the async tasks running there."""
        running = self._runner.running if self._has_begun else ()
        ran = {held.claim["job_name"] for held in running if self._config.tasks[held.claim["job_name"]].is_async}
        whose = f"; async tasks running then: {', '.join(sorted(ran))}" if ran else ""
        self._fatal = self._fatal or LoopTaken(
            f"code in the worker's event loop {how}, so the worker ends{whose}: let it cancel only what it started, or"
            ' give it isolation="process"'
        )
        return self._fatal

    async def _drain(self, grace: float) -> None:
        """Take no more, let what is running end within `grace` seconds or at least `LEAST_WAIT`, hand the rest back."""
        self._is_ending = True
        over = monotonic() + grace
        self._leases.is_draining = self._runner.is_draining = True
        # First of all, so that the server does not push again what is handed back.
        is_heard = not self._reporter.online.is_set() or await self._tell_draining(_patience(grace))
        self._runner.return_waiting()
        if not await self._let_end(over - monotonic()):
            runs = counted(len(self._runner.running), "run")
            log.warning("%s did not end in time: stopped and handed back", runs)
            self._stop_runs()
            await self._runner.idle(LAST_CODE)
            self._runner.abandon()
        if not self._connector.has_opened or (self._fatal is not None and not self._connector.is_open):
            # There is nobody to tell: no server was reached, or it has refused the worker and accepts nothing from it.
            return
        left = over - monotonic()
        if not await self._reporter.flushed(_patience(left) if is_heard else left):
            log.error("the server did not accept the last reports: their leases will run out")
        elif is_heard:
            await self._remove(_patience(over - monotonic()))

    async def _tell_draining(self, patience: float) -> bool:
        """Tell the server to push nothing more; return False if it does not answer in time."""
        try:
            async with asyncio.timeout(patience):
                await self._leases.beat()
        except TimeoutError:
            log.warning(
                "the server did not answer within %s: the worker ends without waiting for it", in_seconds(patience)
            )
            self._reconnect()
            return False
        return True

    async def _remove(self, patience: float) -> None:
        """Remove the worker from the server, so that the server no longer waits for it."""
        # After its removal there is nothing to send heartbeats for.
        self._beating.cancel()
        try:
            async with asyncio.timeout(patience):
                await self._connector.close_worker()
        except (TreadleError, TimeoutError) as error:
            why = str(error) or "the server did not answer in time"
            log.warning(
                "the worker could not be removed, and the server will remove it when its heartbeats are missed: %s", why
            )

    async def _let_end(self, grace: float) -> bool:
        """Wait until no code runs, for at most `grace` seconds, or until `hurry`; return whether none is running."""
        ends = [self._spawn(work) for work in (self._runner.idle(grace), self._hurries.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        return not self._runner.running

    async def _end(self) -> None:
        self._is_ending = True
        self._fallback.stop()
        await self._connector.close()
        if not await self._runner.close(LAST_CODE):
            log.critical("code that ignores its cancellation keeps the worker from ending: the worker ends itself")
            end_process()
        self._watchdog.stop()
        await self._uploader.close()
        for task in list(self._background):
            task.cancel()

    def _on_opened(self, worker_id: str) -> None:
        self._idle_stop.opened()
        if self._has_limits:
            self._has_limits = False
            self._spawn(warn_of_others(self._config.tasks.values(), self._helper.request))
        if self._has_schedules:
            # Once in a worker's life: workers that reconnect after an outage would undo each other's versions.
            self._has_schedules = False
            self._spawn(self._set_schedules())
        self._on_open(worker_id)

    async def _set_schedules(self) -> None:
        """Send the tasks' schedules to the server; if it refuses one as invalid, the worker ends."""
        for task in self._config.tasks.values():
            if task.schedule is None:
                continue
            try:
                await self._set_schedule(task)
            except (Forbidden, ScheduleNotFound) as error:
                # It is another user's, visible or not.
                log.warning("the schedule of %s is left unchanged: %s", task.full_name, error)
            except ProblemError as error:
                self._give_up(error)
                return

    async def _set_schedule(self, task: "Task[..., Any]") -> None:
        name, body = registration(task, self._config.sealer)
        waits = QuietLog(log)
        for delay in delays():
            try:
                await self._helper.request("PUT", schedule_path(task.job.room, name), body)
            except (ConnectionFailed, *NOT_NOW) as error:
                waits.say(f"the schedule of {task.full_name} could not be set yet: {error}", "trying again")
                await asyncio.sleep(delay)
            else:
                return

    def _give_up(self, error: TreadleError) -> None:
        log.error("the server refused the worker: %s", error)
        self._fatal = error
        self._stops.set()

    def _on_answer(self, report: ReportData, answer: Answer) -> None:
        """Handle the answer to a report that ends a run, or the refusal of any other report."""
        held = self._leases.held.get((report["task_id"], report["run_id"]))
        status, is_end = answer["status"], report["kind"] in ENDS
        if is_untaken(report, answer):
            log.error("task %s: its %s was refused: %s", report["task_id"], name_of(report), answer.get("detail"))
            if held is not None and is_end:
                self._reporter.add({**held.ref, **endings.refused(report["kind"], answer.get("detail"))})
            return
        if held is None:
            return
        if status != 200:
            log.info("task %s, run %s, is no longer ours: %s", *held.key, answer.get("detail"))
        if is_end and not held.is_overdue:
            self._leases.drop(held)
        elif status in {404, 409}:
            self._leases.stop_run(held, "gone")

    # The parts that the connector is built from reach it only through these.

    async def _send_reports(self, reports: list[ReportData]) -> list[Answer]:
        return await self._connector.reports(reports)

    async def _send_beat(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._connector.beat(body)

    def _reconnect(self) -> None:
        """Break the connection after an unanswered heartbeat: its other end is gone, although nothing has said so."""
        self._connector.drop()


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work that ends by itself, even if this task is cancelled meanwhile.

    Code that has cancelled all tasks and waits for them does so again when it is itself cancelled: that would cut the
    worker's end short, and leave the worker waiting for code that waits for the worker.
    """
    ending = asyncio.get_running_loop().create_task(work)
    while not ending.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({ending})
    if ending.cancelled():
        log.warning(WITH_THE_LOOP)
    ending.result()


def _patience(left: float) -> float:
    """Return for how many seconds to wait for an answer when `left` seconds of the grace are left."""
    return max(LEAST_WAIT, min(LAST_REPORTS, left))
