"""Calls of tasks' functions in the worker's event loop, in a thread or in a child process, and how each is stopped."""

import asyncio
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from treadle import logs, tracing
from treadle.clock import monotonic
from treadle.encryption.codec import Codec
from treadle.errors import (
    BadValue,
    ConnectionFailed,
    DefinitionError,
    ProblemError,
    StaleRun,
    TreadleError,
    problem_named,
)
from treadle.forks import process_number
from treadle.ids import RunKey
from treadle.isolation import output
from treadle.isolation.copies import end_copy
from treadle.isolation.processes import Child, ChildDied, Children, origin_of
from treadle.isolation.threads import CodeExit, call_in_thread
from treadle.tasks import endings
from treadle.tasks.context import Context, Port, check_awaited, check_end, stopped_steps
from treadle.tasks.definition import Task
from treadle.tasks.endings import Ending
from treadle.tasks.outcomes import Suspend
from treadle.tasks.verdicts import legible
from treadle.wire.log_lines import bound_now
from treadle.wire.runs import Level
from treadle.worker.credentials import Credentials
from treadle.worker.lease import STANDSTILL, Held, Leases
from treadle.worker.middleware import Middleware, RaisedInProcess, chained
from treadle.worker.ports import LoopPort, MiddlewarePort, ProcessPort
from treadle.worker.reports import Reporter
from treadle.worker.room import Ended, Room
from treadle.worker.steps import StepKeeper
from treadle.worker.stopping import log_end, log_failure, stopped
from treadle.worker.timing import Timing
from treadle.worker.uploads import Uploader

log: logging.Logger = logging.getLogger("treadle.worker")

AnyPort = TypeVar("AnyPort", bound=LoopPort)

STUBBORN = 5.0
"""Seconds that a coroutine gets to end after its timeout cancelled it; then the timeout is reported regardless."""

COOPERATE = 2.0
"""Seconds that a child process gets to stop by itself when it is paused or its worker ends; then it is killed."""


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
        middleware: Sequence[Middleware],
        *,
        captures_output: bool,
        codec: Codec | None,
        steps: StepKeeper,
    ) -> None:
        self._codec = codec
        self._steps = steps
        self.uploader = uploader
        self.reporter = reporter
        self.leases = leases
        self.credentials = credentials
        self._group = group
        self._resources = resources
        self._middleware = middleware
        self._captures_output = captures_output
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._children = Children()
        self._room = Room(self._children)
        self.stuck = 0
        """How many runs whose failure was reported still run their code, and so keep their slots."""
        self._worker = asyncio.current_task()
        self.is_closed = False
        """Whether the worker is ending and has cancelled what was still running."""

    @property
    def _is_ending(self) -> bool:
        """Whether the worker itself is being cancelled, alone or with everything in its event loop."""
        return self.is_closed or (self._worker is not None and self._worker.cancelling() > 0)

    async def close(self) -> None:
        """End the child processes."""
        await self._children.close()

    def report(self, held: Held, ending: Ending) -> None:
        """Report how a run ended; it is held until the server has accepted that."""
        held.is_reported = True
        usage = {} if held.usage is None or ending["kind"] == "stopped" else {"usage": held.usage}
        self.reporter.add({**held.ref, **ending, **usage})

    def report_stopped(self, held: Held) -> None:
        """Report that code which went on after its run's failure was reported has ended, so that its slot is free."""
        self.stuck -= 1
        held.is_overdue = False
        self.reporter.add({**held.ref, "kind": "stopped"})

    async def call(self, held: Held, task: Task[..., Any], arguments: dict[str, Any]) -> Ending:
        """Call the task's function where it belongs, with its timeout, and return how it ended."""
        with tracing.running(held.claim) as span:
            ending, error = await self._call(held, task, arguments)
            if span is not None:
                tracing.tell_end(span, ending, error, encrypted=bool(held.claim.get("encrypted")))
            return ending

    async def _call(self, held: Held, task: Task[..., Any], arguments: dict[str, Any]) -> Ended:
        timing = Timing(self.leases, held)
        # Only a process can be stopped reliably, which a target's exclusiveness needs.
        isolation = "process" if held.has_target and task.isolation == "thread" else task.isolation
        if self._captures_output and isolation != "process":
            # Each run is an asyncio task with a context of its own.
            output.begin(output.Output(held.key, partial(self._say, held.key)))
        try:
            if isolation != "process":
                timing.begin()
            if isolation == "process":
                code = partial(self._room.run, held, timing, partial(self._in_process, held, task, timing))
            elif isolation == "thread":
                code = partial(self._room.run, held, timing, partial(self._in_thread, held, task, arguments))
            else:
                code = partial(self._in_loop, held, task, arguments)
            ending, error = await (self._around(held, task, code) if self._middleware else code())
        finally:
            timing.end()
            if (said := output.current.get()) is not None:
                said.end()
        if held.stop is None:
            return ending, error
        log_end(held, ending, error)
        return stopped(held, ending, error), error

    def _say(self, run: RunKey, message: str, level: Level) -> None:
        """Send a line of a run's output, from any thread; after the worker has ended it is dropped."""
        if threading.get_ident() == self._thread:
            # At once: the run's end, which may be reported in a moment, has to come after its last line.
            self.reporter.line(run, message, level)
            return
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.reporter.line, run, message, level)

    def _port(self, kind: type[AnyPort], held: Held) -> AnyPort:
        return kind(held, self.reporter, self.leases, self.credentials, self.uploader, self._steps)

    def _context(self, held: Held, port: Port, *, is_async: bool = True) -> Context:
        urls = self.credentials.urls
        return Context(held.claim, port, self._resources, urls=urls, codec=self._codec, is_async=is_async)

    async def _around(self, held: Held, task: Task[..., Any], code: Callable[[], Awaitable[Ended]]) -> Ended:
        """Call the code within the middleware, which sees its result or its exception and may change either."""
        context = self._context(held, self._port(MiddlewarePort, held))
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
            check_awaited(context)
        except asyncio.CancelledError as cancelled:
            if self._is_ending and held.stop is None and this.cancelling():
                raise
            if held.stop is not None:
                this.uncancel()
            return ended or (endings.raised(cancelled), cancelled)
        except BaseException as raised:  # noqa: BLE001 - whatever it raised is the run's end, SystemExit too
            is_the_codes = ended is not None and raised is ended[1]
            error = legible(raised)
            return ended if ended is not None and is_the_codes else (endings.raised(error, task.verdicts), error)
        finally:
            held.stop_code = None
        is_untouched = ended is not None and ended[1] is None and result is ended[0].get("result")
        return ended if ended is not None and is_untouched else (endings.completed(result), None)

    def _canceller(self, held: Held, code: "asyncio.Task[Any]", context: Context | None) -> Callable[[], None]:
        """Return a function that stops code in the worker's event loop."""

        def stop() -> None:
            if context is not None:
                context.stop()
            code.cancel()
            if held.stop == "timeout":
                asyncio.get_running_loop().call_later(STUBBORN, self._report_timeout, held)

        return stop

    async def _in_loop(self, held: Held, task: Task[..., Any], arguments: dict[str, Any]) -> Ended:
        # Without the loop, which would be looked up by a system call, this takes 0.7 us rather than 0.26.
        code = asyncio.current_task(self._loop)
        assert code is not None
        port = self._port(LoopPort, held) if task.signature.wants_context else None
        context = None if port is None else self._context(held, port)
        error: BaseException | None = None
        ours = process_number()
        held.stop_code = self._canceller(held, code, context)
        try:
            if context is None:
                result = await task.function(**arguments)
            else:
                result = await task.function(context, **arguments)
            end_copy(ours)
            check_end(held.claim, context)
            ending = endings.completed(result, task.signature.returns)
        except asyncio.CancelledError as cancelled:
            if self._is_ending and held.stop is None and code.cancelling():
                # The whole worker is being cancelled, not the run; otherwise the code has cancelled itself.
                raise
            ending, error = endings.raised(cancelled), cancelled
        except BaseException as raised:  # noqa: BLE001 - whatever the task raised is its end, SystemExit too
            end_copy(ours)
            error = legible(raised)
            ending = endings.raised(error, task.verdicts)
        finally:
            held.stop_code = None
        if port is not None:
            await port.heard()
        if held.stop is not None:
            code.uncancel()
            await stopped_steps(context)
        return ending, error

    async def _in_thread(self, held: Held, task: Task[..., Any], arguments: dict[str, Any]) -> Ended:
        context = self._context(held, self._port(LoopPort, held), is_async=False)
        first = (context,) if task.signature.wants_context else ()
        future = call_in_thread(lambda: task.function(*first, **arguments), f"treadle-{task.job.name}")

        def stop() -> None:
            context.stop()
            if held.stop == "timeout":
                # Nothing stops a thread: the failure is reported now, and its slot stays taken until it ends.
                self._report_timeout(held)

        held.stop_code = stop
        try:
            result = await future
            check_end(held.claim, context)
            ended: Ended = endings.completed(result, task.signature.returns), None
        except (Exception, Suspend) as raised:  # noqa: BLE001 - whatever the task raised is its end
            error = raised.cause if isinstance(raised, CodeExit) else raised
            ended = endings.raised(error, task.verdicts), error
        finally:
            held.stop_code = None
        if held.stop is not None:
            await stopped_steps(context)
        return ended

    async def _in_process(self, held: Held, task: Task[..., Any], timing: Timing) -> Ended:
        try:
            origin = origin_of(task)
            child = await self._children.take()
        except (ChildDied, DefinitionError) as error:
            return endings.raised(error), error

        def stop() -> None:
            if held.stop in {"pause", "shutdown"}:
                child.send({"stop": held.stop})
                asyncio.get_running_loop().call_later(COOPERATE, self._kill_if_running, held, child)
            else:
                child.kill()

        held.stop_code, held.kill = stop, child.kill
        if held.has_target:
            put_off = child.lease_killer.arm(held.last_moment)
            held.renewed = lambda: put_off(held.last_moment)
        else:
            put_off = child.lease_killer.arm(math.inf)
            held.goes_on = lambda: put_off(max(held.last_moment, monotonic() + STANDSTILL))
            # The watchdog arms it at once; without one nothing does.
            self.leases.guarded.set()
        if held.stop is not None:
            # It was told to stop while the child process was being started.
            stop()
        port = self._port(ProcessPort, held)
        is_sound = False
        try:
            message: dict[str, Any] = {"run": held.claim, "origin": origin, "urls": self.credentials.urls}
            message["bound"] = bound_now()
            if context := tracing.carried():
                message["trace"] = context
            if (log_of_this := logs.begun()) is not None:
                message["logs"] = log_of_this
            if self._captures_output:
                message["output"] = logging.getLogger().level
            ending = await child.run(message, partial(self._from_child, port, held, timing))
            # A step's call that goes on in a thread of the child ends with its process.
            is_sound = not ending.pop("runs_on", False) and held.stop is None
        except ChildDied as died:
            if held.has_target and monotonic() >= held.last_moment:
                # The lease ended while this process was suspended.
                self.leases.stop_run(held, "lease")
            return endings.raised(died), died
        else:
            return ending, None if ending["kind"] == "completed" else RaisedInProcess(ending)
        finally:
            held.stop_code = held.kill = held.renewed = held.goes_on = None
            child.lease_killer.disarm()
            if is_sound:
                self._children.give_back(child)
            else:
                await self._children.end(child)

    def _kill_if_running(self, held: Held, child: Child) -> None:
        if held.kill == child.kill:
            child.kill()

    def _from_child(self, port: ProcessPort, held: Held, timing: Timing, child: Child, message: dict[str, Any]) -> None:
        if "begun" in message:
            timing.begin()
        elif "ask" in message:
            self._group.create_task(self._answer(port, held, child, message))
        elif message["of"] == [*held.key]:
            getattr(port, message["tell"])(*message["args"])

    async def _answer(self, port: ProcessPort, held: Held, child: Child, message: dict[str, Any]) -> None:
        """Answer a child's request; a thread that an earlier run left behind is told that its run has ended."""
        answer: dict[str, Any] = {"answered": message["ask"]}
        try:
            if message["of"] != [*held.key]:
                task_id, run_id = message["of"]
                raise StaleRun(problem_named("stale-run", f"run {run_id} of task {task_id} has ended"))
            answer["ok"] = await getattr(port, message["method"])(*message["args"])
        except ProblemError as error:
            answer["problem"] = error.problem.model_dump(mode="json")
        except ConnectionFailed as error:
            answer["failed"] = str(error)
        except TreadleError as error:
            answer["bad"] = str(error)
        child.send(answer)

    def _report_timeout(self, held: Held) -> None:
        # A target stays taken until its code has stopped; the server itself fails such a run.
        if held.code_runs and not held.is_reported and not held.has_target:
            self.stuck += 1
            held.is_overdue = True
            ending = endings.timed_out(held.claim["timeout"], runs_on=True)
            log_failure(held, ending)
            self.report(held, {**ending, "code_runs": True})
