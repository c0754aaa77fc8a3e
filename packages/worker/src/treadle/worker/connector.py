"""Keeps a worker's link up: over the socket if one can be opened, over plain HTTP until then, with the same id."""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from treadle.clock import monotonic
from treadle.errors import (
    NOT_NOW,
    ConnectionFailed,
    ConnectionLost,
    ProblemError,
    SocketRefused,
    TreadleError,
    Unauthorized,
    WorkerNotFound,
)
from treadle.ids import new_worker_id
from treadle.transport.answers import reading
from treadle.transport.bearer import Refusals
from treadle.transport.retries import QuietLog, delays
from treadle.transport.session import Session
from treadle.wire.amounts import counted
from treadle.worker.link import CLAIM_WAIT, HttpLink, Link, Poll, SocketLink
from treadle.worker.reports import AT_ONCE

if TYPE_CHECKING:
    from treadle.worker.config import WorkerConfig
    from treadle.worker.lease import Leases
    from treadle.worker.runner import Runner

log = logging.getLogger("treadle.worker")

LEAVING = CLAIM_WAIT + 2
"""Seconds that the last claim over plain HTTP has to end by itself, once a socket is open."""

Refs = list[dict[str, Any]]


class Connector:
    """Carries what a worker says to the server and what the server pushes to it.

    The session never stops trying to open a socket. While none can be opened, the worker is open over plain HTTP; once
    one is, the last claim over HTTP ends first, and then the socket goes on with the same worker and its leases.

    `online` is set while the worker is open. `on_open` is called with its id each time that it was opened, and
    `on_refused` with the error when a server refuses it.
    """

    def __init__(
        self,
        config: "WorkerConfig",
        leases: "Leases",
        online: asyncio.Event,
        *,
        on_open: Callable[[str], None],
        on_refused: Callable[[TreadleError], None],
        spawn: Callable[[Coroutine[Any, Any, object]], asyncio.Task[object]],
    ) -> None:
        self._config = config
        self._leases = leases
        self._online = online
        self._on_open = on_open
        self._on_refused = on_refused
        self._spawn = spawn
        self._runner: Runner
        # Chosen here, so that repeating an opening whose answer was lost does not create a second worker.
        self.worker_id: str = new_worker_id()
        self._link: Link | None = None
        self._plain: asyncio.Task[object] | None = None
        """The task that works over plain HTTP."""
        self._wants_plain = False
        """Whether no socket could be opened, and none has been since."""
        self._leaves_plain = False
        """Whether a socket is open, which takes over as soon as plain HTTP has ended."""
        self._is_over = False
        self._refusals = Refusals(config.token, config.urls)
        self._waits = QuietLog(log)
        self.has_opened = False
        """Whether a server has ever accepted the worker."""
        self.reports_at_once: int = AT_ONCE
        """How many requests with reports may be under way at once, as the server said."""
        self._session = Session(
            config.urls,
            config.token,
            on_push=self._on_push,
            on_connect=self._open_on_socket,
            on_disconnect=self._on_disconnect,
            on_down=self._on_down,
            patience=math.inf,
            first_patience=math.inf,
            client=config.name,
        )

    async def run(self, runner: "Runner") -> None:
        """Keep the link up, and give claims to the runner, until it is closed or refused."""
        self._runner = runner
        await self._session.run()

    async def close(self) -> None:
        """End the link."""
        self._is_over = True
        await self._session.close()

    @property
    def is_open(self) -> bool:
        """Whether the server has accepted the worker and can be reached."""
        return self._link is not None and self._online.is_set()

    # Requests to the server

    async def reports(self, reports: Refs) -> Refs:
        """Send reports. Raises `ConnectionFailed` and `ProblemError`, as all these requests do."""
        return await self._current_link().reports(reports)

    async def beat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send a heartbeat, a `Heartbeat`, and return its answer.

        Raises `ConnectionFailed` while the worker is not open.
        """
        if not self._online.is_set():
            raise ConnectionFailed("the worker is not open")
        return await self._current_link().beat(body)

    async def reclaim(self, ref: dict[str, Any]) -> dict[str, Any]:
        """Renew one run's lease; the answer has fresh credentials."""
        return await self._current_link().reclaim(ref)

    async def steps(self, ref: dict[str, Any], offset: int) -> dict[str, Any]:
        """Return steps that a run's task keeps, from number `offset` on: `items`, as many as fit, and the `total`."""
        return await self._current_link().steps(ref, offset)

    async def receive(self, body: dict[str, Any]) -> dict[str, Any]:
        """Receive a message by a step of a run."""
        return await self._current_link().receive(body)

    async def give_back(self, refs: Refs) -> None:
        """Hand claims back; those that can't be return when their leases end."""
        try:
            await self._current_link().give_back(refs)
        except TreadleError as error:
            log.info("claims could not be handed back, and will return when their leases end: %s", error)

    async def close_worker(self) -> None:
        """Remove the worker."""
        await self._current_link().close_worker()

    def drop(self) -> None:
        """Break a connection that no longer answers: its other end is gone, although nothing has said so."""
        if self._link is not None:
            self._link.drop()

    def _current_link(self) -> Link:
        if self._link is None:
            raise ConnectionFailed("the worker is not open")
        return self._link

    # The socket

    async def _open_on_socket(self) -> None:
        """Open the worker on this connection; if it breaks meanwhile, go on with the previous link."""
        self._leaves_plain = True
        try:
            await self._leave_plain()
            await self._open(SocketLink(self._session))
            self._wants_plain = False
        except ConnectionFailed:
            # The session is about to reconnect, and to call this again.
            log.debug("the connection broke while the worker was being opened")
        except ProblemError as error:
            self._on_refused(error)
        finally:
            self._leaves_plain = False
            self._work_plainly()

    def _on_disconnect(self) -> None:
        if isinstance(self._link, SocketLink):
            self._online.clear()

    def _on_down(self, error: TreadleError) -> None:
        if isinstance(error, SocketRefused):
            if self._plain is None and not self._is_over:
                log.warning("%s: using plain HTTP until a websocket opens", error)
            self._wants_plain = True
            self._work_plainly()
        elif not (self._is_over or isinstance(error, ConnectionFailed)):
            # A session that was cancelled has not been refused.
            self._on_refused(error)

    def _on_push(self, item: dict[str, Any]) -> None:
        match item["push"]:
            case "claim":
                self._runner.take(item["tasks"], self._session.heard)
            case "cancel" | "pause" | "gone" as why:
                self._leases.stop_runs(item["runs"], why)
                if why == "gone":
                    # A lost run requires a heartbeat: the server gives no new claims before it.
                    self._leases.beat_now()
            case "drain":
                self._leases.drain()

    # Plain HTTP

    def _work_plainly(self) -> None:
        if self._wants_plain and self._plain is None and not (self._leaves_plain or self._is_over):
            self._plain = self._spawn(self._over_http())

    async def _leave_plain(self) -> None:
        """Let the last claim over plain HTTP end, and with it all other requests there."""
        if (plain := self._plain) is None:
            return
        self._runner.freed.set()
        if self._online.is_set():
            await asyncio.wait({plain}, timeout=LEAVING)
        # It ends quickly: requests still under way have a few seconds to complete.
        plain.cancel()
        await asyncio.wait({plain})

    async def _over_http(self) -> None:
        from treadle.transport.http import HttpChannel

        http = HttpChannel(self._config.urls, self._config.token, patience=math.inf)
        link = HttpLink(http)
        try:
            while not self._leaves_plain:
                try:
                    await self._open(link)
                    self._runner.freed.set()
                    await self._poll(link)
                except Unauthorized as error:
                    if self._refusals.is_final():
                        raise
                    self._waits.say(error, self._refusals.then)
                    await asyncio.sleep(1)
        except TreadleError as error:
            self._on_refused(error)
        finally:
            self._online.clear()
            self._link = None
            try:
                if not self._is_over:
                    await link.leave()
            finally:
                await http.close()
                self._plain = None
                self._work_plainly()

    async def _poll(self, link: HttpLink) -> None:
        try:
            await Poll(link, self._runner, self._leases.held, leaves=lambda: self._leaves_plain).run()
        except WorkerNotFound:
            log.warning("the server no longer knows this worker: registering it again")
            self._forget()

    # Either

    async def _open(self, link: Link) -> None:
        """Open the worker, as a new one if the server forgot it. Raises `ConnectionFailed` and `ProblemError`."""
        for delay in delays():
            sent = monotonic()
            try:
                answer = await link.open(self._opening())
            except WorkerNotFound:
                self._forget()
            except NOT_NOW as error:
                self._waits.say(f"the server does not accept the worker yet: {error}", "trying again")
            else:
                try:
                    self._take_answer(answer, sent)
                except ConnectionLost as error:
                    self._waits.say(f"the worker is not open yet: {error}", "trying again")
                else:
                    break
            await asyncio.sleep(delay)
        self._link = link
        self._leases.gets_pushes = isinstance(link, SocketLink)
        self.has_opened = True
        self._online.set()
        self._runner.start_waiting()
        log.info("worker %s is open for %s", self.worker_id, counted(len(self._config.tasks), "job"))
        self._on_open(self.worker_id)

    def _take_answer(self, answer: dict[str, Any], sent: float) -> None:
        """Apply the answer to an opening; raises `ConnectionLost` if it can't be read."""
        with reading():
            self.reports_at_once = max(1, int(answer.get("reports_at_once", AT_ONCE)))
            self._config.names.compare(answer.get("jobs", ()))
            self._leases.apply(answer, sent)

    def _opening(self) -> dict[str, Any]:
        return self._config.opening(self.worker_id, self._leases.refs(), draining=self._leases.is_draining)

    def _forget(self) -> None:
        """Take a new id, since the server has removed the worker, and stop its runs, which are lost."""
        self.worker_id = new_worker_id()
        self._leases.stop_runs(self._leases.refs(), "gone")
