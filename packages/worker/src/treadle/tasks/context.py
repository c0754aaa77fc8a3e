"""What a task's code sees of its run: `Context`, the first parameter of the functions that want one."""

from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from threading import Event, Lock
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    TypeVar,
    TypeVarTuple,
    cast,
    get_args,
    overload,
)

from treadle.tasks.awaitables import Credential, Unawaited
from treadle.tasks.outcomes import Interrupted
from treadle.wire.fields import MOST_USAGE
from treadle.wire.runs import MOST_MESSAGE, Level

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from treadle.client.client import Client
    from treadle.encryption.codec import Codec
    from treadle.tasks.content import Content, Source, Uploading
    from treadle.tasks.steps import Steps
    from treadle.wire.artifacts import ArtifactItem
    from treadle.wire.runs import Claim

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_LEVELS = frozenset(get_args(Level))

_UNSET: Any = object()

_together = Lock()
"""Held while a run gets its steps, or adds to what it has used: its threads may do either at the same time."""


class Port(Protocol):
    """Where a context's words go: to the worker in the same process, or through a pipe to it."""

    def progress(self, share: float | None, message: str | None) -> None:
        """Send how far the run is: a share from 0 to 1, a message of up to 1,000 characters, or None for either."""

    def log(self, message: str, level: Level) -> None:
        """Send a line for the task's log; whoever calls has cleaned it."""

    def spend(self, total: float) -> None:
        """Send what the run has used in all."""

    def save(self, checkpoint: Any) -> Awaitable[None]:
        """Send a checkpoint; the awaitable ends when it is stored. Blocks until then where the code is synchronous."""

    def upload(self, content: "Content") -> "Uploading":
        """Upload an artifact; as with `save`, it blocks where the code is synchronous."""

    def credentials(self) -> Awaitable[str]:
        """Ask for a credential of the run; gives a `Credential`, at once, where the code is synchronous."""

    def kept_steps(self) -> Awaitable[list[dict[str, Any]]]:
        """Read the steps that the task keeps, as `StepItem`; at once where the code is synchronous, as the next two."""

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        """Keep a step, as `StepDone`; the awaitable ends when it is stored."""

    def receive(self, step: dict[str, Any]) -> Awaitable[dict[str, Any] | None]:
        """Receive a message by a step, as `StepRef`, and return the step; None: none waits."""


class Context:
    """A run, as its code sees it. Works in async functions, in threads and in child processes alike."""

    _stopped: Event | None = None
    """Set once it is `cancelled`; made when somebody waits for that, for it costs a tenth of a short run."""

    def __init__(
        self,
        claim: dict[str, Any],
        port: Port,
        resources: Any = _UNSET,
        *,
        urls: tuple[str, ...] = (),
        codec: "Codec | None" = None,
        is_async: bool = True,
    ) -> None:
        self._claim = claim
        self._port = port
        self._resources = resources
        self._urls = urls
        self._codec = codec
        self._is_async = is_async
        self._usage = 0.0
        self._checkpoint = claim.get("checkpoint")
        self._cancelled = False
        self._task: Claim | None = None
        self._steps: Steps | None = None
        self._unawaited: Unawaited | None = None

    @property
    def task(self) -> "Claim":
        """The task as it was claimed."""
        if self._task is None:
            from treadle.wire.runs import Claim

            self._task = Claim.model_validate(self._claim)
        return self._task

    @property
    def run_id(self) -> int:
        """The number of this attempt, from 0."""
        return int(self._claim["run_id"])

    @property
    def payload(self) -> dict[str, Any]:
        """The arguments as they were submitted, in JSON."""
        payload: dict[str, Any] = self._claim["payload"]
        return payload

    @property
    def results(self) -> dict[str, Any]:
        """The results of the tasks that this one waited for, by the names of its `depends_on`: one, or a list.

        None stands for a task that did not complete; `task.dependencies` tells where each of them stands. A name
        that is not there, as that of a task that was removed before a rerun, raises a `KeyError` that says so. Raises
        `CantDecrypt` when one is encrypted and no key that is here opens it.
        """
        from treadle.tasks.dependencies import results

        return results(self._claim)

    @property
    def checkpoint(self) -> Any:
        """What an earlier run, or this one, saved last; None at first."""
        return self._checkpoint

    def save(self, checkpoint: Any) -> Awaitable[None]:
        """Store a checkpoint (JSON) that the next run gets after a retry, a loss or a resume.

        `await ctx.save(…)` in async code, whose run fails without; in threads and processes the call itself returns
        when it is stored. Raises `StaleRun` when the run is no longer this worker's: stop then. Raises `BadValue` for
        what can't be kept (a NUL character, NaN, a `SecretStr`, what is no JSON …), which names the place, and fails
        the run unless it is caught.
        """
        from treadle.values import check_no_secret, plain

        data = plain(checkpoint, "checkpoint")
        check_no_secret(checkpoint, data, "checkpoint")
        self._checkpoint = data
        saving = self._port.save(data)
        self._is_to_be_awaited("ctx.save(…)", saving)
        return saving

    def _is_to_be_awaited(self, what: str, work: Any) -> None:
        if isinstance(work, Coroutine):
            if self._unawaited is None:
                self._unawaited = Unawaited()
            self._unawaited.note(what, work)

    @overload
    def step(
        self,
        name: str,
        function: Callable[[*Ts], Awaitable[R]],
        /,
        *args: *Ts,
        retries: int = 0,
        timeout: float | timedelta | None = None,
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def step(
        self,
        name: str,
        function: Callable[[*Ts], Any],
        /,
        *args: *Ts,
        retries: int = 0,
        timeout: float | timedelta | None = None,
    ) -> Any: ...
    def step(  # type: ignore[misc]  # mypy takes *Ts for more than any arguments
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        retries: int = 0,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Call `function(*args)` once and keep its result (JSON): every later run of the task returns what is kept.

        `await ctx.step(…)` in async code; in threads and processes the call itself returns the result. It is kept, in
        the type that the function is annotated with, when this returns; a call that was cut off before is made again.
        Steps are told apart by their name and by how often it came before in the run. `retries` is how often the call
        is made again at once when it raised, after pauses of 1, 2, 4 s and so on; `timeout` is seconds for each call.

        Raises what the function raises in the end, `TimeoutError`, `StepMismatch` when another function is kept under
        the name, `BadValue` for a result that can't be kept or has more than a million characters, `StaleRun` when the
        run is no longer this worker's, and `InvalidStep`, at once, for arguments that make no sense.
        """
        return self._steps_of_run().call(name, function, args, retries=retries, timeout=timeout)

    def sleep(self, delay: float | timedelta) -> Any:
        """End the run, and let the task go on from here when `delay` (seconds or a timedelta) has passed.

        `await ctx.sleep(…)` in async code. Meanwhile the task takes no place in a worker and costs no budget. The run
        that comes then calls the function anew, which gets what its steps have kept; so put what must not be done twice
        into steps. It ends by a `BaseException`, which the code must let through. Raises as `step`.
        """
        return self._steps_of_run().sleep(delay)

    def receive(self, name: str, *, timeout: float | timedelta | None = None) -> Any:
        """Return the data of the next message of this name; end the run as `sleep` does until it has come.

        `await ctx.receive(…)` in async code. Messages that came before wait, and each receive takes the oldest.
        Raises `TimeoutError` when none came in `timeout` (seconds or a timedelta; None: ten years), or by the time that
        an edit of the task has moved that to, and as `step`.
        """
        return self._steps_of_run().receive(name, timeout)

    def _steps_of_run(self) -> "Steps":
        if self._steps is None:
            from treadle.tasks.steps import Steps

            with _together:
                if self._steps is None:
                    self._steps = Steps(self._port, self._claim, self.wait_cancelled, is_async=self._is_async)
        return self._steps

    def progress(self, share: float | None = None, message: str | None = None) -> None:
        """Show how far the run is: a share from 0 to 1, a message of up to 1,000 characters, or both.

        The last one of a moment is sent. Raises `ValueError` for another share.
        """
        if share is not None and not _is_within(share, 1):
            raise ValueError(f"progress is a share between 0 and 1, and message= beside it, not {share!r:.100}")
        from treadle.values import clean

        # Cleaned first: what is spelt out takes more room.
        shown = None if message is None else clean(str(message))[:MOST_MESSAGE]
        self._port.progress(None if share is None else float(share), shown)

    def log(self, message: str, level: Level = "info") -> None:
        """Send a line to whoever watches the task; it is kept with the run. What can't be kept of it is spelt out."""
        from treadle.values import clean

        self._port.log(clean(str(message)), level if level in _LEVELS else "info")

    def spend(self, amount: float) -> None:
        """Add to what the task has used, in the unit of its budget, over all of its runs.

        Past the budget the run is stopped, and the task fails with the reason budget-exceeded. Raises `ValueError` for
        an amount below 0, or past 1e15 in all.
        """
        with _together:
            if not _is_within(amount, MOST_USAGE - self._usage):
                raise ValueError(f"a run spends amounts from 0 up, {MOST_USAGE:g} in all, not {amount!r:.100}")
            self._usage += float(amount)
            self._port.spend(self._usage)

    def upload(self, source: "Source", *, name: str | None = None, content_type: str | None = None) -> "Uploading":
        """Store a file with the run, under its own name or `name`: a path, bytes, or an async iterator of bytes.

        `await ctx.upload(…)` gives the artifact in async code, whose run fails without; in threads and processes the
        call itself returns when it is stored. The type follows from the name unless it is given. A file is streamed,
        and must not change meanwhile. Raises `InvalidArguments` for what can't be uploaded, `StaleRun` or
        `ArtifactConflict` when the run is no longer this worker's or has such an artifact with other content,
        `Forbidden` when the bucket that files go to refuses it, and `ConnectionFailed`; then nothing is stored.
        """
        from treadle.tasks.content import Uploading, content_of, is_stream, plain

        if is_stream(source):
            uploading = Uploading(self._upload_stream(source, name, content_type))  # type: ignore[arg-type]
        else:
            uploading = self._port.upload(content_of(plain(source), name, content_type))
        self._is_to_be_awaited("ctx.upload(…)", uploading.work)
        return uploading

    async def _upload_stream(
        self, source: "AsyncIterable[bytes]", name: str | None, content_type: str | None
    ) -> "ArtifactItem":
        from treadle.errors import InvalidArguments
        from treadle.tasks.content import content_of, spooled

        if name is None:
            raise InvalidArguments("an async iterator has no name of its own: upload(pieces(), name='…')")
        async with spooled(source) as path:
            return await self._port.upload(content_of(path, name, content_type))

    @property
    def usage(self) -> float:
        """What the run has used so far."""
        return self._usage

    @property
    def cancelled(self) -> bool:
        """Whether the run is to stop: its task was cancelled or paused, its time is over, or its lease is lost.

        Async code gets a `CancelledError` besides; a thread must look here, for nothing can stop it.
        """
        return self._cancelled

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Block a thread for `timeout` seconds (None: for ever), or until the run is to stop; return whether it is."""
        stopped: Event = vars(self).setdefault("_stopped", Event())  # one for all threads, whichever comes first
        if self._cancelled:
            stopped.set()
        return stopped.wait(timeout)

    def raise_if_cancelled(self) -> None:
        """Raise `Interrupted` when the run is to stop; let it through, and the run ends as it was asked to."""
        if self._cancelled:
            raise Interrupted("the run was asked to stop")

    def credentials(self) -> "Credential":
        """Return a temporary token that reaches this run and the task's scopes, and nothing else.

        `await ctx.credentials()` in async code; in threads and processes the call itself returns it, a `str`. It dies
        with the run, and shortly after the lease that it was made for: ask again when it is wanted again. Raises
        `StaleRun` when the run is no longer this worker's.
        """
        # The port gives it at once where the code is synchronous, and otherwise what only can be awaited.
        return cast("Credential", self._port.credentials())

    def client(self, **options: Any) -> "Client":
        """Return a client that acts with the run's credential: `async with ctx.client() as client:`.

        Over plain HTTP, for its requests show a fresh credential each time. `options` are those of `Client`; its keys
        are the worker's, but a child process has none. In synchronous code
        `SyncClient(ctx.url, ctx.credentials)` does the same.
        """
        from treadle.client.client import Client

        return Client(self.url, self.credentials, **{"default": False, "codec": self._codec, **options})

    @property
    def url(self) -> str | None:
        """Where the run's server is; several URLs are separated by commas."""
        return ",".join(self._urls) or None

    @property
    def resources(self) -> Any:
        """What the worker's lifespan yielded; raises `RuntimeError` in a child process, which can't share it."""
        if self._resources is _UNSET:
            raise RuntimeError(
                "a child process can't use its worker's resources, and this runs in one, by isolation='process' or as a"
                " plain function with a target: make what it needs in the function, or have it run in the worker,"
                " without isolation='process', and async where it has a target"
            )
        return self._resources

    def stop(self) -> None:
        """Set `cancelled`; called by the worker."""
        self._cancelled = True
        if self._stopped is not None:
            self._stopped.set()


def _is_within(number: Any, most: float) -> bool:
    try:
        # An array compares as a number does: one of several has no truth, and one of one may be none.
        return bool(0 <= number <= most) and float(number) >= 0
    except (TypeError, ValueError):
        return False


def has_running_steps(context: Context) -> bool:
    """Return whether a function that a step has called goes on in a thread: one that is past the step's timeout."""
    return context._steps is not None and context._steps.has_threads  # noqa: SLF001


async def stopped_steps(context: Context | None) -> None:
    """Wait until the functions of the code's steps, which was told to stop, have ended too; None for code without."""
    if context is not None and context._steps is not None:  # noqa: SLF001
        await context._steps.threads_ended()  # noqa: SLF001


def check_awaited(context: Context | None) -> None:
    """Raise `RuntimeError` when code has returned that never awaited what it was given; None for code without."""
    if context is not None and context._unawaited is not None:  # noqa: SLF001
        said = context._unawaited.said()  # noqa: SLF001
        if said is not None:
            raise RuntimeError(said)


def check_end(claim: dict[str, Any], context: Context | None) -> None:
    """Raise `StepMismatch` when code has returned that never asked for a step which its task keeps.

    Otherwise as `check_awaited`; None for code that has no context.
    """
    check_awaited(context)
    steps = None if context is None else context._steps_of_run() if claim.get("steps") else context._steps  # noqa: SLF001
    if steps is not None:
        steps.check_end()
    elif number := claim.get("steps"):
        from treadle.tasks.steps import unasked

        raise unasked(number)
