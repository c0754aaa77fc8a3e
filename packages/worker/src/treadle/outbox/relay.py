"""The relay: takes rows out of the outbox in their order and hands them over to the server, whatever breaks."""

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
from treadle.outbox.database import Database
from treadle.outbox.handing import HandingOutcome, hand_over
from treadle.outbox.rows import BEFORE_ALL, Row, check_table, last_waiting, note_outcomes, take
from treadle.outbox.table import TABLE
from treadle.transport.retries import QuietLog, delays
from treadle.wire.amounts import amount

R = TypeVar("R")

log: logging.Logger = logging.getLogger("treadle.outbox")


@dataclass(slots=True)
class Swept:
    """What became of all rows that waited."""

    handed: int = 0
    """How many the server has."""
    refused: int = 0
    """How many it refused for good."""
    left: int = 0
    """How many are to be tried again."""
    why: str | None = None
    """Why the last of those must wait."""

    def add(self, outcome: HandingOutcome) -> None:
        """Count what became of a batch."""
        self.handed += len(outcome.handed)
        self.refused += len(outcome.refused)
        self.left += len(outcome.left)
        for _, error in outcome.left[-1:]:
            self.why = str(error)


MOST_ROWS = 1000
"""Of a batch: what the client sends in one request."""

PATIENCE = 5.0
"""Seconds that a client of the relay's own tries to reach a server before the rows are let go."""

GRACE = 5.0
"""Seconds that a relay which is stopped waits for what is being handed over."""

NOTING = 2.0
"""Seconds more that it waits for its database, to take note of what was handed over."""

_AWAY = (SQLAlchemyError, OSError, TreadleError)
"""What a database or a server raises that is away, or not as it should be: both are waited for."""


class Relay:
    """Hands over what stands in the outbox of a database: an engine of SQLAlchemy's, async or not, or a URL.

    Beside an app it runs in a block, `async with Relay(engine):`, or as the app's `lifespan=relay.lifespan`; alone by
    `run`, or as `treadle outbox`. `client` is the open client to hand over with; left out, the relay opens one of its
    own, by `TREADLE_URL` and `TREADLE_TOKEN`. `batch` is how many rows are taken at once, and `interval` how many
    seconds pass between two looks when nothing waits.

    A row is deleted once the server has its task. A server or database that is away is waited for. What the server
    refuses for good is noted in its row and harms no other. Several relays may run: where the database can skip locked
    rows (PostgreSQL, MySQL, MariaDB) each takes others, elsewhere the server finds that it has them already.

    Raises `InvalidSetting` for a URL that can't be used, and `ValueError` for numbers out of bounds.
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
            raise ValueError(f"batch is how many rows are taken at once, from 1 to {MOST_ROWS}, not {batch}")
        if not interval > 0:
            raise ValueError(f"interval is the time between two looks in seconds, more than 0, not {amount(interval)}")
        self._database = Database(database)
        self._client = client
        self._table = table
        self._batch = batch
        self._interval = interval
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._waits = QuietLog(log)

    def __repr__(self) -> str:
        # The password may stand among the parameters too, as in libpq's URLs.
        url = self._database.url.difference_update_query(("password", "sslpassword"))
        return f"<Relay of {self._table.fullname} in {url!r}>"

    async def __aenter__(self) -> Self:
        self._stopping = asyncio.Event()
        # No task group: it would wrap the errors of the block.
        self._running = asyncio.create_task(self.run(), name="treadle-outbox")
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
        """Run until `stop` is called; a database or a server that is away is waited for, and told in the log."""
        async with self._opened() as client:
            log.info("%r hands over to %r", self, client)
            pauses = delays()
            while not self._stopping.is_set():
                pause = self._interval
                try:
                    swept = await self._in_time(self._sweep(client), GRACE + NOTING)
                except _AWAY as error:
                    self._waits.say(_said(error), "trying again")
                    pause = next(pauses)
                except Exception:
                    # A defect, or a driver's own error: the next turn may well do.
                    log.exception("%r has failed; trying again", self)
                    pause = next(pauses)
                else:
                    if swept is None:
                        log.warning("%r has ended in the midst of rows; what it left there is handed over again", self)
                    elif swept.left:
                        self._waits.say(f"some rows must wait ({swept.why})", "trying again")
                        pause = max(pause, next(pauses))
                    else:
                        self._waits.over()
                        pauses = delays()
                        if swept.handed or swept.refused:
                            pause = 0.0  # others may have come meanwhile
                await self._pause(pause)

    async def run_with_signals(self) -> None:
        """Do as `run`, until SIGTERM or SIGINT."""
        with ended_by(self.stop):
            await self.run()

    async def run_once(self) -> Swept:
        """Hand over what waits at this moment, and return what became of it.

        Raises `NoOutbox`, what the database raises, `ConnectionFailed`, and the `ProblemError` of a server that refuses
        whatever comes.
        """
        async with self._opened() as client:
            return await self._sweep(client)

    def stop(self) -> None:
        """End, at once while it waits; what is being handed over has some seconds to end. In the relay's own thread."""
        self._stopping.set()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Client]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._database.close)
            if self._client is not None:
                yield self._client
            else:
                yield await stack.enter_async_context(Client(patience=PATIENCE, default=False))

    async def _sweep(self, client: Client) -> Swept:
        """Hand over all that waits by now, batch by batch.

        What comes meanwhile is left for the next turn: where it kept coming this one would not end, and what was
        committed behind its back, with an earlier number, or had to wait, would never be seen again.
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
                log.error("the task %s of %s is refused: %s", row.id, row.job, problem.get("detail"))
        return swept

    async def _hand_batch(self, client: Client, after: int, last: int) -> tuple[list[Row], HandingOutcome]:
        if self._database.locks:
            async with self._database.begin() as do:
                rows: list[Row] = await do(take, self._table, after, last, self._batch)
                outcome = await self._hand(client, rows)
                await do(note_outcomes, self._table, outcome.handed, outcome.refused)
            return rows, outcome
        # Nobody may have to wait for the server in order to write: the rows are not held meanwhile.
        async with self._database.begin() as do:
            rows = await do(take, self._table, after, last, self._batch)
        outcome = await self._hand(client, rows)
        async with self._database.begin() as do:
            await do(note_outcomes, self._table, outcome.handed, outcome.refused)
        return rows, outcome

    async def _hand(self, client: Client, rows: list[Row]) -> HandingOutcome:
        """Hand rows over; when the relay is stopped meanwhile and that takes long, leave them as they are."""
        if not rows:
            return HandingOutcome()
        return await self._in_time(hand_over(client, rows), GRACE) or HandingOutcome()

    async def _in_time(self, work: Coroutine[Any, Any, R], seconds: float) -> R | None:
        """Do the work; when the relay is stopped meanwhile, and these seconds pass, cancel it and return None."""
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
    """Return an error's own words; of the database's without the statement, whose values are nobody's business."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return str(cause) or type(cause).__name__
