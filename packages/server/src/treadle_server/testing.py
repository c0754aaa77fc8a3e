"""A real server for tests: in this process, on a free port, with a temporary directory."""

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from treadle.wire.amounts import in_seconds
from treadle_server.app import create_app
from treadle_server.clock import Clock, SystemClock
from treadle_server.engine.commands import (
    ExpireLeases,
    FireDue,
    MissDeadlines,
    OpenLimits,
    PromoteDue,
    ReleaseHolds,
    RestampPresent,
)
from treadle_server.engine.engine import Engine
from treadle_server.internal.executors import Executors
from treadle_server.serving.server import Server, listen, url_of
from treadle_server.settings import Settings, sqlite_url
from treadle_server.store.store import SqlStore

_ISOLATED: dict[str, Any] = {
    "host": "127.0.0.1",
    "port": 0,
    "metrics_port": None,
    "public_url": "",
    "tls_cert": None,
    "tls_key": None,
    "database_direct_url": "",
    "artifacts": "",
}
"""Its own address and stores, whatever the environment says about another server."""

_empty_database: list[bytes] = []
"""An empty database, once one was made in this process: that takes 110 ms, and the rest of a start 45."""


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    url: str
    token: str
    app: Starlette
    engine: Engine
    settings: Settings

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers with which requests are the superuser's."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class MovableClock(SystemClock):
    """The machine's clocks, moved forward by hand: pass it to `serve` or `serve_in_thread` as `clock`."""

    def __init__(self) -> None:
        self._ahead = timedelta(0)
        self._server: tuple[asyncio.AbstractEventLoop, Engine] | None = None

    def now(self) -> datetime:
        """Return the instant that the server takes for the current one, in UTC."""
        return super().now() + self._ahead

    def monotonic(self) -> float:
        """Return monotonic seconds from an arbitrary start, including those moved forward."""
        return super().monotonic() + self._ahead.total_seconds()

    def move(self, time: float | timedelta) -> None:
        """Move the server's clock forward, by seconds or a `timedelta`, and do what is due by then.

        Afterwards delays and retries are over, leases have expired, deadlines are missed, tasks that waited for a
        limit's rate are released, and each schedule has submitted one task for the ticks that have passed; none of
        these tasks has run yet. Workers never become lost by this, only the runs that they hold. Call it from another
        thread than the server's; in that one, `await moved(…)`. Raises `ValueError` for a negative time, and
        `RuntimeError` if no server runs on this clock, or in the server's own thread.
        """
        loop, _ = self._served()
        if asyncio._get_running_loop() is loop:  # noqa: SLF001 - get_running_loop raises where there is none
            raise RuntimeError("the server runs in this thread, which move() would block: await clock.moved(...)")
        asyncio.run_coroutine_threadsafe(self.moved(time), loop).result()

    async def moved(self, time: float | timedelta) -> None:
        """Do the same as `move`, from the server's own thread.

        Raises `ValueError` for a negative time, and `RuntimeError` if no server runs on this clock.
        """
        _, engine = self._served()
        by = time if isinstance(time, timedelta) else timedelta(seconds=time)
        if by < timedelta(0):
            raise ValueError(f"a clock can only be moved forward, not by {in_seconds(by.total_seconds())}")
        self._ahead += by
        # All are queued before anything else sees the new time: the sweeper would extend what is overdue.
        _, _, _, after = await asyncio.gather(
            engine.run(MissDeadlines()),
            engine.run(ExpireLeases(grace=0)),
            engine.run(ReleaseHolds(self.now())),
            engine.run(RestampPresent()),
        )
        while after is not None:
            after = await engine.run(RestampPresent(after))
        for more in (MissDeadlines, ExpireLeases, FireDue, PromoteDue, OpenLimits):
            while await engine.run(more()):
                pass

    def _served(self) -> tuple[asyncio.AbstractEventLoop, Engine]:
        if self._server is None:
            raise RuntimeError("no server runs on this clock: pass it to serve() or serve_in_thread() as `clock`")
        return self._server

    @contextlib.contextmanager
    def serving(self, engine: Engine) -> Iterator[None]:
        """Make this the clock of the engine, which runs in this thread, during the block."""
        self._server = asyncio.get_running_loop(), engine
        try:
            yield
        finally:
            self._server = None


@contextlib.asynccontextmanager
async def serve(
    database_url: str | None = None,
    *,
    clock: Clock | None = None,
    internal: Executors | None = None,
    **settings: Any,
) -> AsyncIterator[Served]:
    """Serve during the block. `settings` are those of `treadle_server.settings.Settings`.

    `internal` runs the tasks of `@internal` jobs: a `treadle.internal.InternalRegistry`.

    Without `database_url` tasks are kept in SQLite in a temporary directory, which is removed at the end; without
    `artifacts` these are kept there too. Settings that are not given come from `TREADLE_*` in the environment, except
    those for the server's address and stores.
    """
    with contextlib.ExitStack() as stack:
        if "data_dir" not in settings:
            settings["data_dir"] = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="treadle-")))
        if database_url is None:
            database = Path(settings["data_dir"]) / "treadle.db"
            if not _empty_database:
                await _make_empty_database()
            _write_empty_database(database)
            database_url = sqlite_url(database)
        chosen = Settings(**{**_ISOLATED, "database_url": database_url, **settings})
        app = create_app(chosen, clock=clock, internal=internal)
        listener = stack.enter_context(contextlib.closing(listen(chosen.host, chosen.port)))
        server = Server(app, chosen)
        # No task group: it would wrap the block's errors, which tests check.
        serving = asyncio.create_task(server._serve([listener]), name="server")  # noqa: SLF001 - serve() takes the signals
        await server.until_started(serving)
        if isinstance(clock, MovableClock):
            stack.enter_context(clock.serving(app.state.ctx.engine))
        try:
            token = chosen.token_file.read_text().strip() if chosen.auth == "token" else ""
            yield Served(url_of(listener, chosen), token, app, app.state.ctx.engine, chosen)
        finally:
            server.stop()
            await serving


async def _make_empty_database() -> None:
    """Make an empty database with all migrations, and keep its bytes in `_empty_database`."""
    with tempfile.TemporaryDirectory(prefix="treadle-") as directory:
        store = SqlStore(sqlite_url(Path(directory, "treadle.db")))
        await store.open()
        await store.close()
        _empty_database.append(await asyncio.to_thread(Path(directory, "treadle.db").read_bytes))


def _write_empty_database(path: Path) -> None:
    """Write an empty database unless there is one."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(_empty_database[0])


@contextlib.contextmanager
def serve_in_thread(database_url: str | None = None, **settings: Any) -> Iterator[Served]:
    """Serve in a thread during the block, for tests and scripts that are not asynchronous. Otherwise as `serve`.

    Raises the server's error if it fails to start or to end.
    """
    started: threading.Event = threading.Event()
    found: list[Served] = []
    errors: list[BaseException] = []
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        ended = asyncio.Event()
        async with serve(database_url, **settings) as served:
            stop.append((asyncio.get_running_loop(), ended))
            found.append(served)
            started.set()
            await ended.wait()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, name="treadle-server")
    thread.start()
    started.wait()
    try:
        if errors:
            raise errors[0]
        yield found[0]
    finally:
        for loop, ended in stop:
            loop.call_soon_threadsafe(ended.set)
        thread.join()
    if errors:
        raise errors[0]
