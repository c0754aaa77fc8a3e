"""The blocking client: `Client`, run by an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from treadle.client import Client
from treadle.errors import ConnectionFailed
from treadle.handle import TaskHandle
from treadle.options import Options
from treadle.tasks import Bound
from treadle.wire.tasks import Receipt

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class _Loop:
    """An event loop in a daemon thread, which keeps one client open in one task."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._opened: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="treadle-client", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._opened.result()

    def stop(self) -> None:
        if self._loop is not None and self._closing is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        if self._loop is None or not self._thread.is_alive():
            work.close()
            raise ConnectionFailed("the client is closed: use it inside `with SyncClient() as client:`")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C ends the wait, so nobody waits for the request any more.
            future.cancel()
            raise

    async def _main(self) -> None:
        try:
            async with self._client:
                self._loop = asyncio.get_running_loop()
                self._closing = asyncio.Event()
                self._opened.set_result(None)
                await self._closing.wait()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for the opening
            if not self._opened.done():
                self._opened.set_exception(error)


def _of_client(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, R]],
) -> "Callable[Concatenate[SyncClient, P], R]":
    def blocking(self: "SyncClient", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.run(method(self.client, *args, **kwargs))

    return _documented(blocking, method)


def _of_handle(
    method: Callable[Concatenate[TaskHandle[Any], P], Coroutine[Any, Any, R]],
) -> "Callable[Concatenate[SyncHandle[Any], P], R]":
    def blocking(self: "SyncHandle[Any]", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(method(self.handle, *args, **kwargs))

    return _documented(blocking, method)


F = TypeVar("F", bound=Callable[..., Any])


def _documented(blocking: F, method: Callable[..., Any]) -> F:
    blocking.__name__, blocking.__qualname__ = method.__name__, method.__qualname__
    blocking.__doc__ = method.__doc__
    return blocking


class SyncHandle(Generic[R_co]):
    """A `TaskHandle` whose methods block."""

    def __init__(self, client: "SyncClient", handle: TaskHandle[R_co]) -> None:
        self._run = client.run
        self.handle = handle
        self.id = handle.id

    def __repr__(self) -> str:
        return f"<SyncHandle {self.id}>"

    @property
    def submitted(self) -> Receipt | None:
        """What the server said when it took the task."""
        return self.handle.submitted

    def result(self, timeout: float | None = None) -> R_co:
        """Wait up to `timeout` seconds (None: for ever) and return the task's result; as `TaskHandle.result`."""
        return self._run(self.handle.result(timeout))

    wait = _of_handle(TaskHandle.wait)
    get = _of_handle(TaskHandle.get)
    status = _of_handle(TaskHandle.status)
    runs = _of_handle(TaskHandle.runs)
    artifacts = _of_handle(TaskHandle.artifacts)
    download = _of_handle(TaskHandle.download)
    cancel = _of_handle(TaskHandle.cancel)
    pause = _of_handle(TaskHandle.pause)
    resume = _of_handle(TaskHandle.resume)
    rerun = _of_handle(TaskHandle.rerun)


class SyncClient:
    """`Client` for code that blocks: the same arguments, methods and errors; a context manager.

    Tasks are submitted as `client.submit(task.bind(…))`. Usable from several threads at once.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.client = Client(*args, **kwargs)
        self._loop = _Loop(self.client)

    def __enter__(self) -> Self:
        self._loop.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.stop()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine of `self.client` in the client's loop and return what it returns."""
        return self._loop.run(work)

    def submit(self, bound: Bound[R], *, options: Options | None = None, wait: bool = False) -> SyncHandle[R]:
        """Submit `task.bind(…)`; as `Client.submit`."""
        return SyncHandle(self, self.run(self.client.submit(bound, options=options, wait=wait)))

    def submit_many(
        self, bounds: Sequence[Bound[R]], *, options: Options | None = None, wait: bool = False
    ) -> list[SyncHandle[R]]:
        """Submit many tasks, all or none; as `Client.submit_many`."""
        return [
            SyncHandle(self, handle) for handle in self.run(self.client.submit_many(bounds, options=options, wait=wait))
        ]

    def submit_raw(
        self, job: str, payload: Mapping[str, Any], *, options: Options | None = None, wait: bool = False
    ) -> SyncHandle[Any]:
        """Submit to a job by its full name; as `Client.submit_raw`."""
        return SyncHandle(self, self.run(self.client.submit_raw(job, payload, options=options, wait=wait)))

    def handle(self, task_id: str) -> SyncHandle[Any]:
        """Return a handle of a task that was submitted before."""
        return SyncHandle(self, self.client.handle(task_id))

    call = _of_client(Client.call)
    register = _of_client(Client.register)
    get = _of_client(Client.get)
    list = _of_client(Client.list)
    runs = _of_client(Client.runs)
    logs = _of_client(Client.logs)
    cancel = _of_client(Client.cancel)
    pause = _of_client(Client.pause)
    resume = _of_client(Client.resume)
    rerun = _of_client(Client.rerun)
    resolve = _of_client(Client.resolve)
    edit = _of_client(Client.edit)
    act = _of_client(Client.act)
    jobs = _of_client(Client.jobs)
    job = _of_client(Client.job)
    pause_queue = _of_client(Client.pause_queue)
    resume_queue = _of_client(Client.resume_queue)
    workers = _of_client(Client.workers)
    worker = _of_client(Client.worker)
    targets = _of_client(Client.targets)
    target = _of_client(Client.target)
    artifacts = _of_client(Client.artifacts)
    download = _of_client(Client.download)
    stats = _of_client(Client.stats)
    whoami = _of_client(Client.whoami)
    tokens = _of_client(Client.tokens)
    create_token = _of_client(Client.create_token)
    revoke_token = _of_client(Client.revoke_token)
    prune = _of_client(Client.prune)
    webhooks = _of_client(Client.webhooks)
    webhook = _of_client(Client.webhook)
    set_webhook = _of_client(Client.set_webhook)
    delete_webhook = _of_client(Client.delete_webhook)
    deliveries = _of_client(Client.deliveries)
    redeliver = _of_client(Client.redeliver)
    schedules = _of_client(Client.schedules)
    schedule = _of_client(Client.schedule)
    set_schedule = _of_client(Client.set_schedule)
    pause_schedule = _of_client(Client.pause_schedule)
    resume_schedule = _of_client(Client.resume_schedule)
    run_schedule = _of_client(Client.run_schedule)
    delete_schedule = _of_client(Client.delete_schedule)
    rotate_keys = _of_client(Client.rotate_keys)
    ping = _of_client(Client.ping)
