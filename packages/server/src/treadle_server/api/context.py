"""What handlers work with: the parts of the application, and one call."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from pydantic import ValidationError
from starlette.requests import Request

from treadle.wire.ids import TaskId, WorkerId, is_uuid
from treadle.wire.tasks import TaskFilter
from treadle_server.access.checks import visibility_of
from treadle_server.access.principal import Principal
from treadle_server.api import body
from treadle_server.api.auth import Access, bearer
from treadle_server.api.catalog import Catalog
from treadle_server.api.problems import from_validation
from treadle_server.api.waits import Waits
from treadle_server.artifacts.artifacts import Artifacts
from treadle_server.domain.tasks import Task
from treadle_server.domain.visibility import Visibility
from treadle_server.engine.engine import Engine
from treadle_server.errors import TaskNotFound, ValidationFailed, WorkerNotFound
from treadle_server.services.absences import Absences
from treadle_server.services.metrics import Metrics
from treadle_server.services.rates import Rates
from treadle_server.services.recent import Recent
from treadle_server.services.run import Services
from treadle_server.settings import Settings
from treadle_server.store.read.filters import seen

MOST_PER_PAGE = 500
DEFAULT_PER_PAGE = 50
MOST_OFFSET = 2**31


class Internal(Protocol):
    """What gives the tasks of `@internal` jobs to their executors."""

    async def handed_over(self, task_ids: Collection[TaskId]) -> dict[TaskId, Task]:
        """Wait until the new tasks are dispatched, and return how they stand then; nothing that can't be read."""
        ...


@dataclass(slots=True)
class Api:
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
    """What runs beside the requests; None until the server has started."""
    internal: Internal | None = None
    """None without executors."""
    document: bytes | None = None
    """The OpenAPI document, made when it is first asked for."""
    absences: Absences = field(init=False)

    def __post_init__(self) -> None:
        self.absences = Absences(self.engine.hub.stream, None if self.engine.store.is_shared else self.started_at)

    def now(self) -> datetime:
        """Return the current instant in UTC."""
        return self.engine.clock.now()


@dataclass(frozen=True, slots=True)
class Call:
    """One request, with who asks and the body as its model."""

    request: Request
    api: Api
    principal: Principal
    body: Any = None

    def path(self, name: str) -> str:
        """Return a part of the path."""
        value: str = self.request.path_params[name]
        return value

    @property
    def visibility(self) -> Visibility | None:
        """Return which rooms the asker reads; None: all."""
        return visibility_of(self.principal)

    @property
    def token(self) -> str | None:
        """Return the token that came with it."""
        return bearer(self.request.headers)

    @property
    def task_id(self) -> TaskId:
        """Return the task's id from the path. Raises `TaskNotFound` when it is no id at all."""
        return task_id_of(self.path("task_id"))

    @property
    def worker_id(self) -> WorkerId:
        """Return the worker's id from the path. Raises `WorkerNotFound` when it is no id at all."""
        return worker_id_of(self.path("worker_id"))

    @property
    def run_id(self) -> int:
        """Return the run's number from the path. Raises `ValidationFailed`."""
        return body.run_number(int(self.request.path_params["run_id"]))

    def limit(self, default: int = DEFAULT_PER_PAGE) -> int:
        """Return the query's `limit`. Raises `ValidationFailed` unless it is 0 to 500."""
        return _number(self.request.query_params, "limit", default, MOST_PER_PAGE)

    def offset(self) -> int:
        """Return the query's `offset`. Raises `ValidationFailed`."""
        return _number(self.request.query_params, "offset", 0, MOST_OFFSET)

    def flag(self, name: str) -> bool | None:
        """Return the query's `name`, true or false; None without it. Raises `ValidationFailed`."""
        text = self.request.query_params.get(name)
        if text is not None and text not in _FLAGS:
            raise ValidationFailed(f"{name}: {text[:40]!r} is neither true nor false")
        return None if text is None else _FLAGS[text]

    def number(self, name: str) -> int | None:
        """Return the query's `name`, a whole number from 0; None without it. Raises `ValidationFailed`."""
        query = self.request.query_params
        return _number(query, name, 0, body.MOST_RUN_ID) if name in query else None

    def text(self, name: str) -> str | None:
        """Return the query's `name`, a text; None without it. Raises `ValidationFailed`."""
        text = self.request.query_params.get(name)
        body.check(text)
        return text or None

    def filter(self, **fixed: Any) -> TaskFilter:
        """Return the filter that the query describes, of what the asker reads. Raises `ValidationFailed`."""
        query = self.request.query_params
        given: dict[str, Any] = {name: query[name] for name in TaskFilter.model_fields if name in query}
        given |= {name: query.getlist(name) for name in _SEVERAL & query.keys()}
        if "status" in query:
            given["status"] = [word for part in query.getlist("status") for word in part.split(",") if word]
        body.check(given)
        try:
            return seen(TaskFilter.model_validate({**given, **fixed}), self.visibility)
        except ValidationError as error:
            raise from_validation(error) from None


_SEVERAL = frozenset({"tag", "not_room", "not_job", "not_target", "not_worker", "not_tag", "not_error"})
"""Parts of a filter that may stand in a query more than once, all of which hold."""

_FLAGS = {"true": True, "false": False}


def task_id_of(text: str) -> TaskId:
    """Return the task's id in lower case. Raises `TaskNotFound` when it is no UUID."""
    if not is_uuid(text.lower()):
        raise TaskNotFound(f"{text[:80]!r} is no task's id: that is a UUID")
    return TaskId(text.lower())


def worker_id_of(text: str) -> WorkerId:
    """Return the worker's id in lower case. Raises `WorkerNotFound` when it is no UUID."""
    if not is_uuid(text.lower()):
        raise WorkerNotFound(f"{text[:80]!r} is no worker's id: that is a UUID")
    return WorkerId(text.lower())


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= most):
        raise ValidationFailed(f"{name}: {text[:40]!r} is not a whole number from 0 to {most}")
    return int(text)
