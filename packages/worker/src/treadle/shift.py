"""One shift of a worker, from its opening to its drain: what connects the server's line to the code that runs."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from treadle.client import Client
from treadle.clock import monotonic
from treadle.credentials import Credentials
from treadle.errors import (
    ConnectionFailed,
    Forbidden,
    InternalServerError,
    InvalidArguments,
    ProblemError,
    SocketRefused,
    StoreUnavailable,
    TooManyRequests,
    TreadleError,
    WorkerNotFound,
)
from treadle.execute import Runner
from treadle.lease import Leases
from treadle.pulse import Pulse
from treadle.reaching import delays
from treadle.reports import ENDS, Answer, Report, Reporter
from treadle.schedules import registration
from treadle.session import Session
from treadle.uploads import Uploader
from treadle.watch import Watch, end_process

if TYPE_CHECKING:
    from treadle.link import Link
    from treadle.tasks import Task
    from treadle.worker import Plan

log = logging.getLogger("treadle.worker")

LAST_REPORTS = 5.0
"""Seconds that a worker which ends waits for its last reports to be taken."""

LAST_CODE = 5.0
"""Seconds that code which was told to stop gets, before the worker ends without it."""

_BUSY = (StoreUnavailable, TooManyRequests, InternalServerError)


class Shift:
    """A worker at work. `stops` ends it; `on_open` is told its id each time the server has taken it."""

    def __init__(self, plan: "Plan", stops: asyncio.Event, *, on_open: Callable[[str], None]) -> None:
        self._plan = plan
        self._stops = stops
        self._on_open = on_open
        self._uploader = Uploader(plan.urls, plan.token)
        self._reporter = Reporter(self._send_reports, self._on_answer)
        self._leases = Leases(self._send_beat, self._reconnect)
        self._hurries = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._background: list[asyncio.Task[object]] = []
        self._worker_id: str | None = None
        self._link: Link | None = None
        self._is_polling = False
        self._fatal: TreadleError | None = None
        self._has_begun = False
        self._has_schedules = any(task.schedule is not None for task in plan.tasks.values())
        """Whether there are schedules that the server has not been told yet."""
        self._runner: Runner
        self._helper: Client

    async def work(self) -> None:
        """Work until `stops` is set, then drain; raises what the server refused the worker for."""
        async with self._resources() as resources, self._client() as self._helper, self._group:
            self._begin(resources)
            try:
                await self._stops.wait()
                await self._drain(self._plan.drain_grace)
            except asyncio.CancelledError:
                await self._drain(0)
                raise
            finally:
                await self._end()
        if self._fatal is not None:
            raise self._fatal

    def hurry(self) -> None:
        """End the grace: stop what runs."""
        self._hurries.set()
        for held in self._runner.running if self._has_begun else ():
            self._leases.stop_run(held, "shutdown")

    @asynccontextmanager
    async def _resources(self) -> AsyncIterator[Any]:
        if self._plan.lifespan is None:
            yield None
        else:
            async with self._plan.lifespan() as resources:
                yield resources

    def _client(self) -> Client:
        # Tasks that submit tasks find an open client; it connects when one does.
        plan = self._plan
        return Client(",".join(plan.urls), plan.token, settings=plan.settings)

    def _begin(self, resources: Any) -> None:
        plan = self._plan
        self._runner = Runner(
            plan.tasks,
            self._reporter,
            self._leases,
            self._group,
            concurrency=plan.concurrency,
            give_back=lambda refs: self._spawn(self._give_back(refs)),
            uploader=self._uploader,
            credentials=Credentials(self._reclaim, self._reporter.online, plan.urls),
            resources=resources,
        )
        self._session = Session(
            plan.urls,
            plan.token,
            on_push=self._on_push,
            on_connect=self._open_on_socket,
            on_disconnect=self._reporter.online.clear,
            on_down=self._on_down,
            patience=math.inf,
            first_patience=math.inf,
            client=plan.name,
        )
        loop = asyncio.get_running_loop()

        def apply(answer: dict[str, Any], sent: float) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._leases.apply, answer, sent)

        self._watch = Watch(self._leases)
        self._pulse = Pulse(self._leases, plan.urls, plan.token, worker_id=lambda: self._worker_id, apply=apply)
        self._watch.start()
        self._pulse.start()
        for work in (self._session.run(), self._reporter.run()):
            self._spawn(work)
        self._beating = self._spawn(self._leases.run())
        self._has_begun = True

    def _spawn(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        task = self._group.create_task(work)
        self._background.append(task)
        task.add_done_callback(self._background.remove)
        return task

    async def _drain(self, grace: float) -> None:
        """Take no more, let what runs end within `grace` seconds, and hand the rest back."""
        self._leases.is_draining = self._runner.is_draining = True
        if self._reporter.online.is_set():
            # Told first: what is handed back must not be pushed here again.
            await self._leases.beat()
        self._runner.return_waiting()
        if not await self._let_end(grace):
            log.warning("%d runs have not ended, and are stopped and handed back", len(self._runner.running))
            self.hurry()
            await self._runner.idle(LAST_CODE)
            self._runner.abandon()
        if self._link is None or self._fatal is not None:
            return
        if not await self._reporter.flushed(LAST_REPORTS):
            log.error("the server did not take the last reports: their leases will run out")
            return
        # After its removal there is nothing to beat for.
        self._beating.cancel()
        try:
            async with asyncio.timeout(LAST_REPORTS):
                await self._link.close_worker()
        except (TreadleError, TimeoutError) as error:
            why = str(error) or "the server did not answer in time"
            log.warning("the worker could not be removed, and will be missed: %s", why)

    async def _let_end(self, grace: float) -> bool:
        """Wait until no code runs; `grace` seconds at most, and not when it hurries. Return whether none does."""
        ends = [self._spawn(work) for work in (self._runner.idle(grace), self._hurries.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        return not self._runner.running

    async def _end(self) -> None:
        self._pulse.stop()
        await self._session.close()
        if not await self._runner.close(LAST_CODE):
            log.critical("code that ignores its cancellation keeps the worker from ending: it ends itself")
            end_process()
        self._watch.stop()
        await self._uploader.close()
        for task in list(self._background):
            task.cancel()

    async def _open_on_socket(self) -> None:
        from treadle.link import SocketLink

        self._link = SocketLink(self._session)
        try:
            await self._open()
        except ConnectionFailed:
            # The session is about to connect anew, and to call this again.
            log.debug("the connection broke while the worker was being opened")

    async def _over_http(self) -> None:
        """Work without a socket: claims are long-polled for."""
        from treadle.http import HttpChannel
        from treadle.link import HttpLink, poll

        http = HttpChannel(self._plan.urls, self._plan.token, patience=math.inf)
        link = self._link = HttpLink(http)
        self._runner.freed.set()
        try:
            while self._fatal is None:
                await self._open()
                try:
                    await poll(link, self._runner.take, lambda: self._runner.free, self._runner.freed)
                except WorkerNotFound:
                    log.warning("the server has forgotten the worker: it registers anew")
                    self._forget()
                except ProblemError as error:
                    self._give_up(error)
        finally:
            await http.close()

    async def _open(self) -> None:
        """Open the worker, again when the server doesn't know it any more; a refusal ends the shift."""
        assert self._link is not None
        while True:
            sent = monotonic()
            try:
                answer = await self._link.open(self._opening())
            except WorkerNotFound:
                self._forget()
            except _BUSY as error:
                log.warning("the server does not take the worker yet: %s", error)
                await asyncio.sleep(1)
            except ProblemError as error:
                self._give_up(error)
                return
            else:
                break
        self._worker_id = answer["worker"]["id"]
        self._leases.apply(answer, sent)
        self._reporter.online.set()
        self._runner.start_waiting()
        log.info("worker %s is open for %d jobs", self._worker_id, len(self._plan.tasks))
        if self._has_schedules:
            # Once in a worker's life: those that connect anew after an outage would undo each other's versions.
            self._has_schedules = False
            self._spawn(self._set_schedules())
        self._on_open(answer["worker"]["id"])

    async def _set_schedules(self) -> None:
        """Tell the server the tasks' schedules; what it refuses as wrong ends the shift."""
        for task in self._plan.tasks.values():
            if task.schedule is None:
                continue
            try:
                await self._set_schedule(task)
            except Forbidden as error:
                log.warning("the schedule of %s stays as it is: %s", task.full_name, error)
            except (ProblemError, InvalidArguments) as error:
                self._give_up(error)
                return

    async def _set_schedule(self, task: "Task[..., Any]") -> None:
        name, body = registration(task)
        for delay in delays():
            try:
                await self._helper.set_schedule(name, room=task.job.room, **body)
            except (ConnectionFailed, *_BUSY) as error:
                log.warning("the schedule of %s could not be set yet: %s", task.full_name, error)
                await asyncio.sleep(delay)
            else:
                return

    def _opening(self) -> dict[str, Any]:
        return self._plan.opening(self._worker_id, self._leases.refs(), draining=self._leases.is_draining)

    def _forget(self) -> None:
        """The server removed the worker: what it holds is lost, and it comes back as another."""
        self._worker_id = None
        self._leases.stop_runs(self._leases.refs(), "gone")

    def _give_up(self, error: TreadleError) -> None:
        log.error("the server refuses the worker: %s", error)
        self._fatal = error
        self._stops.set()

    def _on_down(self, error: TreadleError) -> None:
        if isinstance(error, SocketRefused):
            if not self._is_polling:
                self._is_polling = True
                log.warning("%s: working over plain HTTP", error)
                self._spawn(self._over_http())
        elif not self._stops.is_set():
            self._give_up(error)

    def _on_push(self, item: dict[str, Any]) -> None:
        match item["push"]:
            case "claim":
                self._runner.take(item["tasks"], self._session.heard)
            case "cancel" | "pause" | "gone" as why:
                self._leases.stop_runs(item["runs"], why)
            case "drain":
                self._stops.set()

    def _on_answer(self, report: Report, answer: Answer) -> None:
        """A report that ends a run was answered, or another one was refused."""
        held = self._leases.held.get((report["task_id"], report["run_id"]))
        if held is None:
            return
        status, is_end = answer["status"], report["kind"] in ENDS
        if status in {413, 422} and report["kind"] not in {"stopped", "exception"}:
            why = f"the server refused the run's {report['kind']} report: {answer.get('detail')}"
            log.error("task %s: %s", held.key[0], why)
            if is_end:
                self._reporter.add({**held.ref, "kind": "exception", "reason": "internal-error", "error": why[:10_000]})
            return
        if status != 200:
            log.info("task %s, run %s, is no longer ours: %s", *held.key, answer.get("detail"))
        if is_end:
            self._leases.drop(held)
        elif status in {404, 409}:
            self._leases.stop_run(held, "gone")

    async def _send_reports(self, reports: list[Report]) -> list[Answer]:
        if self._link is None:
            raise ConnectionFailed("the worker is not open")
        return await self._link.reports(reports)

    def _reconnect(self) -> None:
        """A heartbeat was not answered: what the connection leads to is not there any more, though nobody said so."""
        if self._link is not None:
            self._link.drop()

    async def _send_beat(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._link is None or not self._reporter.online.is_set():
            raise ConnectionFailed("the worker is not open")
        return await self._link.beat(body)

    async def _reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        if self._link is None:
            raise ConnectionFailed("the worker is not open")
        return await self._link.reclaim(ref)

    async def _give_back(self, refs: list[dict[str, Any]]) -> None:
        try:
            if self._link is not None:
                await self._link.give_back(refs)
        except TreadleError as error:
            log.info("claims could not be handed back, and return by themselves: %s", error)
