"""Where the words of a context go that runs in the worker's process: reports, leases, uploads."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from treadle.errors import ConnectionFailed, InvalidArguments, ProblemError, TreadleError
from treadle.ids import RunKey
from treadle.tasks.content import Content, Uploading
from treadle.tasks.context import Done
from treadle.wire.artifacts import ArtifactItem
from treadle.wire.runs import Level
from treadle.worker.credentials import Credentials
from treadle.worker.lease import Held, Leases
from treadle.worker.reports import Reporter
from treadle.worker.steps import StepKeeper

_NO_STEPS = "middleware has no steps: they belong to the task's code, which is called anew in each run"


class LoopPort:
    """A context's port for code in the worker's own loop."""

    def __init__(
        self,
        held: Held,
        reporter: Reporter,
        leases: Leases,
        credentials: Credentials,
        *,
        save: Callable[[Held, Any], Coroutine[Any, Any, None]],
        upload: Callable[[Held, Content], Coroutine[Any, Any, ArtifactItem]],
        steps: StepKeeper,
    ) -> None:
        self._reporter = reporter
        self._leases = leases
        self._saving = save
        self._uploading = upload
        self._credentials = credentials
        self._held = held
        self._key: RunKey = held.key
        self._steps = steps

    def progress(self, share: float | None, message: str | None) -> None:
        """Send how far the run is, in a moment, and of several the last; as `Port.progress`."""
        self._reporter.progress(self._key, share, message)

    def log(self, message: str, level: Level) -> None:
        """Send a line in a moment, with those that come until then; as `Port.log`."""
        self._reporter.line(self._key, message, level)

    def spend(self, total: float) -> None:
        """Note what has been used in all."""
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
        """Store a checkpoint."""
        return self._saving(self._held, checkpoint)

    def upload(self, content: Content) -> Uploading:
        """Upload an artifact."""
        return Uploading(self._uploading(self._held, content))

    def credentials(self) -> Awaitable[str]:
        """Ask for a credential of the run."""
        return self._credentials.of(self._held)

    def kept_steps(self) -> Awaitable[list[dict[str, Any]]]:
        """Read the steps that the task keeps."""
        return self._steps.kept(self._held)

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        """Keep a step."""
        return self._steps.keep(self._held, step)

    def receive(self, step: dict[str, Any]) -> Awaitable[dict[str, Any] | None]:
        """Receive a message by a step."""
        return self._steps.receive(self._held, step)


class MiddlewarePort(LoopPort):
    """The same for what stands around the code: each of the two tells what it has spent by itself."""

    def spend(self, total: float) -> None:
        """Note what has been used in all."""
        self._note(self._held.spent[0], total)

    def kept_steps(self) -> Awaitable[list[dict[str, Any]]]:
        """Raise `InvalidArguments`: steps belong to the task's code, which counts them by itself."""
        raise InvalidArguments(_NO_STEPS)

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        """Raise `InvalidArguments`, as `kept_steps` does: middleware keeps no steps."""
        raise InvalidArguments(_NO_STEPS)

    def receive(self, step: dict[str, Any]) -> Awaitable[dict[str, Any] | None]:
        """Raise `InvalidArguments`, as `kept_steps` does: middleware receives no messages."""
        raise InvalidArguments(_NO_STEPS)


class ProcessPort(LoopPort):
    """The same for code in a child process, which says by their names what of this it wants to be called."""

    async def upload_file(self, path: str, name: str, content_type: str) -> ArtifactItem:
        """Upload an artifact that the child has in a file: what goes through the pipe is small.

        Raises a `ProblemError`, and `ConnectionFailed` for whatever else went wrong.
        """
        try:
            return await self._uploading(self._held, Content(Path(path), name, content_type))
        except ProblemError:
            raise
        except (TreadleError, OSError) as error:
            raise ConnectionFailed(str(error)) from None


class ThreadPort(LoopPort):
    """The same for code in a thread: everything is handed to the loop, and saving blocks."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._loop = asyncio.get_running_loop()

    def progress(self, share: float | None, message: str | None) -> None:
        """Send how far the run is, from its thread, which goes on at once; as `Port.progress`."""
        self._loop.call_soon_threadsafe(super().progress, share, message)

    def log(self, message: str, level: Level) -> None:
        """Send a line from the run's thread, which goes on at once; as `Port.log`."""
        self._loop.call_soon_threadsafe(super().log, message, level)

    def spend(self, total: float) -> None:
        """Note what has been used in all."""
        self._loop.call_soon_threadsafe(super().spend, total)

    def save(self, checkpoint: Any) -> Awaitable[None]:
        """Store a checkpoint."""
        return Done(asyncio.run_coroutine_threadsafe(self._saving(self._held, checkpoint), self._loop).result())

    def upload(self, content: Content) -> Uploading:
        """Upload an artifact."""
        return Uploading(asyncio.run_coroutine_threadsafe(self._uploading(self._held, content), self._loop).result())

    def credentials(self) -> Awaitable[str]:
        """Ask for a credential of the run."""
        return asyncio.run_coroutine_threadsafe(self._credentials.of(self._held), self._loop).result()

    def kept_steps(self) -> Awaitable[list[dict[str, Any]]]:
        """Read the steps that the task keeps."""
        return Done(asyncio.run_coroutine_threadsafe(self._steps.kept(self._held), self._loop).result())

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        """Keep a step."""
        return Done(asyncio.run_coroutine_threadsafe(self._steps.keep(self._held, step), self._loop).result())

    def receive(self, step: dict[str, Any]) -> Awaitable[dict[str, Any] | None]:
        """Receive a message by a step."""
        return Done(asyncio.run_coroutine_threadsafe(self._steps.receive(self._held, step), self._loop).result())
