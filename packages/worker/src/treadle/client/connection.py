"""What a client has while it is open, in one event loop: a socket, HTTP connections, and the waiters for results."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from treadle import system_threads
from treadle.client.polls import Polls
from treadle.client.results import ResultWaiters
from treadle.client.submit_batcher import SubmitBatcher
from treadle.client.watches import Watched, Watches
from treadle.clock import monotonic
from treadle.errors import (
    ConnectionFailed,
    ConnectionLost,
    NoClient,
    SocketRefused,
    StoreUnavailable,
    TreadleError,
    WouldBlock,
)
from treadle.forks import process_number
from treadle.loops import in_later_turn
from treadle.transport.answers import reading
from treadle.transport.bearer import Bearer
from treadle.transport.retries import QuietLog, delays, may_be_resent

if TYPE_CHECKING:
    from treadle.transport.http import HttpChannel
    from treadle.transport.session import Session

R = TypeVar("R")

log: logging.Logger = logging.getLogger("treadle.client")

_inherited: list["Connection"] = []
"""Connections inherited through a fork. They are kept because the garbage collector would close what still belongs to
the parent process: both share the selector that its event loop waits on."""

_ENDED = "the client was closed, or its event loop ended, before the answer came"


def _loop_here() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise NoClient(
            "no asyncio event loop is running, which `Client` needs: under Trio use a"
            " SyncClient in a thread, `await anyio.to_thread.run_sync(…)`"
        ) from None


class Connection:
    """One opening of a client, from `start` to `close`.

    It belongs to the process and the event loop in which it was created; `run` and `block` reach it from elsewhere. If
    a background task fails, the connection ends, and `close` raises that error.
    """

    def __init__(self, urls: tuple[str, ...], bearer: Bearer, *, patience: float) -> None:
        self.loop: asyncio.AbstractEventLoop = _loop_here()
        self.pid: int = process_number()
        self.holders = 0
        """In how many `with` blocks the client is open."""
        self.is_kept = False
        """Whether it was opened with `open`, so that it stays open after the blocks."""
        self.is_plain: bool = bearer.fresh is not None
        """Whether everything goes over plain HTTP: until a socket opens, or always with a token that changes."""
        self.waiters: ResultWaiters = ResultWaiters(self._ask, self.spawn)
        self.batcher: SubmitBatcher = SubmitBatcher(lambda fields: self.call("submit_each", fields), self.spawn)
        self.watches: Watches = Watches(lambda op, fields: self._socket().call(op, fields), self.spawn)
        self._thread = threading.get_ident()
        self._urls = urls
        self._bearer = bearer
        self._patience = patience
        self._waits = QuietLog(log)
        self._group = asyncio.TaskGroup()
        self._background: set[asyncio.Task[None]] = set()
        self._session: Session | None = None
        self._http: HttpChannel | None = None
        self._polls = Polls(self.request, self.waiters, self.spawn, is_needed=lambda: self.is_plain)
        self._being_submitted: set[str] = set()
        """Tasks whose submit is under way; it asks for their ends itself."""
        self._started = asyncio.Event()
        self._closing = asyncio.Event()
        # Its parent is the event loop's task group: it ends with the client, not with whoever opened it.
        self._main = self.loop.create_task(self._run(), name="treadle-client")

    @property
    def is_open(self) -> bool:
        """Whether requests can be made: not after `close`, the loop's end, or a fork."""
        return not self._closing.is_set() and self.pid == process_number() and not self.loop.is_closed()

    @property
    def is_here(self) -> bool:
        """Whether this code runs in the connection's loop."""
        return _loop_here() is self.loop

    async def start(self) -> None:
        """Wait until background tasks can be started."""
        if self.is_here:
            await self._started.wait()

    async def close(self) -> None:
        """Close everything; call it in the connection's loop. Raises the error of a background task that failed."""
        self.end()
        await asyncio.wait({self._main})
        if not self._main.cancelled() and (error := self._main.exception()) is not None:
            raise error

    def end(self) -> None:
        """Have the connection close by itself; call it in the connection's loop."""
        self._closing.set()

    def abandon(self) -> None:
        """Abandon the connection as it is: it is another process's, or its loop has ended."""
        if self.pid != process_number():
            _inherited.append(self)

    async def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the connection's loop, from any asyncio loop.

        Raises `ConnectionLost` when the connection's loop is another one and ends first.
        """
        try:
            is_here = self.is_here
        except NoClient:
            work.close()
            raise
        if is_here:
            return await work
        future = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            future.cancel()
            raise
        if future.cancelled():
            # The future was cancelled, but not by anyone waiting here: the loop has ended.
            raise ConnectionLost(_ENDED)
        return future.result()

    def block(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the connection's loop, and block this thread until it returns.

        Raises `WouldBlock` in the loop's own thread, and `ConnectionLost` when the loop ends first.
        """
        if threading.get_ident() == self._thread:
            work.close()
            raise WouldBlock(
                "a blocking call in the thread of the client's event loop would never return: use"
                " `await task.submit(…)` and `await handle.result()` here, or block in another thread"
            )
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return system_threads.outcome(future)
        except CancelledError:
            raise ConnectionLost(_ENDED) from None
        except BaseException:
            # Ctrl-C ends the wait, so nobody waits for the request any more.
            future.cancel()
            raise

    @property
    def answered_at(self) -> str | None:
        """The `Date` header of the last HTTP answer, as the server wrote it."""
        return None if self._http is None else self._http.answered_at

    def http(self) -> "HttpChannel":
        """Return the HTTP connections, which lists and the HTTP fallback use."""
        if self._http is None:
            from treadle.transport.http import HttpChannel

            # A server that has greeted us before is expected to come back.
            is_known = self._session is not None and self._session.hello is not None
            first = self._patience if is_known else 0.0
            self._http = HttpChannel(self._urls, self._bearer, patience=self._patience, first_patience=first)
        return self._http

    async def call(self, op: str, fields: Mapping[str, Any] | None = None, *, resend: bool = True) -> Any:
        """Make one request of the protocol, over the socket or else over HTTP, and return the raw answer."""
        return await self._with_patience(lambda: self._call(op, dict(fields or {}), resend=resend), again=resend)

    async def request(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Send one request over HTTP, and return the answer's JSON; like `HttpChannel.request`."""
        again = may_be_resent(method, how.get("resend"))
        return await self._with_patience(lambda: self.http().request(method, path, body, **how), again=again)

    async def _with_patience(self, ask: Callable[[], Awaitable[R]], *, again: bool) -> R:
        """Send a request; with `again`, repeat it while the server can't reach its database, as while there is none.

        Although that answer says that nothing was done, it is as uncertain as a lost connection: a commit may have
        succeeded unnoticed.
        """
        since = monotonic()
        for delay in delays():
            try:
                answer = await ask()
            except StoreUnavailable as error:
                left = since + self._patience - monotonic()
                if not again or left <= 0:
                    raise
                self._waits.say(error, "trying again")
            else:
                self._waits.over()
                return answer
            await asyncio.sleep(min(delay, left))
        raise AssertionError("the delays never end")

    async def _call(self, op: str, body: dict[str, Any], *, resend: bool) -> Any:
        ids = {task["id"] for task in body["tasks"]} if body.get("wait") else set()
        self._being_submitted |= ids
        try:
            if not self.is_plain:
                with contextlib.suppress(SocketRefused):
                    answer = await self._socket().call(op, body, resend=resend)
                    self.waiters.mark_accepted(ids)
                    return answer
            answer = await self.http().call(op, body, resend=resend)
        finally:
            self._being_submitted -= ids
        if ids:
            self.waiters.mark_accepted(ids)
            # Plain HTTP pushes nothing, so their ends have to be asked for.
            self.spawn(self.waiters.ask_again(ids))
        return answer

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task, which ends with the connection at the latest."""
        task = self._group.create_task(in_later_turn(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _run(self) -> None:
        try:
            async with self._group:
                self._started.set()
                try:
                    await self._closing.wait()
                finally:
                    # Also when the loop ends or a background task has failed: start no new tasks while these end.
                    self._closing.set()
                self._tell()
                if self._session is not None:
                    await self._session.close()
                for task in self._background:
                    task.cancel()
        finally:
            self._closing.set()
            self._started.set()
            self._tell()
            if self._http is not None:
                await self._http.close()

    def _tell(self) -> None:
        """Tell everyone who waits that nothing will come any more."""
        self.waiters.close()
        self.watches.close()
        self.batcher.close()

    def unwatch(self, watched: Watched) -> None:
        """Stop watching a task; may be called from any thread."""
        if self.is_open:
            self.loop.call_soon_threadsafe(self._unwatch, watched)

    def _unwatch(self, watched: Watched) -> None:
        if self.is_open:
            self.watches.end(watched)

    def _socket(self) -> "Session":
        if self._session is None:
            from treadle.transport.session import Session

            self._session = Session(
                self._urls,
                self._bearer,
                on_push=self._on_push,
                on_connect=self._on_connect,
                on_down=self._on_down,
                patience=self._patience,
            )
            self.spawn(self._session.run())
        return self._session

    def _on_push(self, item: dict[str, Any]) -> None:
        if item["push"] == "result":
            self.waiters.arrive(item["tasks"])
        elif item["push"] in {"snapshot", "delta"}:
            self.watches.push(item)

    async def _on_connect(self) -> None:
        # Also after plain HTTP: a poll that is under way ends with its answer.
        self.is_plain = False
        await self.watches.again()
        await self._ask_again()

    def _on_down(self, error: TreadleError) -> None:
        if self.is_plain and isinstance(error, ConnectionFailed):
            # Waited-for tasks are polled for, and polling has its own patience.
            return
        if not isinstance(error, SocketRefused):
            self.waiters.fail(error)
            self.watches.fail(error)
            return
        self.is_plain = True
        self.watches.fail(error)
        # Poll for what was to be pushed, until a socket opens.
        self.spawn(self._ask_again())

    async def _ask_again(self) -> None:
        await self.waiters.ask_again(set(self.waiters.ids) - self._being_submitted)

    async def _ask(self, ids: list[str]) -> None:
        if not self.is_plain:
            with contextlib.suppress(SocketRefused):
                answer = await self._socket().call("await", {"ids": ids})
                with reading():
                    # Older servers do not send `missing`.
                    missing = list(map(str, answer.get("missing", ())))
                if missed := self.waiters.miss(missing):
                    await self._socket().call("unawait", {"ids": missed})
                return
        self._polls.begin(ids)


def how_to_open(opening: Connection | None) -> str:
    """Return what to do about a client that is not open, or whose opening can't be used any more."""
    if opening is not None and opening.pid != process_number():
        return f"it was opened in process {opening.pid}, from which this one was forked: open it here too"
    if opening is not None and opening.loop.is_closed():
        return "the event loop in which it was opened has ended: open it in this one, or use a SyncClient"
    return "use it inside `async with client:` (SyncClient: `with client:`), or between its open() and close()"
