"""`Context`, a run as its code sees it: the first parameter of functions that ask for one."""

from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple, cast, get_args, overload

from treadle.errors import InvalidArguments
from treadle.forks import process_number
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
"""Held while a run loads its steps or adds to its usage, because several of its threads may do so at once."""


class Port(Protocol):
    """Where a context sends its reports: to the worker in the same process, or through a pipe to it."""

    def progress(self, share: float | None, message: str | None) -> None:
        """Send the run's progress: a share from 0 to 1, a message of up to 1,000 characters, or None for either."""

    def log(self, message: str, level: Level) -> None:
        """Send a line for the task's log; the caller has already made it valid text."""

    def spend(self, total: float) -> None:
        """Send the run's total usage."""

    def save(self, checkpoint: Any) -> Awaitable[None]:
        """Send a checkpoint; the awaitable ends when it is stored. Blocks until then if the code is synchronous."""

    def upload(self, content: "Content") -> "Uploading":
        """Upload an artifact; like `save`, it blocks if the code is synchronous."""

    def credentials(self) -> Awaitable[str]:
        """Ask for a credential of the run; if the code is synchronous, returns a `Credential` at once."""

    def kept_steps(self) -> Awaitable[list[dict[str, Any]]]:
        """Read the steps that the task keeps, as `StepItem`; blocks if the code is synchronous, as do the next two."""

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        """Keep a step, a `StepDone`; the awaitable ends when it is stored."""

    def receive(self, step: dict[str, Any]) -> Awaitable[dict[str, Any] | None]:
        """Receive a message by a step, a `StepRef`, and return the step; None if no message waits."""


class Context:
    """A run, as its code sees it; works alike in async functions, in threads and in child processes."""

    _stopped: Event | None = None
    """Set when the run is `cancelled`; created only when somebody waits, as it costs a tenth of a short run."""

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
        self._own_port = port
        self._process = process_number()
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
    def _port(self) -> Port:
        """The port; raises `InvalidArguments` in a copy of the process, to which no answer would ever come."""
        if process_number() != self._process:
            raise InvalidArguments(
                "a Context can't be used in a process that the task's code has forked: have it return what it found"
            )
        return self._own_port

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
        """The results of the tasks that this one waited for, by the names in `depends_on`: one result, or a list.

        The result of a task that did not complete is None; `task.dependencies` has their statuses. A missing name, such
        as that of a task removed before a rerun, raises a `KeyError` that says so. Raises `CantDecrypt` when a result
        is encrypted and none of this process's keys opens it.
        """
        from treadle.tasks.dependencies import results

        return results(self._claim)

    @property
    def checkpoint(self) -> Any:
        """The checkpoint saved last, by an earlier run or by this one; None at first."""
        return self._checkpoint

    def save(self, checkpoint: Any) -> Awaitable[None]:
        """Store a checkpoint (JSON), which the next run gets after a retry, a lost worker or a resume.

        In async code write `await ctx.save(…)`: without `await` the run fails. In threads and processes the call
        returns once the checkpoint is stored. Raises `StaleRun` when the run is no longer this worker's: stop then.
        Raises `BadValue`, which names the place, for a value that can't be kept (a NUL character, NaN, a `SecretStr`,
        anything that is not JSON …); if it is not caught, it fails the run.
        """
        from treadle.values import check_no_secret, plain

        data = plain(checkpoint, "checkpoint")
        check_no_secret(checkpoint, data, "checkpoint")
        self._checkpoint = data
        return self._to_be_awaited("ctx.save(…)", self._port.save(data))

    def _to_be_awaited(self, what: str, work: R) -> R:
        if isinstance(work, Coroutine):
            if self._unawaited is None:
                self._unawaited = Unawaited()
            self._unawaited.note(what, work)
        return work

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
        """Call `function(*args)` once and keep its result (JSON): later runs of the task get the kept result.

        In async code write `await ctx.step(…)`; in threads and processes the call returns the result. The result, of
        the type that the function is annotated with, is stored before this returns; a call that was cut off is made
        again. Steps are told apart by their name and how often it came before in this run. `retries` is how many times
        to call again in this run after an exception, with pauses of 1, 2, 4 s …; `timeout` is seconds for each call.

        Raises what the function's last call raises; `TimeoutError`; `StepMismatch` when another function's result is
        kept under the name; `BadValue` for a result that can't be kept or is over a million characters; `StaleRun` when
        the run is no longer this worker's; and, at once, `InvalidStep` for invalid arguments.
        """
        return self._steps_of_run().call(name, function, args, retries=retries, timeout=timeout)

    def sleep(self, delay: float | timedelta) -> Any:
        """End the run, and continue the task from here after `delay` (seconds or a timedelta).

        In async code write `await ctx.sleep(…)`. A sleeping task takes no room in a worker and uses up no budget. The
        next run calls the function from its start, with the kept results of its steps: so put what must not happen
        twice into steps. Sleeping raises a `BaseException`, which the code must let through. Raises as `step` does.
        """
        return self._steps_of_run().sleep(delay)

    def receive(self, name: str, *, timeout: float | timedelta | None = None) -> Any:
        """Return the data of the next message of this name. If none has come yet, the run ends, as with `sleep`.

        In async code write `await ctx.receive(…)`. Messages that came early are kept; each receive takes the oldest.
        Raises `TimeoutError` when none came within `timeout` (seconds or a timedelta; None: ten years); editing the
        task can move that time. Raises as `step` does.
        """
        return self._steps_of_run().receive(name, timeout)

    def _steps_of_run(self) -> "Steps":
        if self._steps is None:
            from treadle.tasks.steps import Steps

            with _together:
                if self._steps is None:
                    given = self._to_be_awaited if self._is_async else None
                    self._steps = Steps(self._port, self._claim, self.wait_cancelled, given)
        return self._steps

    def progress(self, share: float | None = None, message: str | None = None) -> None:
        """Show the run's progress: a share from 0 to 1, a message of up to 1,000 characters, or both.

        Of several in quick succession only the last is sent. Raises `ValueError` for an invalid share.
        """
        if share is not None and not _is_within(share, 1):
            raise ValueError(f"progress takes a share between 0 and 1 (and message=), not {share!r:.100}")
        from treadle.values import clean

        # Escaped before it is cut, because escapes take more room.
        shown = None if message is None else clean(str(message))[:MOST_MESSAGE]
        self._port.progress(None if share is None else float(share), shown)

    def log(self, message: str, level: Level = "info") -> None:
        """Add a line to the task's log, which is kept with the run; characters that can't be kept are escaped."""
        from treadle.values import clean

        self._port.log(clean(str(message)), level if level in _LEVELS else "info")

    def spend(self, amount: float) -> None:
        """Add to the task's usage, over all of its runs, in the unit of its budget.

        A run that exceeds the budget is stopped, and the task fails with the reason budget-exceeded. Raises
        `ValueError` for an amount below 0, or for more than 1e15 in all.
        """
        with _together:
            if not _is_within(amount, MOST_USAGE - self._usage):
                raise ValueError(f"usage must be at least 0, and {MOST_USAGE:g} at most in all, not {amount!r:.100}")
            self._usage += float(amount)
            self._port.spend(self._usage)

    def upload(self, source: "Source", *, name: str | None = None, content_type: str | None = None) -> "Uploading":
        """Store a file with the run, under its own name or `name`: a path, bytes, or an async iterator of bytes.

        In async code `await ctx.upload(…)` returns the artifact; without `await` the run fails. In threads and
        processes the call returns once it is stored. By default the content type follows from the name. A file is
        streamed, and must not change meanwhile. If it raises, nothing is stored: `InvalidArguments` for what can't be
        uploaded; `StaleRun` or `ArtifactConflict` when the run is no longer this worker's, or has such an artifact with
        other content; `Forbidden` when the bucket refuses it; `ConnectionFailed`.
        """
        from treadle.tasks.content import Uploading, content_of, is_stream, plain

        if is_stream(source):
            uploading = Uploading(self._upload_stream(source, name, content_type))  # type: ignore[arg-type]
        else:
            uploading = self._port.upload(content_of(plain(source), name, content_type))
        self._to_be_awaited("ctx.upload(…)", uploading.work)
        return uploading

    async def _upload_stream(
        self, source: "AsyncIterable[bytes]", name: str | None, content_type: str | None
    ) -> "ArtifactItem":
        from treadle.tasks.content import content_of, spooled

        if name is None:
            raise InvalidArguments("an async iterator has no name: use upload(pieces(), name='…')")
        async with spooled(source) as path:
            return await self._port.upload(content_of(path, name, content_type))

    @property
    def usage(self) -> float:
        """The run's usage so far."""
        return self._usage

    @property
    def cancelled(self) -> bool:
        """Whether the run should stop: its task was cancelled or paused, its time is over, or its lease was lost.

        Async code also gets a `CancelledError`. A thread must check this, because nothing can stop it.
        """
        return self._cancelled

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Block a thread until the run should stop, up to `timeout` seconds (None: for ever); return if it should."""
        stopped: Event = vars(self).setdefault("_stopped", Event())  # atomic, so that all threads share one event
        if self._cancelled:
            stopped.set()
        return stopped.wait(timeout)

    def raise_if_cancelled(self) -> None:
        """Raise `Interrupted` if the run should stop. Let it through, and the run ends as it was asked to."""
        if self._cancelled:
            raise Interrupted("the run was asked to stop")

    def credentials(self) -> "Credential":
        """Return a temporary token that may report on this run and do what the task's scopes allow, nothing else.

        In async code write `await ctx.credentials()`; in threads and processes the call returns it, a `str`. It expires
        with the run, and soon after the present lease, so ask for one each time you need it. Raises `StaleRun` when the
        run is no longer this worker's.
        """
        # The port returns it at once if the code is synchronous, and otherwise only an awaitable.
        return cast("Credential", self._to_be_awaited("ctx.credentials()", self._port.credentials()))

    def client(self, **options: Any) -> "Client":
        """Return a client that acts with the run's credential: `async with ctx.client() as client:`.

        It uses plain HTTP, with a fresh credential for each request. `options` are those of `Client`; its encryption
        keys are the worker's (a child process has none). In synchronous code use
        `SyncClient(ctx.url, ctx.credentials)`.
        """
        from treadle.client.client import Client

        return Client(self.url, self.credentials, **{"default": False, "codec": self._codec, **options})

    @property
    def url(self) -> str | None:
        """The server's URL; several are separated by commas."""
        return ",".join(self._urls) or None

    @property
    def resources(self) -> Any:
        """What the worker's lifespan yielded; raises `RuntimeError` in a child process, which can't share it."""
        if self._resources is _UNSET:
            raise RuntimeError(
                "a child process can't use its worker's resources, and this task runs in one (isolation='process', or a"
                " plain function with a target): create what it needs in the function, or run it in the worker,"
                " without isolation='process', and async if it has a target"
            )
        return self._resources

    def stop(self) -> None:
        """Set `cancelled`; called by the worker."""
        self._cancelled = True
        if self._stopped is not None:
            self._stopped.set()


def _is_within(number: Any, most: float) -> bool:
    try:
        # Arrays compare too: with several values they have no truth value, and even with one may be no number.
        return bool(0 <= number <= most) and float(number) >= 0
    except (TypeError, ValueError):
        return False


def has_running_steps(context: Context) -> bool:
    """Return whether a function that a step has called still runs in a thread, past the step's timeout."""
    return context._steps is not None and context._steps.has_threads  # noqa: SLF001


async def stopped_steps(context: Context | None) -> None:
    """Wait until the functions called by the code's steps, which was told to stop, have ended; None has no steps."""
    if context is not None and context._steps is not None:  # noqa: SLF001
        await context._steps.threads_ended()  # noqa: SLF001


def check_awaited(context: Context | None) -> None:
    """Raise `NotAwaited` if the code has returned without awaiting what it should have; None has nothing to await."""
    if context is not None and context._unawaited is not None:  # noqa: SLF001
        context._unawaited.check()  # noqa: SLF001


def check_end(claim: dict[str, Any], context: Context | None) -> None:
    """Raise `StepMismatch` if the code has returned without asking for a step that its task keeps.

    Otherwise raises as `check_awaited` does. `context` is None for code that takes none.
    """
    check_awaited(context)
    steps = None if context is None else context._steps_of_run() if claim.get("steps") else context._steps  # noqa: SLF001
    if steps is not None:
        steps.check_end()
    elif number := claim.get("steps"):
        from treadle.tasks.steps import unasked

        raise unasked(number)
