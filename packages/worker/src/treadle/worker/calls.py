"""Where code runs: in the worker's loop, in a thread or in a child process; and how each of them is stopped."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from treadle.clock import monotonic
from treadle.errors import (
    BadValue,
    PayloadTooLarge,
    ProblemError,
    TreadleError,
    ValidationFailed,
    problem_named,
)
from treadle.isolation.processes import Child, ChildDied, Children, origin_of
from treadle.isolation.threads import call_in_thread
from treadle.tasks import endings
from treadle.tasks.content import Content, Uploading
from treadle.tasks.context import Context, Level, Port, Saved
from treadle.tasks.definition import Task
from treadle.tasks.endings import Ending
from treadle.wire.artifacts import ArtifactItem
from treadle.worker.credentials import Credentials
from treadle.worker.lease import Held, Key, Leases
from treadle.worker.middleware import Middleware, RaisedInProcess, chained
from treadle.worker.reports import Reporter
from treadle.worker.stopping import check_ours, log_end, stopped
from treadle.worker.timing import Timing
from treadle.worker.uploads import Uploader

log: logging.Logger = logging.getLogger("treadle.worker")

STUBBORN = 5.0
"""Seconds that a coroutine gets to end after its timeout cancelled it; then the timeout is reported, come what may."""

COOPERATE = 2.0
"""Seconds that a child process gets to stop by itself when it is paused or its worker ends; then it is killed."""

Ended = tuple[Ending, BaseException | None]
"""The report of code that ended, and what it raised."""


class Caller:
    """Calls tasks' functions, each where its isolation says."""

    def __init__(
        self,
        reporter: Reporter,
        leases: Leases,
        group: asyncio.TaskGroup,
        credentials: Credentials,
        resources: Any,
        uploader: Uploader,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.uploader = uploader
        self.reporter = reporter
        self.leases = leases
        self.credentials = credentials
        self._group = group
        self._resources = resources
        self._middleware = middleware
        self._children = Children()
        self.stuck = 0
        """Runs whose code goes on although their failure was told: each keeps its slot."""

    async def close(self) -> None:
        """End the child processes."""
        await self._children.close()

    def report(self, held: Held, ending: Ending) -> None:
        """Report how a run ended; it is held until the server has taken it."""
        held.is_reported = True
        usage = {} if held.usage is None or ending["kind"] == "stopped" else {"usage": held.usage}
        self.reporter.add({**held.ref, **ending, **usage})

    def report_stopped(self, held: Held) -> None:
        """Tell that code which ran on after its run's failure has ended: its slot is free."""
        self.stuck -= 1
        held.is_overdue = False
        self.reporter.add({**held.ref, "kind": "stopped"})

    async def call(self, held: Held, task: Task[..., Any], arguments: dict[str, Any]) -> Ending:
        """Call the task's function where it belongs, with its timeout, and return how it ended."""
        timing = Timing(self.leases, held)
        # Only a process can be stopped for certain, which a target's exclusiveness needs.
        isolation = "process" if held.has_target and task.isolation == "thread" else task.isolation
        try:
            if isolation == "process":
                code = partial(self._in_process, held, task, timing)
            else:
                timing.begin()
                code = partial(self._in_thread if isolation == "thread" else self._in_loop, held, task, arguments)
            ending, error = await (self._around(held, task, code) if self._middleware else code())
        finally:
            timing.end()
        if held.stop is None:
            return ending
        log_end(held, ending, error)
        return stopped(held, ending, error)

    def _context(self, held: Held, port: Port) -> Context:
        return Context(held.claim, port, self._resources, urls=self.credentials.urls)

    async def _around(self, held: Held, task: Task[..., Any], code: Callable[[], Awaitable[Ended]]) -> Ended:
        """Call the code within the middleware, which sees its result or what it raised and may change either."""
        context = self._context(held, _MiddlewarePort(self, held))
        this = asyncio.current_task()
        assert this is not None
        ended: Ended | None = None
        stop = held.stop_code = self._canceller(held, this, context)

        async def innermost() -> Any:
            nonlocal ended
            try:
                ended = ending, error = await code()
            finally:
                held.stop_code = stop
            if held.stop is not None:
                context.stop()
            if error is None and "result" not in ending:
                error = BadValue(ending["error"])
                ended = ending, error
            if error is not None:
                raise error
            return ending["result"]

        try:
            result = await chained(self._middleware, context, innermost)()
        except asyncio.CancelledError as cancelled:
            if held.stop is None and this.cancelling():
                raise
            if held.stop is not None:
                this.uncancel()
            return ended or (endings.raised(cancelled), cancelled)
        except BaseException as raised:  # noqa: BLE001 - whatever it raised is the run's end, SystemExit too
            is_the_codes = ended is not None and raised is ended[1]
            return ended if ended is not None and is_the_codes else (endings.raised(raised, task.verdicts), raised)
        finally:
            held.stop_code = None
        is_untouched = ended is not None and ended[1] is None and result is ended[0].get("result")
        return ended if ended is not None and is_untouched else (endings.completed(result), None)

    def _canceller(self, held: Held, code: "asyncio.Task[Any]", context: Context | None) -> Callable[[], None]:
        """Return what stops code in the worker's loop."""

        def stop() -> None:
            if context is not None:
                context.stop()
            code.cancel()
            if held.stop == "timeout":
                asyncio.get_running_loop().call_later(STUBBORN, self._report_timeout, held)

        return stop

    async def _in_loop(self, held: Held, task: Task[..., Any], arguments: dict[str, Any]) -> Ended:
        code = asyncio.current_task()
        assert code is not None
        # Most functions want no context, and its event costs more than the rest of a call.
        context = self._context(held, _LoopPort(self, held)) if task.signature.wants_context else None
        error: BaseException | None = None
        held.stop_code = self._canceller(held, code, context)
        try:
            if context is None:
                result = await task.function(**arguments)
            else:
                result = await task.function(context, **arguments)
            ending = endings.completed(result)
        except asyncio.CancelledError as cancelled:
            if held.stop is None and code.cancelling():
                # Not the run but the whole worker is being cancelled.
                raise
            ending, error = endings.raised(cancelled), cancelled
        except BaseException as raised:  # noqa: BLE001 - whatever the task raised is its end, SystemExit too
            ending, error = endings.raised(raised, task.verdicts), raised
        finally:
            held.stop_code = None
        if held.stop is not None:
            code.uncancel()
        return ending, error

    async def _in_thread(self, held: Held, task: Task[..., Any], arguments: dict[str, Any]) -> Ended:
        context = self._context(held, _ThreadPort(self, held))
        first = (context,) if task.signature.wants_context else ()
        future = call_in_thread(lambda: task.function(*first, **arguments), f"treadle-{task.job.name}")

        def stop() -> None:
            context.stop()
            if held.stop == "timeout":
                # Nothing stops a thread: the failure is told now, and its slot stays taken until it ends.
                self._report_timeout(held)

        held.stop_code = stop
        try:
            return endings.completed(await future), None
        except Exception as raised:  # noqa: BLE001 - whatever the task raised is its end
            return endings.raised(raised, task.verdicts), raised
        finally:
            held.stop_code = None

    async def _in_process(self, held: Held, task: Task[..., Any], timing: Timing) -> Ended:
        try:
            child = await self._children.take()
        except ChildDied as died:
            return endings.raised(died), died

        def stop() -> None:
            if held.stop in {"pause", "shutdown"}:
                child.send({"stop": held.stop})
                asyncio.get_running_loop().call_later(COOPERATE, self._kill_if_running, held, child)
            else:
                child.kill()

        held.stop_code, held.kill = stop, child.kill
        if held.has_target:
            child.lease_killer.arm(held.last_moment)
            held.renewed = lambda: child.lease_killer.renew(held.last_moment)
        if held.stop is not None:
            # It was told to stop while the child was being started.
            stop()
        is_sound = False
        try:
            message = {"run": held.claim, "origin": origin_of(task), "urls": self.credentials.urls}
            ending = await child.run(message, lambda sender, said: self._from_child(held, timing, sender, said))
            is_sound = held.stop is None
        except ChildDied as died:
            if held.has_target and monotonic() >= held.last_moment:
                # Its lease ended while this process stood still.
                self.leases.stop_run(held, "lease")
            return endings.raised(died), died
        else:
            return ending, None if ending["kind"] == "completed" else RaisedInProcess(ending)
        finally:
            held.stop_code = held.kill = held.renewed = None
            child.lease_killer.disarm()
            if is_sound:
                self._children.give_back(child)
            else:
                await self._children.end(child)

    def _kill_if_running(self, held: Held, child: Child) -> None:
        if held.kill == child.kill:
            child.kill()

    def _from_child(self, held: Held, timing: Timing, child: Child, message: dict[str, Any]) -> None:
        port = _LoopPort(self, held)
        if "begun" in message:
            timing.begin()
        elif "progress" in message:
            port.progress(*message["progress"])
        elif "log" in message:
            port.log(*message["log"])
        elif "spend" in message:
            port.spend(message["spend"])
        elif "save" in message:
            self._group.create_task(self._save_for(held, child, message["save"]))
        elif "upload" in message:
            self._group.create_task(self._upload_for(held, child, message["upload"]))
        elif "credential" in message:
            self._group.create_task(self._show_to(held, child))

    async def _save_for(self, held: Held, child: Child, checkpoint: Any) -> None:
        try:
            await self.save(held, checkpoint)
        except BadValue as error:
            child.send({"saved": None, "bad": str(error)})
        except ProblemError as error:
            child.send({"saved": error.problem.model_dump(mode="json")})
        else:
            child.send({"saved": None})

    async def _show_to(self, held: Held, child: Child) -> None:
        answer: dict[str, Any] = {"of": held.key, "credential": None}
        try:
            answer["credential"] = await self.credentials.of(held)
        except TreadleError as error:
            problem = (
                error.problem if isinstance(error, ProblemError) else problem_named("internal-server-error", str(error))
            )
            answer["problem"] = problem.model_dump(mode="json")
        child.send(answer)

    async def save(self, held: Held, checkpoint: Any) -> None:
        """Store a checkpoint; raise `StaleRun` when the run is no longer ours, `BadValue` when it can't be kept."""
        try:
            await self.reporter.confirm({**held.ref, "kind": "checkpoint", "checkpoint": checkpoint})
        except (PayloadTooLarge, ValidationFailed) as error:
            raise BadValue(f"checkpoint: {error}") from None

    async def _upload_for(self, held: Held, child: Child, wanted: dict[str, str]) -> None:
        content = Content(Path(wanted["path"]), wanted["name"], wanted["content_type"])
        try:
            item = await self.upload(held, content)
        except ProblemError as error:
            child.send({"uploaded": {"problem": error.problem.model_dump(mode="json")}})
        except (TreadleError, OSError) as error:
            child.send({"uploaded": {"error": str(error)}})
        else:
            child.send({"uploaded": {"item": item.model_dump(mode="json")}})

    async def upload(self, held: Held, content: Content) -> ArtifactItem:
        """Upload an artifact; raise `StaleRun`, with nothing stored, as soon as the run is known to be lost."""
        return await self.uploader.upload(held.key, content, partial(check_ours, held))

    def _report_timeout(self, held: Held) -> None:
        # A target stays taken until its code has stopped: the server fails such a run by itself.
        if held.code_runs and not held.is_reported and not held.has_target:
            self.stuck += 1
            held.is_overdue = True
            self.report(held, {**endings.timed_out(held.claim["timeout"]), "code_runs": True})


class _LoopPort:
    """A context's port for code in the worker's own loop."""

    def __init__(self, caller: Caller, held: Held) -> None:
        self._reporter = caller.reporter
        self._leases = caller.leases
        self._saving = caller.save
        self._uploading = caller.upload
        self._credentials = caller.credentials
        self._held = held
        self._key: Key = held.key

    def progress(self, share: float | None, message: str | None) -> None:
        self._reporter.progress(self._key, share, message)

    def log(self, message: str, level: Level) -> None:
        self._reporter.line(self._key, message, level)

    def spend(self, total: float) -> None:
        self._note(total, self._held.spent[1])

    def _note(self, by_code: float, around_it: float) -> None:
        self._held.spent = by_code, around_it
        self._held.usage = used = by_code + around_it
        claim = self._held.claim
        budget = claim.get("budget")
        # The claim says what the task's earlier runs have used.
        if budget is not None and (claim.get("usage") or 0.0) + used > budget:
            # The server stops the run; the next regular heartbeat would tell it up to 2 s later.
            self._leases.beat_now()

    def save(self, checkpoint: Any) -> Awaitable[None]:
        return self._saving(self._held, checkpoint)

    def upload(self, content: Content) -> Uploading:
        return Uploading(self._uploading(self._held, content))

    def credentials(self) -> Awaitable[str]:
        return self._credentials.of(self._held)


class _MiddlewarePort(_LoopPort):
    """The same for what stands around the code: each of the two tells what it has spent by itself."""

    def spend(self, total: float) -> None:
        self._note(self._held.spent[0], total)


class _ThreadPort(_LoopPort):
    """The same for code in a thread: everything is handed to the loop, and saving blocks."""

    def __init__(self, caller: Caller, held: Held) -> None:
        super().__init__(caller, held)
        self._loop = asyncio.get_running_loop()

    def progress(self, share: float | None, message: str | None) -> None:
        self._loop.call_soon_threadsafe(super().progress, share, message)

    def log(self, message: str, level: Level) -> None:
        self._loop.call_soon_threadsafe(super().log, message, level)

    def spend(self, total: float) -> None:
        self._loop.call_soon_threadsafe(super().spend, total)

    def save(self, checkpoint: Any) -> Awaitable[None]:
        asyncio.run_coroutine_threadsafe(self._saving(self._held, checkpoint), self._loop).result()
        return Saved()

    def upload(self, content: Content) -> Uploading:
        return Uploading(asyncio.run_coroutine_threadsafe(self._uploading(self._held, content), self._loop).result())

    def credentials(self) -> Awaitable[str]:
        return asyncio.run_coroutine_threadsafe(self._credentials.of(self._held), self._loop).result()
