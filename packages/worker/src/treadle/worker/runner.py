"""Runs claims: finds room for each, checks its payload, has its code called, and reports how it ended."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from treadle.clock import monotonic
from treadle.encryption.sealer import Sealer
from treadle.errors import CantDecrypt, InvalidArguments, ProblemError
from treadle.tasks import endings
from treadle.tasks.definition import Task
from treadle.tasks.dependencies import payload_of
from treadle.tasks.endings import Ending
from treadle.transport.answers import UNREADABLE, wrong_in
from treadle.wire.log_lines import bind
from treadle.worker.calls import Caller
from treadle.worker.credentials import Credentials
from treadle.worker.lease import Held, Leases
from treadle.worker.middleware import Middleware
from treadle.worker.reports import Reporter
from treadle.worker.results import read_results
from treadle.worker.sealing import RunSealing
from treadle.worker.steps import StepKeeper, StepLink
from treadle.worker.stopping import log_failure, stopped
from treadle.worker.uploads import Uploader

log: logging.Logger = logging.getLogger("treadle.worker")

OVERFLOW = 1.0
"""If no waiting claim has begun in so many seconds, they are handed back, as other workers may have room."""

GiveBack = Callable[[list[dict[str, Any]]], object]


class Runner:
    """Runs claims, as many at once as `concurrency` has room for; the others wait, first come, first served.

    How many wait is bounded by the server, which pushes no more than concurrency and prefetch together.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        reporter: Reporter,
        leases: Leases,
        group: asyncio.TaskGroup,
        *,
        concurrency: int,
        hoards: bool = False,
        give_back: GiveBack,
        uploader: Uploader,
        credentials: Credentials,
        resources: Any = None,
        middleware: Sequence[Middleware] = (),
        captures_output: bool = False,
        sealing: RunSealing | None = None,
        step_link: StepLink,
    ) -> None:
        self._tasks = tasks
        self._reporter = reporter
        self._leases = leases
        self._group = group
        self._concurrency = concurrency
        self._hoards = hoards
        """Whether `prefetch` was set explicitly: then that much waits here, behind whatever is running."""
        self._give_back = give_back
        self._sealing = sealing or RunSealing(Sealer(None), leases.held)
        self._credentials = credentials
        self._caller = Caller(
            reporter,
            leases,
            group,
            credentials,
            resources,
            uploader,
            middleware,
            captures_output=captures_output,
            codec=self._sealing.codec,
            steps=StepKeeper(step_link, reporter, self._sealing),
        )
        self._waiting: deque[Held] = deque()
        self._looks = False
        """Whether a check of the waiting claims is scheduled."""
        self._running: dict[Held, asyncio.Task[None]] = {}
        self.freed: asyncio.Event = asyncio.Event()
        """Set whenever a run has ended and freed its room."""
        self.is_draining = False
        self._used = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.ended_at: float = -math.inf
        """When code last ended, by the local monotonic clock."""

    @property
    def running(self) -> list[Held]:
        """Runs whose code was begun and has not ended."""
        return list(self._running)

    @property
    def free(self) -> int:
        """How much more weight could begin now; none while draining."""
        if self.is_draining:
            return 0
        return self._concurrency - self._used - sum(held.weight for held in self._waiting)

    def take(self, claims: list[dict[str, Any]], since: float) -> None:
        """Begin claims, or let them wait for room; a draining worker hands them back.

        `since` is a time, by the local monotonic clock, before which the server did not write them. One that can't be
        read is left alone: the server takes it back when it is not started.
        """
        returned: list[dict[str, Any]] = []
        for claim in claims:
            try:
                key, _ = (claim["id"], claim["run_id"]), claim["job_name"]
                if key in self._leases.held:
                    # A run is claimed only once: if a repeated push were accepted, its code would run twice at the same
                    # time.
                    continue
                if self.is_draining:
                    returned.append({"task_id": key[0], "run_id": key[1]})
                    continue
                held = self._leases.add(claim, since)
            except UNREADABLE as error:
                # The connection stays: it carries all other runs, and over the next one this claim would come again.
                log.error("a claim can't be read (%s): check the server's version", wrong_in(error))  # noqa: TRY400
                continue
            if self._waiting or self._used + held.weight > self._concurrency:
                self._waiting.append(held)
                held.stop_code = partial(self._stop_waiting, held)
            else:
                self._begin(held)
        if returned:
            self._give_back(returned)
        self._look_later()

    def start_waiting(self) -> None:
        """Begin waiting claims that fit; not in a drain, nor offline: the server gives unstarted claims to others."""
        while self._waiting and self._reporter.online.is_set() and not self.is_draining:
            held = self._waiting[0]
            if self._used and self._used + held.weight > self._concurrency:
                return
            self._waiting.popleft()
            self._begin(held)

    def return_waiting(self) -> None:
        """Hand back the claims that were not begun."""
        waiting, self._waiting = list(self._waiting), deque()
        for held in waiting:
            self._leases.drop(held)
        if waiting:
            self._give_back([held.ref for held in waiting])

    async def idle(self, timeout: float) -> bool:  # noqa: ASYNC109 - the answer says whether it was enough
        """Wait up to `timeout` seconds until no code runs; return whether none is running."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def abandon(self) -> None:
        """Report code that won't stop, such as a thread, as ended by a shutdown; the process is about to exit.

        A run with a target is not reported: the target must stay taken until the process and the lease have ended.
        """
        for held in self.running:
            if not held.is_reported and not held.has_target:
                self._caller.report(held, endings.shut_down())

    async def close(self, timeout: float) -> bool:  # noqa: ASYNC109 - the answer says whether it was enough
        """End the child processes and cancel what is still running; return whether all of it ended in time."""
        self._caller.is_closed = True
        for code in self._running.values():
            code.cancel()
        await self._caller.close()
        return await self.idle(timeout)

    def _stop_waiting(self, held: Held) -> None:
        """End a run whose code was never begun."""
        self._waiting.remove(held)
        self._caller.report(held, stopped(held, None, None))

    def _look_later(self) -> None:
        """Schedule a check whether the waiting claims have moved on."""
        if self._waiting and not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_later(OVERFLOW, self._look, self._waiting[0])

    def _look(self, first: Held) -> None:
        """Hand back the waiting claims if the `first` one still waits: what is running takes longer than it used to."""
        self._looks = False
        is_stuck = self._waiting and self._waiting[0] is first and (self._caller.stuck or not self._hoards)
        if is_stuck and self._reporter.online.is_set():
            self.return_waiting()
        self._look_later()

    def _begin(self, held: Held) -> None:
        self._used += held.weight
        held.code_runs = True
        held.stop_code = None
        self._idle.clear()
        name = f"task {held.key[0]} of {held.claim['job_name']}"
        self._running[held] = self._group.create_task(self._run(held), name=name)

    async def _run(self, held: Held) -> None:
        # Each run is an asyncio task with a context of its own, which threads and what the code starts inherit.
        bind(task=held.key[0], run=held.key[1], job=held.claim["job_name"])
        try:
            ending = await self._ending(held)
            if not held.is_overdue:
                log_failure(held, ending)
            if not held.is_reported:
                self._caller.report(held, ending)
        except Exception:
            log.exception("task %s, run %s, failed because of a bug in the worker", *held.key)
            self._caller.report(held, {"kind": "exception", "reason": "internal-error", "error": "a bug in the worker"})
        finally:
            held.code_runs = False
            held.stop_code = held.kill = None
            if held.is_overdue:
                self._caller.report_stopped(held)
            self._running.pop(held, None)
            self._used -= held.weight
            self.freed.set()
            self.ended_at = monotonic()
            if self._used == 0:
                self._idle.set()
            if self._waiting:
                self.start_waiting()

    async def _ending(self, held: Held) -> Ending:
        if (unopened := self._sealing.open(held)) is not None:
            return unopened
        claim = held.claim
        task = self._tasks.get(claim["job_name"])
        if task is None:
            log.error("task %s belongs to the job %s, which this worker does not have", held.key[0], claim["job_name"])
            return endings.malformed(f"the worker has no function for the job {claim['job_name']}")
        if claim.get("results_left_out"):
            # Reading them may take longer than a run may take to start. A target is guarded when its code begins.
            self._reporter.add({**held.ref, "kind": "started"})
            if (unread := await read_results(self._credentials, held)) is not None:
                return unread
        try:
            claim = self._sealing.open_results(held)
            arguments = task.signature.arguments(payload_of(claim))
        except InvalidArguments as error:
            log.error("the payload of task %s does not fit %s: %s", held.key[0], task.full_name, error)  # noqa: TRY400
            return endings.malformed(str(error))
        except CantDecrypt as error:
            # Another worker may have the key, or this one after a restart.
            log.error("task %s of %s can't start: %s", held.key[0], task.full_name, error)  # noqa: TRY400
            return {"kind": "failed", "error": str(error)}
        if held.has_target and not held.is_fresh:
            if (refusal := await self._confirm_start(held)) is not None:
                return refusal
        elif held.was_returned:
            if (refusal := await self._tell_start(held)) is not None:
                return refusal
        else:
            self._reporter.add({**held.ref, "kind": "started"})
        if held.has_target:
            self._leases.guard(held)
        if held.stop is not None:
            return stopped(held, None, None)
        return await self._caller.call(held, task, arguments)

    async def _tell_start(self, held: Held) -> Ending | None:
        """Report a run's start and wait until the server has stored it; return None if it may begin, else how it ends.

        This is for a task whose code may kill this process at once, as it may have killed others: losing the worker
        then costs a requeue, where otherwise the task would go from worker to worker for ever.
        """
        try:
            await self._reporter.confirm({**held.ref, "kind": "started"})
        except ProblemError as error:
            log.info("task %s, run %s, is not started: %s", *held.key, error)
            return {"kind": "stopped"}
        return None

    async def _confirm_start(self, held: Held) -> Ending | None:
        """Report the start of a run with a target and renew its lease; return None once it may begin, else how it ends.

        This is for a run with possibly too little of its lease left: the claim came late, or nothing was received
        before it.
        """
        try:
            start = self._reporter.confirm({**held.ref, "kind": "started"})
            _, is_renewed = await asyncio.gather(start, self._leases.beat(held))
        except ProblemError as error:
            log.info("task %s, run %s, is not started: %s", *held.key, error)
            return {"kind": "stopped"}
        if not is_renewed and not await self._leases.beat(held):
            held.stop = held.stop or "lease"
        return None
