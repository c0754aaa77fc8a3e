"""The relay, which takes rows out of the outbox in their order and hands them to the server, whatever breaks."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import URL, Engine, Table
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from treadle.client.client import Client
from treadle.errors import TreadleError
from treadle.loops import ended_by
from treadle.outbox.database import Database, Do
from treadle.outbox.handing import HandingOutcome, dependencies, hand_over, leave_dependents
from treadle.outbox.rows import BEFORE_ALL, Row, check_table, last_waiting, note_outcomes, take, waiting_elsewhere
from treadle.outbox.table import TABLE
from treadle.transport.retries import QuietLog, delays
from treadle.wire.amounts import amount

R = TypeVar("R")

log: logging.Logger = logging.getLogger("treadle.outbox")


@dataclass(slots=True)
class Swept:
    """What became of all waiting rows."""

    handed: int = 0
    """How many rows the server has accepted."""
    refused: int = 0
    """How many it refused for good."""
    left: int = 0
    """How many are to be tried again."""
    why: str | None = None
    """Why the last of those has to wait."""

    def add(self, outcome: HandingOutcome) -> None:
        """Add the outcome of a batch."""
        self.handed += len(outcome.handed)
        self.refused += len(outcome.refused)
        self.left += len(outcome.left)
        for _, error in outcome.left[-1:]:
            self.why = str(error)


MOST_ROWS = 1000
"""The most rows of a batch, as many as the client sends in one request."""

PATIENCE = 5.0
"""Seconds for which the relay's own client tries to reach a server before it gives the rows back."""

GRACE = 5.0
"""Seconds that a stopped relay waits for rows that are being handed over."""

NOTING = 2.0
"""Seconds more that it waits for its database to record which rows were handed over."""

_AWAY = (SQLAlchemyError, OSError, TreadleError)
"""Errors of a database or server that is away or not as it should be: the relay waits for both."""


class Relay:
    """Hands over the rows in the outbox of a database, which is an SQLAlchemy engine, async or not, or a URL.

    Run it beside an app in a block, `async with Relay(engine):`, or as the app's `lifespan=relay.lifespan`; on its own
    with `run`, or as `treadle outbox`. `client` is an open client to use; by default the relay opens its own, from
    `TREADLE_URL` and `TREADLE_TOKEN`. `batch` is how many rows are taken at once, and `interval` how many seconds pass
    between two checks when nothing waits.

    A row is deleted once the server has its task. The relay waits for a server or database that is away. If the server
    refuses a row for good, that is recorded in the row and does not affect others. Several relays may run: where the
    database can skip locked rows (PostgreSQL, MySQL, MariaDB) each takes different ones; elsewhere the server
    recognises tasks that it already has.

    Raises `InvalidSetting` for a URL that can't be used, and `ValueError` for numbers out of range. Its own client's
    settings are read when it begins, which raises `InvalidSetting` for invalid ones.
    """

    def __init__(
        self,
        database: Engine | AsyncEngine | URL | str,
        *,
        client: Client | None = None,
        table: Table = TABLE,
        batch: int = 500,
        interval: float = 0.5,
    ) -> None:
        if not 1 <= batch <= MOST_ROWS:
            raise ValueError(f"batch must be a number of rows from 1 to {MOST_ROWS}, not {batch}")
        if not interval > 0:
            raise ValueError(f"interval must be more than 0 seconds, not {amount(interval)}")
        self._database = Database(database)
        self._client = client
        self._table = table
        self._batch = batch
        self._interval = interval
        self._stopping = asyncio.Event()
        self._uses = 0
        self._running: asyncio.Task[None] | None = None
        self._waits = QuietLog(log)

    def __repr__(self) -> str:
        # The password may also be among the parameters, as in libpq's URLs.
        url = self._database.url.difference_update_query(("password", "sslpassword"))
        return f"<Relay of {self._table.fullname} in {url!r}>"

    async def __aenter__(self) -> Self:
        # Here, because in the task an invalid setting would not be noticed before the app ends.
        client = self._usable_client()
        self._stopping = asyncio.Event()
        # Not a task group, which would wrap the errors of the block.
        self._running = asyncio.create_task(self._run(client), name="treadle-outbox")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        running, self._running = self._running, None
        if running is not None:
            await running

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Run beside an app, as its lifespan: `FastAPI(lifespan=relay.lifespan)`."""
        async with self:
            yield

    async def run(self) -> None:
        """Run until `stop` is called; waits for a database or server that is away, and logs that."""
        await self._run(self._usable_client())

    async def _run(self, client: Client) -> None:
        async with self._opened(client):
            log.info("%r is handing over to %r", self, client)
            pauses = delays()
            while not self._stopping.is_set():
                pause = self._interval
                try:
                    swept = await self._in_time(self._sweep(client), GRACE + NOTING)
                except _AWAY as error:
                    self._waits.say(_said(error), "trying again")
                    pause = next(pauses)
                except Exception:
                    # A bug, or a driver's own error: the next turn may well succeed.
                    log.exception("%r has failed; retrying", self)
                    pause = next(pauses)
                else:
                    if swept is None:
                        log.warning(
                            "%r was stopped while handing over rows; the next relay hands them over again", self
                        )
                    elif swept.left:
                        self._waits.say(f"some rows must wait ({swept.why})", "trying again")
                        if swept.handed:
                            pauses = delays()  # rows that need not wait keep coming
                        else:
                            pause = max(pause, next(pauses))
                    else:
                        self._waits.over()
                        pauses = delays()
                        if swept.handed or swept.refused:
                            pause = 0.0  # others may have come meanwhile
                await self._pause(pause)

    async def run_with_signals(self) -> None:
        """Run like `run`, until SIGTERM or SIGINT."""
        with ended_by(self.stop):
            await self.run()

    async def run_once(self) -> Swept:
        """Hand over the rows that are waiting now, and return what became of them.

        Raises `NoOutbox`, what the database raises, `ConnectionFailed`, and a `ProblemError` when the server refuses
        every request.
        """
        client = self._usable_client()
        async with self._opened(client):
            return await self._sweep(client)

    def stop(self) -> None:
        """End, at once while it is waiting, else within some seconds. Call it in the thread in which the relay runs."""
        self._stopping.set()

    def _usable_client(self) -> Client:
        return self._client or Client(patience=PATIENCE, default=False)

    @asynccontextmanager
    async def _opened(self, client: Client) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._database.close)
            if client is not self._client:
                await stack.enter_async_context(client)
            self._uses += 1
            try:
                yield
            finally:
                self._uses -= 1
                if not self._uses:
                    # A stop is over with what it has stopped, and the next use may be in another event loop.
                    self._stopping = asyncio.Event()

    async def _sweep(self, client: Client) -> Swept:
        """Hand over all rows that are waiting now, batch by batch.

        Rows that arrive meanwhile are left for the next turn. If they kept coming, this one would never end, and rows
        that were committed late with an earlier number, or had to wait, would never be looked at again.
        """
        async with self._database.begin() as do:
            await do(check_table, self._table)
            last: int = await do(last_waiting, self._table)
        after, swept = BEFORE_ALL, Swept()
        while after < last and not self._stopping.is_set():
            rows, outcome = await self._hand_batch(client, after, last)
            if not rows:
                break
            after = rows[-1].seq
            swept.add(outcome)
            for row, problem in outcome.refused:
                log.error("task %s of %s was refused: %s", row.id, row.job, problem.get("detail"))
        return swept

    async def _hand_batch(self, client: Client, after: int, last: int) -> tuple[list[Row], HandingOutcome]:
        if self._database.locks:
            async with self._database.begin() as do:
                rows, elsewhere = await self._take(do, after, last)
                outcome = await self._hand(client, rows, elsewhere)
                await do(note_outcomes, self._table, outcome.handed, outcome.refused)
            return rows, outcome
        # Rows are not locked meanwhile, so that no writer has to wait for the server.
        async with self._database.begin() as do:
            rows, elsewhere = await self._take(do, after, last)
        outcome = await self._hand(client, rows, elsewhere)
        async with self._database.begin() as do:
            await do(note_outcomes, self._table, outcome.handed, outcome.refused)
        return rows, outcome

    async def _take(self, do: Do, after: int, last: int) -> tuple[list[Row], set[str]]:
        """Take the next rows, and if some depend on others, the ids of those that wait elsewhere."""
        rows: list[Row] = await do(take, self._table, after, last, self._batch)
        needed = set[str]().union(*map(dependencies, rows))
        return rows, await do(waiting_elsewhere, self._table, rows, needed) if needed else set()

    async def _hand(self, client: Client, rows: list[Row], elsewhere: set[str]) -> HandingOutcome:
        """Hand rows over; if the relay is stopped meanwhile and it takes too long, leave them as they are."""
        if not rows:
            return HandingOutcome()
        behind: list[Row] = []
        ready: list[Row] = []
        for row in rows:
            (behind if dependencies(row) & elsewhere else ready).append(row)
        outcome = await self._in_time(hand_over(client, ready), GRACE) or HandingOutcome()
        leave_dependents(outcome, behind)
        return outcome

    async def _in_time(self, work: Coroutine[Any, Any, R], seconds: float) -> R | None:
        """Do the work; if the relay is stopped, give it so many more seconds, then cancel it and return None."""
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await asyncio.wait({working}, timeout=seconds)
            return working.result() if working.done() else None
        finally:
            for task in (working, stopping):
                task.cancel()
            await asyncio.wait({working, stopping})

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _said(error: BaseException) -> str:
    """Return an error's own message; a database error's without the statement, whose values are private."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return str(cause) or type(cause).__name__
