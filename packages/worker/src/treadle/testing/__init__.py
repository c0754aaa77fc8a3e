"""A pytest plugin: a server in this process, a client of it, and a worker that runs tasks inline.

Fixtures: `treadle_server` (`.url`, `.token`), `treadle_client` (a `SyncClient`), `treadle_worker` (makes an
`InlineWorker`). Nothing but pytest is imported before a fixture is used.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from treadle.client.sync import SyncClient
    from treadle.tasks.definition import Task
    from treadle.testing.inline import InlineWorker


@pytest.fixture
def treadle_server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A real server on a SQLite file of its own; `.url` and `.token` say how to reach it."""
    try:
        from treadle_server.testing import serve_in_thread
    except ImportError as error:
        pytest.fail(f"the fixture {request.fixturename} needs treadle-server: pip install treadle-server ({error})")
    with serve_in_thread() as server:
        yield server


@pytest.fixture
def treadle_client(treadle_server: Any) -> "Iterator[SyncClient]":
    """A blocking client of `treadle_server`."""
    from treadle.client.sync import SyncClient

    with SyncClient(treadle_server.url, treadle_server.token) as client:
        yield client


@pytest.fixture
def treadle_worker(treadle_server: Any) -> "Iterator[Callable[..., InlineWorker]]":
    """Make workers of `treadle_server`: `treadle_worker(my_task).run_all()` runs what is queued, here and now."""
    from treadle.testing.inline import InlineWorker

    workers: list[InlineWorker] = []

    def make(*tasks: "Task[..., Any]") -> "InlineWorker":
        worker = InlineWorker(tasks, url=treadle_server.url, token=treadle_server.token)
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.close()
