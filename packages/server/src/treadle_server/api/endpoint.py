"""What an endpoint is: one line of the table in `routes.py`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from treadle_server.access.needs import Needs
from treadle_server.api.context import Call

Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Items:
    """A list in a body of which the handler takes each item by itself: one that is wrong is refused alone."""

    name: str
    outline: type[BaseModel]
    """The body, with whatever stands in the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A method and a path, what they need, and what they take and give."""

    method: str
    path: str
    handler: Handler
    needs: Needs
    """What the gate checks before the handler is called (api/gate.py)."""
    body: type[BaseModel] | None = None
    body_optional: bool = False
    items: Items | None = None
    answer: Any = None
    """The model of the answer, or None when it has no JSON body."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Other statuses of success."""
    problems: tuple[str, ...] = ()
    """Problem types that it may answer beside those of every endpoint."""
    query: tuple[str, ...] = ()
    streams: bool = False
    """Whether the handler reads the body by itself, however large it is."""
    late: timedelta = timedelta(0)
    """How long after its end a credential is still taken, because the command looks at when the run ended."""

    @property
    def is_open(self) -> bool:
        """Return whether it needs no token."""
        return self.needs.is_open

    @property
    def summary(self) -> str:
        """Return the handler's first line."""
        return (self.handler.__doc__ or "").partition("\n")[0]

    @property
    def tag(self) -> str:
        """Return the group in which the document shows it."""
        return self.handler.__module__.rsplit(".", 1)[-1]
