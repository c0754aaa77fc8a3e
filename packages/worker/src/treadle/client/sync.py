"""The blocking client: a `Client` that runs in an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import Future
from datetime import timedelta
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from treadle import system_threads
from treadle.client.blocking import SyncPage, block, each
from treadle.client.bound import Bound
from treadle.client.client import Client
from treadle.client.completed import as_they_end, checked_handles
from treadle.client.handle import TaskHandle
from treadle.client.open_clients import enter, leave
from treadle.client.options import Options
from treadle.client.requests import Listing
from treadle.forks import process_number
from treadle.transport.bearer import Bearer, TokenSource
from treadle.wire.fields import Model
from treadle.wire.ids import GivenId, TaskId
from treadle.wire.tasks import Receipt, TaskItem

if TYPE_CHECKING:
    from treadle.encryption.codec import Codec
    from treadle.settings import Settings

M = TypeVar("M", bound=Model)
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class _Loop:
    """An event loop in a daemon thread, which keeps one client open; one for each process that uses the client.

    A forked process inherits the memory of its parent but not the threads, so it starts with a new one.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._thread: system_threads.Running | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = asyncio.Event()
        self._holders = 0
        self._is_kept = False

    def open(self, *, is_kept: bool) -> None:
        """Open the client: until `close` if `is_kept`, else until `let_go` has been called as often as this."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive() or not self._client.is_open:
                self._start()
            if is_kept:
                self._is_kept = True
            else:
                self._holders += 1

    def let_go(self) -> None:
        """End one `with` block; the last one closes the client, unless it is kept open."""
        with self._lock:
            self._holders -= 1
            if self._holders <= 0 and not self._is_kept:
                self._stop()

    def close(self) -> None:
        """Close the client, however it was opened."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        opened: Future[None] = Future()
        self._holders, self._is_kept = 0, False
        self._thread = system_threads.start(lambda: asyncio.run(self._main(opened)), name="treadle-client")
        system_threads.outcome(opened)

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive() and self._loop is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
            thread.join()

    async def _main(self, opened: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(system_threads.Pool())
        self._closing = asyncio.Event()
        try:
            await self._client.open()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits in `_start`
            opened.set_exception(error)
            return
        opened.set_result(None)
        try:
            await self._closing.wait()
        finally:
            await self._client.close()


class Blocking(Protocol[P, R_co]):
    """A method, for type checkers: they disagree on whether a `Callable` in a class body binds `self`."""

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[Concatenate[Any, P], R_co]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Callable[P, R_co]: ...


def _of_client(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, R]],
) -> Blocking[P, R]:
    @wraps(method)
    def blocking(self: "SyncClient", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.run(method(self.client, *args, **kwargs))

    return cast("Blocking[P, R]", blocking)


def _list_of_client(
    method: Callable[Concatenate[Client, P], Listing[M]],
) -> Blocking[P, SyncPage[M]]:
    @wraps(method)
    def blocking(self: "SyncClient", /, *args: P.args, **kwargs: P.kwargs) -> SyncPage[M]:
        return SyncPage.first(self.client, method(self.client, *args, **kwargs))

    return cast("Blocking[P, SyncPage[M]]", blocking)


def _of_handle(
    method: Callable[Concatenate[TaskHandle[Any], P], Coroutine[Any, Any, R]],
) -> Blocking[P, R]:
    @wraps(method)
    def blocking(self: "SyncHandle[Any]", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return block(self.handle.client, method(self.handle, *args, **kwargs))

    return cast("Blocking[P, R]", blocking)


class SyncHandle(Generic[R_co]):
    """A `TaskHandle` whose methods block; they raise `WouldBlock` in the thread of the client's own event loop."""

    def __init__(self, handle: TaskHandle[R_co]) -> None:
        self.handle = handle
        self.id: TaskId = handle.id

    def __repr__(self) -> str:
        return f"<SyncHandle {self.id}>"

    @property
    def submitted(self) -> Receipt | None:
        """The server's answer to the submit; None for a handle made from an id."""
        return self.handle.submitted

    def result(self, timeout: float | timedelta | None = None) -> R_co:
        """Wait up to `timeout` (None: for ever) and return the task's result; like `TaskHandle.result`."""
        return block(self.handle.client, self.handle.result(timeout))

    def follow(self, timeout: float | timedelta | None = None) -> Generator[TaskItem]:
        """Yield the task as it is now, and again after each change, until it has ended; like `TaskHandle.follow`."""
        following = self.handle._following(timeout)  # noqa: SLF001 - this class wraps it
        try:
            while (task := block(self.handle.client, following.next())) is not None:
                yield task
        finally:
            following.end()

    wait = _of_handle(TaskHandle.wait)
    get = _of_handle(TaskHandle.get)
    status = _of_handle(TaskHandle.status)
    runs = _of_handle(TaskHandle.runs)
    logs = _of_handle(TaskHandle.logs)
    artifacts = _of_handle(TaskHandle.artifacts)
    download = _of_handle(TaskHandle.download)
    cancel = _of_handle(TaskHandle.cancel)
    pause = _of_handle(TaskHandle.pause)
    resume = _of_handle(TaskHandle.resume)
    rerun = _of_handle(TaskHandle.rerun)
    send = _of_handle(TaskHandle.send)
    steps = _of_handle(TaskHandle.steps)
    edit = _of_handle(TaskHandle.edit)


class SyncClient:
    """`Client` for blocking code: the same arguments, methods and errors. Use a `with` block, or `open` and `close`.

    Submit tasks with `client.submit(task.bind(…))`, or with `task.submit_sync(…)`, which finds the client as
    `current_client` does. It may be used from several threads at once. Its work is done in an event loop in a thread of
    its own; a forked process has to open the client for itself.
    """

    # Stands twice: only so do type checkers, editors and help() show the parameters of `Client` here too.
    def __init__(
        self,
        url: str | None = None,
        token: TokenSource | Bearer | None = None,
        *,
        room: str | None = None,
        register_missing: bool = True,
        patience: float | timedelta = 30.0,
        settings: "Settings | None" = None,
        default: bool = True,
        codec: "Codec | None" = None,
    ) -> None:
        self.client = Client(
            url,
            token,
            room=room,
            register_missing=register_missing,
            patience=patience,
            settings=settings,
            default=default,
            codec=codec,
        )
        self._loops: dict[int, _Loop] = {}

    def __repr__(self) -> str:
        return f"<Sync{repr(self.client).removeprefix('<')}"

    def __enter__(self) -> Self:
        self._loop().open(is_kept=False)
        enter(self.client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self.client)
        self._loop().let_go()

    def open(self) -> Self:
        """Open the client until `close`, and return it; does nothing if it is already open in this process.

        For programs with no place for a `with` block, such as a web framework that forks: call it before each request.
        """
        self._loop().open(is_kept=True)
        return self

    def close(self) -> None:
        """Close the client, however it was opened; does nothing if it is already closed."""
        self._loop().close()

    @property
    def is_open(self) -> bool:
        """Whether the client is open in this process, so that requests can be made."""
        return self.client.is_open

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine of `self.client` in the client's loop and return its result.

        Raises `NoClient` when the client is not open, and `WouldBlock` in the loop's own thread.
        """
        return block(self.client, work)

    def _loop(self) -> _Loop:
        # `setdefault` is atomic: threads agree on one loop without a lock, which a fork might copy while it is held.
        return self._loops.setdefault(process_number(), _Loop(self.client))

    def submit(self, bound: Bound[R], *, options: Options | None = None, wait: bool = False) -> SyncHandle[R]:
        """Submit `task.bind(…)` and return its handle, whose methods block; like `Client.submit`."""
        return SyncHandle(self.run(self.client.submit(bound, options=options, wait=wait)))

    def submit_many(
        self,
        bounds: Iterable[Bound[R]],
        *,
        options: Options | None = None,
        wait: bool = False,
        room: str | None = None,
    ) -> list[SyncHandle[R]]:
        """Submit many tasks, all or none (of each 10,000), and return their handles; like `Client.submit_many`."""
        work = self.client.submit_many(bounds, options=options, wait=wait, room=room)
        return [SyncHandle(handle) for handle in self.run(work)]

    def submit_raw(
        self, job: str, payload: Mapping[str, Any], *, options: Options | None = None,
        arguments_from: Mapping[str, str] | None = None, wait: bool = False,
    ) -> SyncHandle[Any]:  # fmt: skip
        """Submit to a job by its full name, `room:category:name`, and return a handle; like `Client.submit_raw`."""
        submitting = self.client.submit_raw(job, payload, options=options, arguments_from=arguments_from, wait=wait)
        return SyncHandle(self.run(submitting))

    def handle(self, task_id: GivenId) -> SyncHandle[Any]:
        """Return a handle of a task that was submitted before."""
        return SyncHandle(self.client.handle(task_id))

    def expect(self, task_id: GivenId) -> SyncHandle[Any]:
        """Return a handle of a task that may be submitted later; like `Client.expect`."""
        return SyncHandle(self.client.expect(task_id))

    def completed(
        self, handles: Iterable[SyncHandle[R]], timeout: float | timedelta | None = None
    ) -> Generator[SyncHandle[R]]:
        """Yield the handles in the order in which their tasks end, blocking meanwhile; like `Client.completed`."""
        given = checked_handles(handles, SyncHandle)
        for place in each(self.run, as_they_end([handle.handle for handle in given], timeout)):
            yield given[place]

    call = _of_client(Client.call)
    register = _of_client(Client.register)
    get = _of_client(Client.get)
    list = _list_of_client(Client.list)
    runs = _of_client(Client.runs)
    logs = _of_client(Client.logs)
    cancel = _of_client(Client.cancel)
    pause = _of_client(Client.pause)
    resume = _of_client(Client.resume)
    rerun = _of_client(Client.rerun)
    send = _of_client(Client.send)
    steps = _of_client(Client.steps)
    resolve = _of_client(Client.resolve)
    edit = _of_client(Client.edit)
    act = _of_client(Client.act)
    flows = _list_of_client(Client.flows)
    flow = _of_client(Client.flow)
    cancel_flow = _of_client(Client.cancel_flow)
    pause_flow = _of_client(Client.pause_flow)
    resume_flow = _of_client(Client.resume_flow)
    rerun_failed = _of_client(Client.rerun_failed)
    jobs = _list_of_client(Client.jobs)
    job = _of_client(Client.job)
    drain_worker = _of_client(Client.drain_worker)
    pause_queue = _of_client(Client.pause_queue)
    resume_queue = _of_client(Client.resume_queue)
    workers = _list_of_client(Client.workers)
    worker = _of_client(Client.worker)
    targets = _list_of_client(Client.targets)
    target = _of_client(Client.target)
    artifacts = _of_client(Client.artifacts)
    download = _of_client(Client.download)
    failures = _of_client(Client.failures)
    stats = _of_client(Client.stats)
    whoami = _of_client(Client.whoami)
    tokens = _list_of_client(Client.tokens)
    create_token = _of_client(Client.create_token)
    revoke_token = _of_client(Client.revoke_token)
    prune = _of_client(Client.prune)
    webhooks = _list_of_client(Client.webhooks)
    webhook = _of_client(Client.webhook)
    set_webhook = _of_client(Client.set_webhook)
    delete_webhook = _of_client(Client.delete_webhook)
    deliveries = _list_of_client(Client.deliveries)
    redeliver = _of_client(Client.redeliver)
    schedules = _list_of_client(Client.schedules)
    schedule = _of_client(Client.schedule)
    set_schedule = _of_client(Client.set_schedule)
    pause_schedule = _of_client(Client.pause_schedule)
    resume_schedule = _of_client(Client.resume_schedule)
    run_schedule = _of_client(Client.run_schedule)
    delete_schedule = _of_client(Client.delete_schedule)
    limits = _list_of_client(Client.limits)
    limit = _of_client(Client.limit)
    set_limit = _of_client(Client.set_limit)
    delete_limit = _of_client(Client.delete_limit)
    rotate_keys = _of_client(Client.rotate_keys)
    ping = _of_client(Client.ping)
