"""The executor, which runs the claims that a broker brings to this process, as a worker would, and reports on them."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import httpx

from treadle.clock import monotonic
from treadle.errors import ConnectionLost, InvalidTaskTransition, ProblemError, TreadleError
from treadle.ids import RunKey
from treadle.internal.link import LOST, Run, RunLink, RunUploader
from treadle.tasks import endings
from treadle.tasks.definition import Task
from treadle.transport.http import HttpChannel
from treadle.transport.retries import delays
from treadle.wire.fields import MOST_WEIGHT
from treadle.worker.config import Lifespan
from treadle.worker.credentials import Credentials
from treadle.worker.lease import Leases
from treadle.worker.reports import ENDS, Answer, ReportData, Reporter, is_untaken, name_of
from treadle.worker.runner import Runner
from treadle.worker.watchdog import Watchdog

log: logging.Logger = logging.getLogger("treadle.internal")

HERE = "http://127.0.0.1:1"
"""The server's URL for executors in its own process: their requests never leave it, and nothing listens there."""

LAST_REPORTS = 5.0
"""Seconds that an ending executor waits for its last reports to be accepted."""

LAST_CODE = 5.0
"""Seconds that code which was told to stop gets."""


class Executor:
    """Runs claims from `start` to `stop`. With `is_alone` the process is its own, and may be ended to free a target.

    `urls` is where its code finds the server; `transport`, if given, is used instead of the network. Code that is
    running when it is stopped has `drain_grace` seconds to end; after that it is stopped and handed back.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        channel: HttpChannel,
        *,
        transport: httpx.AsyncBaseTransport | None,
        urls: tuple[str, ...],
        lifespan: Lifespan | None,
        drain_grace: float,
        is_alone: bool,
    ) -> None:
        self._tasks = tasks
        self._link = RunLink(channel)
        self._uploader = RunUploader(self._link, urls, None if transport is None else {HERE: transport})
        self._urls = urls
        self._transport = transport
        self._lifespan = lifespan
        self._drain_grace = drain_grace
        self._is_alone = is_alone
        self._reporter = Reporter(self._link.reports, self._on_answer)
        self._leases = Leases(self._link.beat)
        self._ends: dict[RunKey, asyncio.Future[None]] = {}
        self._stops = asyncio.Event()
        self._ready = asyncio.Event()
        self._runner: Runner
        self._keeping: asyncio.Task[None]

    async def start(self) -> None:
        """Begin; raises what the lifespan raises."""
        # In a task of its own: brokers call `start` and `stop` from different tasks, but the lifespan must be entered
        # and left in the same one.
        self._keeping = asyncio.create_task(self._keep(), name="treadle-executor")
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait({self._keeping, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._keeping.done():
            await self._keeping

    async def stop(self) -> None:
        """Let what is running end, hand the rest back, and end; raises what the lifespan raises."""
        self._stops.set()
        await self._keeping

    def nudge(self) -> None:
        """Ask at once whether the running tasks may go on."""
        self._leases.beat_now()

    async def run(self, claim: dict[str, Any]) -> None:
        """Run a claim and return when its end is reported; a run that is not ours is left alone."""
        run = self._link.add(claim)
        key: RunKey = (claim["id"], claim["run_id"])
        try:
            if self._stops.is_set():
                await self._return(run)
                return
            if not await self._admit(claim, run):
                return
            ended = self._ends[key] = asyncio.get_running_loop().create_future()
            # How long the claim waited at the broker is unknown: code with a target first asks how long its lease
            # lasts. The token in the claim is the executor's own; the code asks for credentials of its run.
            self._runner.take([claim | {"credentials": None}], monotonic() - claim["seconds_left"])
            await ended
        except TreadleError as error:
            log.warning("task %s, run %d, was not run: %s", *key, error)
        finally:
            self._ends.pop(key, None)
            self._link.drop(key)

    async def _admit(self, claim: dict[str, Any], run: Run) -> bool:
        """Start the run on the server, which lets only one executor start it; return whether it is ours.

        A broker may deliver a claim twice, and a server that restarts sends out again what was not started.
        """
        start = {"status": "running", "run_id": claim["run_id"]}
        is_doubtful = False
        for delay in delays():
            try:
                await self._link.ask(run, "PATCH", f"/v1/tasks/{claim['id']}", start)
            except ConnectionLost:
                is_doubtful = True
            except InvalidTaskTransition as error:
                if is_doubtful:
                    await self._give_up(run)
                else:
                    log.info("task %s, run %d, was already started: %s", claim["id"], claim["run_id"], error)
                return False
            except ProblemError as error:
                if error.problem.status in LOST:
                    log.warning("task %s, run %d, is not ours to start: %s", claim["id"], claim["run_id"], error)
                    return False
            else:
                return True
            await asyncio.sleep(delay)
        raise AssertionError("the delays never end")

    async def _give_up(self, run: Run) -> None:
        """End a run that may or may not have been started by us: that way another attempt is sure to run."""
        error = "the connection broke while the run was being started"
        await self._link.ask(run, "POST", f"{run.path}/exception", {"reason": "intermittent-task", "error": error})

    async def _return(self, run: Run) -> None:
        """Hand back a run that was not started, because this process is about to end."""
        await self._link.ask(run, "POST", f"{run.path}/exception", {"reason": "returned"})

    # Its lifecycle

    async def _keep(self) -> None:
        try:
            lifespan = nullcontext() if self._lifespan is None else self._lifespan()
            async with lifespan as resources, asyncio.TaskGroup() as group:
                self._runner = Runner(
                    self._tasks,
                    self._reporter,
                    self._leases,
                    group,
                    concurrency=MOST_WEIGHT,  # the broker and the server enforce the limits
                    give_back=self._hand_back,
                    uploader=self._uploader,
                    credentials=Credentials(
                        self._link.reclaim, self._reporter.online, self._urls, transport=self._transport
                    ),
                    resources=resources,
                    step_link=self._link,
                )
                loops = [
                    group.create_task(work) for work in (self._reporter.run(), self._leases.run(self._reporter.online))
                ]
                self._reporter.online.set()
                watchdog = Watchdog(self._leases) if self._is_alone else None
                if watchdog is not None:
                    watchdog.start()
                self._ready.set()
                await self._stops.wait()
                await self._drain()
                if watchdog is not None:
                    watchdog.stop()
                for loop in loops:
                    loop.cancel()
        finally:
            await self._uploader.close()
            await self._link.close()

    async def _drain(self) -> None:
        self._runner.is_draining = True
        if not await self._runner.idle(self._drain_grace):
            for held in self._runner.running:
                self._leases.stop_run(held, "shutdown")
            await self._runner.idle(LAST_CODE)
            self._runner.abandon()
        if not await self._reporter.flushed(LAST_REPORTS):
            log.error("the server did not accept the last reports: their runs will end by timeout")
        await self._runner.close(LAST_CODE)
        for ended in self._ends.values():
            if not ended.done():
                ended.set_result(None)

    def _hand_back(self, refs: list[dict[str, Any]]) -> None:
        for ref in refs:
            self._reporter.add({**ref, **endings.shut_down()})

    def _on_answer(self, report: ReportData, answer: Answer) -> None:
        """Handle the answer to a report that ends a run, or the refusal of any other report."""
        key: RunKey = (report["task_id"], report["run_id"])
        held = self._leases.held.get(key)
        status, is_end = answer["status"], report["kind"] in ENDS
        if is_untaken(report, answer):
            log.error("task %s: its %s was refused: %s", key[0], name_of(report), answer.get("detail"))
            if is_end:
                ref = {"task_id": key[0], "run_id": key[1]}
                self._reporter.add({**ref, **endings.refused(report["kind"], answer.get("detail"))})
            return
        if status != 200:
            log.info("task %s, run %d, is no longer ours: %s", *key, answer.get("detail"))
        if is_end:
            if held is not None:
                self._leases.drop(held)
            if (ended := self._ends.get(key)) is not None and not ended.done():
                ended.set_result(None)
        elif held is not None and status in LOST:
            self._leases.stop_run(held, "gone")
