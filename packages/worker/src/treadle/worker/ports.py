"""Ports for contexts whose code runs in the worker's process or a child of it: to reports, leases and uploads."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from treadle.errors import ConnectionFailed, InvalidArguments, ProblemError, TreadleError
from treadle.ids import RunKey
from treadle.loops import has_loop
from treadle.tasks.awaitables import Done
from treadle.tasks.content import Content, Uploading
from treadle.wire.artifacts import ArtifactItem
from treadle.wire.runs import Level
from treadle.worker.credentials import Credentials
from treadle.worker.lease import Held, Leases
from treadle.worker.reports import Reporter
from treadle.worker.steps import StepKeeper
from treadle.worker.stopping import check_ours
from treadle.worker.uploads import Uploader

R = TypeVar("R")

_NO_STEPS = "middleware can't have steps: they belong to the task's code"


class LoopPort:
    """The port for code in the worker's process: in its event loop, or in a thread, which calls into the loop.

    An async task has threads too, from `asyncio.to_thread` and from its steps. There, what async code awaits blocks.
    """

    def __init__(
        self,
        held: Held,
        reporter: Reporter,
        leases: Leases,
        credentials: Credentials,
        uploader: Uploader,
        steps: StepKeeper,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._reporter = reporter
        self._leases = leases
        self._uploader = uploader
        self._credentials = credentials
        self._held = held
        self._key: RunKey = held.key
        self._steps = steps
        self._is_told_from_threads = False

    def progress(self, share: float | None, message: str | None) -> None:
        """Send the run's progress after a moment, and of several reports the last; like `Port.progress`."""
        self._tell(self._reporter.progress, self._key, share, message)

    def log(self, message: str, level: Level) -> None:
        """Send a log line after a moment, with those that come until then; like `Port.log`."""
        self._tell(self._reporter.line, self._key, message, level)

    def spend(self, total: float) -> None:
        """Record the code's total usage, at once from any thread: the run may end before the event loop goes on."""
        self._note(total, self._held.spent[1])

    def _note(self, by_code: float, around_it: float) -> None:
        self._held.spent = by_code, around_it
        self._held.usage = used = by_code + around_it
        claim = self._held.claim
        budget = claim.get("budget")
        # The claim has the usage of the task's earlier runs.
        if budget is not None and (claim.get("usage") or 0.0) + used > budget:
            # The server stops the run, but would only learn of it with the next regular heartbeat, up to 2 s later.
            self._tell(self._leases.beat_now)

    def save(self, checkpoint: Any) -> Awaitable[None]:
        """Store a checkpoint."""
        return self._ask(self._steps.save(self._held, checkpoint))

    def upload(self, content: Content) -> Uploading:
        """Upload an artifact."""
        work = self._upload(content)
        return Uploading(work if self._is_here() else self._outcome(work))

    def _upload(self, content: Content) -> Coroutine[Any, Any, ArtifactItem]:
        """Upload it; raises `StaleRun`, with nothing stored, as soon as the run is known to be lost."""
        return self._uploader.upload(self._key, content, partial(check_ours, self._held))

    def credentials(self) -> Awaitable[str]:
        """Ask for a credential of the run."""
        work = self._credentials.of(self._held)
        return work if self._is_here() else self._outcome(work)

    def kept_steps(self) -> Awaitable[list[dict[str, Any]]]:
        """Read the steps that the task keeps."""
        return self._ask(self._steps.kept(self._held))

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        """Keep a step."""
        return self._ask(self._steps.keep(self._held, step))

    def receive(self, step: dict[str, Any]) -> Awaitable[dict[str, Any] | None]:
        """Receive a message by a step."""
        return self._ask(self._steps.receive(self._held, step))

    def _is_here(self) -> bool:
        return has_loop() and asyncio.get_running_loop() is self._loop

    def _tell(self, tell: Callable[..., None], *what: Any) -> None:
        if self._is_here():
            # At once: the run's end, which may be reported in a moment, has to come after it.
            tell(*what)
        else:
            self._is_told_from_threads = True
            self._loop.call_soon_threadsafe(tell, *what)

    async def heard(self) -> None:
        """Wait for reports from threads to arrive: their code may have ended before the event loop went on."""
        if self._is_told_from_threads:
            await asyncio.sleep(0)

    def _ask(self, work: Coroutine[Any, Any, R]) -> Awaitable[R]:
        return work if self._is_here() else Done(self._outcome(work))

    def _outcome(self, work: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class MiddlewarePort(LoopPort):
    """The port for middleware; its usage is counted separately from the code's."""

    def spend(self, total: float) -> None:
        """Record the middleware's total usage."""
        self._note(self._held.spent[0], total)

    def kept_steps(self) -> Awaitable[list[dict[str, Any]]]:
        """Raise `InvalidArguments`: steps belong to the task's code, which counts them itself."""
        raise InvalidArguments(_NO_STEPS)

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        """Raise `InvalidArguments`, as `kept_steps` does: middleware keeps no steps."""
        raise InvalidArguments(_NO_STEPS)

    def receive(self, step: dict[str, Any]) -> Awaitable[dict[str, Any] | None]:
        """Raise `InvalidArguments`, as `kept_steps` does: middleware receives no messages."""
        raise InvalidArguments(_NO_STEPS)


class ProcessPort(LoopPort):
    """The port for code in a child process, which calls its methods by name."""

    async def upload_file(self, path: str, name: str, content_type: str) -> ArtifactItem:
        """Upload an artifact that the child has in a file, because only small messages go through the pipe.

        Raises a `ProblemError`, and `ConnectionFailed` for any other error.
        """
        try:
            return await self._upload(Content(Path(path), name, content_type))
        except ProblemError:
            raise
        except (TreadleError, OSError) as error:
            raise ConnectionFailed(str(error)) from None
