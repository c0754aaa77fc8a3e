"""The parts of the application that operations use, and the parsing of ids."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from treadle.wire.ids import TaskId, WorkerId, is_uuid
from treadle_server.access.tokens import Access
from treadle_server.artifacts.artifacts import Artifacts
from treadle_server.domain.tasks import Task
from treadle_server.engine.engine import Engine
from treadle_server.errors import NOT_STARTED, TaskNotFound, WorkerNotFound
from treadle_server.operations.arriving import Arriving
from treadle_server.operations.catalog import Catalog
from treadle_server.operations.waits import Waits
from treadle_server.services.absences import Absences
from treadle_server.services.base import Health, Service, supervise
from treadle_server.services.metrics import Metrics
from treadle_server.services.rates import Rates
from treadle_server.services.recent import Recent
from treadle_server.services.run import Services
from treadle_server.settings import Settings


class Internal(Protocol):
    """Hands the tasks of `@internal` jobs to their executors."""

    async def handed_over(self, task_ids: Collection[TaskId]) -> dict[TaskId, Task]:
        """Wait until the new tasks are dispatched, and return them; those that can't be read are left out."""
        ...


@dataclass(slots=True)
class OperationContext:
    """The parts of the application that handlers use."""

    settings: Settings
    engine: Engine
    access: Access
    catalog: Catalog
    waits: Waits
    rates: Rates
    recent: Recent
    metrics: Metrics
    artifacts: Artifacts
    started_at: datetime
    services: Services | None = None
    """The background services; None until the server has started."""
    internal: Internal | None = None
    """None if the server has no executors."""
    absences: Absences = field(init=False)
    arriving: Arriving = field(init=False)

    def __post_init__(self) -> None:
        self.arriving = Arriving(self.settings.max_body_bytes)
        self.absences = Absences(self.engine.hub, None if self.engine.store.is_shared else self.started_at)

    async def supervised(self, service: Service) -> None:
        """Run a service for ever in the background; `states` reports its health with the others."""
        health = Health(service.name) if self.services is None else self.services.add(service.name)
        await supervise(service, health, self.engine.clock)

    def states(self) -> dict[str, str]:
        """Return each service's state: `ok`, `standby` while another server does its work, `starting`, or its error.

        `store` is the service that tries to write; it also has the error of a write that has failed since.
        """
        if self.services is None:
            return {"server": NOT_STARTED}
        told = {"store": self.engine.trouble.detail} if self.engine.trouble is not None else {}
        return {name: one.state for name, one in self.services.health.items()} | told

    def now(self) -> datetime:
        """Return the current instant in UTC."""
        return self.engine.clock.now()


def task_id_of(text: str) -> TaskId:
    """Return the task's id in lower case. Raises `TaskNotFound` if it is not a UUID."""
    if not is_uuid(text.lower()):
        raise TaskNotFound(f"{text[:80]!r} is not a task id: write a UUID")
    return TaskId(text.lower())


def worker_id_of(text: str) -> WorkerId:
    """Return the worker's id in lower case. Raises `WorkerNotFound` if it is not a UUID."""
    if not is_uuid(text.lower()):
        raise WorkerNotFound(f"{text[:80]!r} is not a worker id: write a UUID")
    return WorkerId(text.lower())
