"""One call over HTTP: the request with its principal, path, query and body."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request

from treadle.wire.filters import SEVERAL, TaskFilter
from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.pages import MOST_OF_PAGE, PAGE
from treadle.wire.reasons import ID_BEGINNING
from treadle_server.access.checks import visibility_of
from treadle_server.access.principal import Principal
from treadle_server.access.tokens import bearer
from treadle_server.domain.visibility import Visibility
from treadle_server.engine.commands.jobs import check_room
from treadle_server.errors import ValidationFailed
from treadle_server.operations import values
from treadle_server.operations.context import OperationContext, task_id_of, worker_id_of
from treadle_server.operations.problems import from_validation
from treadle_server.store.read.filters import seen

MOST_OFFSET = 2**31 - 1
"""The largest step number that PostgreSQL can compare: the offset of a list of steps is one."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, with its principal and the body as a model."""

    request: Request
    ctx: OperationContext
    principal: Principal
    body: Any = None
    per_page: int = PAGE
    """How many items a page of the route has, unless the query says otherwise."""

    def path(self, name: str) -> str:
        """Return a part of the path."""
        value: str = self.request.path_params[name]
        return value

    @property
    def room(self) -> str:
        """Return the room from the path, which routing.py checked before anything else."""
        return self.path("room")

    @property
    def visibility(self) -> Visibility | None:
        """Return the rooms that the principal may read; None: all."""
        return visibility_of(self.principal)

    @property
    def token(self) -> str | None:
        """Return the token of the request."""
        return bearer(self.request.headers)

    def reference(self, path: str) -> str:
        """Return the URL of a path of the server, below the public URL if one is set; that may have a path of its own.

        Otherwise return the path, which the client resolves against the URL of its request.
        """
        return self.ctx.settings.public_url + path

    @property
    def task_id(self) -> TaskId:
        """Return the task's id from the path. Raises `TaskNotFound` if it is not a UUID."""
        return task_id_of(self.path("task_id"))

    @property
    def worker_id(self) -> WorkerId:
        """Return the worker's id from the path. Raises `WorkerNotFound` if it is not a UUID."""
        return worker_id_of(self.path("worker_id"))

    @property
    def run_id(self) -> int:
        """Return the run's number from the path. Raises `ValidationFailed`."""
        return values.run_number(int(self.request.path_params["run_id"]))

    def limit(self) -> int:
        """Return the query's `limit`. Raises `ValidationFailed` unless it is 0 to 500."""
        return _number(self.request.query_params, "limit", self.per_page, MOST_OF_PAGE)

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
        return _number(query, name, 0, values.MOST_RUN_ID) if name in query else None

    def text(self, name: str) -> str | None:
        """Return the query's `name`, a text; None without it. Raises `ValidationFailed`."""
        text = self.request.query_params.get(name)
        values.check(text)
        return text

    def room_meant(self) -> str | None:
        """Return the query's `room`; None without it. Raises `InvalidRoomId`, and `ValidationFailed`."""
        room = self.text("room")
        return None if room is None else check_room(room)

    def id_beginning(self) -> str | None:
        """Return the query's `id`, the beginning of an id; None without it. Raises `ValidationFailed`."""
        text = self.text("id")
        if text is not None and not re.fullmatch(ID_BEGINNING, text):
            raise ValidationFailed(
                f"id: {text[:40]!r} is not the beginning of an id: write hexadecimal digits, with - between them"
            )
        return text

    def filter(self, **fixed: Any) -> TaskFilter:
        """Return the filter that the query describes, of what the principal may read. Raises `ValidationFailed`."""
        query = self.request.query_params
        given: dict[str, Any] = {name: query[name] for name in TaskFilter.model_fields if name in query}
        given |= {name: query.getlist(name) for name in SEVERAL & query.keys()}
        if "status" in query:
            given["status"] = [word for part in query.getlist("status") for word in part.split(",") if word]
        values.check(given)
        try:
            return seen(TaskFilter.model_validate({**given, **fixed}), self.visibility)
        except ValidationError as error:
            raise from_validation(error) from None


_FLAGS = {"true": True, "false": False}


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= most):
        raise ValidationFailed(f"{name}: {text[:40]!r} is not a whole number from 0 to {most}")
    return int(text)
