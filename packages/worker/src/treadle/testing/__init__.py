"""A pytest plugin: a server in this process, its clients, a worker that runs tasks inline, and a clock you can move.

Fixtures: `treadle_server` (with `.url` and `.token`), `treadle_client` (a `SyncClient`), `treadle_async_client` (a
`Client`), `treadle_worker` (creates an `InlineWorker`), `treadle_clock` (the server's clock). Only pytest is imported
until a fixture is used.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.client.sync import SyncClient
    from treadle.tasks.definition import Task
    from treadle.testing.inline import InlineWorker
    from treadle_server.testing import MovableClock


@pytest.fixture
def treadle_server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A real server on a SQLite file of its own; `.url` and `.token` are how to reach it."""
    try:
        from treadle_server.testing import MovableClock, serve_in_thread
    except ImportError as error:
        pytest.fail(f"the fixture {request.fixturename} needs treadle-server: pip install treadle-server ({error})")
    with serve_in_thread(clock=MovableClock()) as server:
        yield server


@pytest.fixture
def treadle_clock(treadle_server: Any) -> "MovableClock":
    """The clock of `treadle_server`: `treadle_clock.move(3600)` lets an hour pass there, with all that is due in it."""
    clock: MovableClock = treadle_server.engine.clock
    return clock


@pytest.fixture
def treadle_client(treadle_server: Any) -> "Iterator[SyncClient]":
    """A blocking client of `treadle_server`."""
    from treadle.client.sync import SyncClient

    with SyncClient(treadle_server.url, treadle_server.token) as client:
        yield client
        # The application under test may have been given this client in place of its own, and have opened it.
        client.close()


@pytest.fixture
def treadle_async_client(treadle_server: Any) -> "Client":
    """A client of `treadle_server` for asynchronous tests: `async with treadle_async_client as client:`."""
    from treadle.client.client import Client

    return Client(treadle_server.url, treadle_server.token)


@pytest.fixture
def treadle_worker(treadle_server: Any) -> "Iterator[Callable[..., InlineWorker]]":
    """Create workers of `treadle_server`: `treadle_worker(my_task).run_all()` runs what is queued, here and now.

    `resources`, `middleware` and `codec` are passed to `InlineWorker`.
    """
    from treadle.testing.inline import InlineWorker

    workers: list[InlineWorker] = []

    def make(*tasks: "Task[..., Any]", **given: Any) -> "InlineWorker":
        worker = InlineWorker(tasks, url=treadle_server.url, token=treadle_server.token, **given)
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.close()
