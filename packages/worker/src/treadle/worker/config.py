"""The configuration of a worker: its tasks, size, names and server."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treadle.client.names import Names
from treadle.encryption.sealer import Sealer
from treadle.tasks.definition import Task
from treadle.transport.bearer import Bearer
from treadle.version import __version__
from treadle.worker.middleware import Middleware

if TYPE_CHECKING:
    from treadle.settings import Settings

Lifespan = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of a worker: its tasks, size, names and server."""

    tasks: dict[str, Task[..., Any]]
    urls: tuple[str, ...]
    token: Bearer
    concurrency: int
    min_concurrency: int
    prefetch: int | None
    name: str
    group: str | None
    pool: str | None
    lifespan: Lifespan | None
    drain_grace: float
    max_idle: float | None
    replace_schema: bool
    settings: "Settings"
    names: Names
    middleware: tuple[Middleware, ...]
    sealer: Sealer

    def opening(self, worker_id: str, held: list[dict[str, Any]], *, draining: bool) -> dict[str, Any]:
        """Return the body of the socket's `open`: the worker, its jobs, and the runs (`RunRef`) that it has, in `held`.

        `draining` says that it takes no more.
        """
        worker: dict[str, Any] = {
            "id": worker_id,
            "name": self.name,
            "concurrency": self.concurrency,
            "min_concurrency": self.min_concurrency,
            "version": __version__,
            **({"group": self.group} if self.group else {}),
            **({"pool": self.pool} if self.pool else {}),
        }
        jobs = [
            {"room": task.job.room, **task.registration(self.settings, replace=self.replace_schema), "widen": True}
            for task in self.tasks.values()
        ]
        body = {"worker": worker, "jobs": jobs, "links": [], "held": held, "prefetch": self.prefetch}
        return body | ({"draining": True} if draining else {})
