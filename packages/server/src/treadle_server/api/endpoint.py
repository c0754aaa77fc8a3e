"""What an endpoint is: one line of the table in `routes.py`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Self

from pydantic import BaseModel
from starlette.responses import Response

from treadle.wire.operations import OPERATIONS, Operation
from treadle.wire.pages import PAGE, Page
from treadle_server.api.call import Call
from treadle_server.authorization.permission import Permission
from treadle_server.authorization.permissions import PERMISSIONS

Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Items:
    """A list in a body of which the handler takes each item by itself: one that is wrong is refused alone."""

    name: str
    outline: type[BaseModel]
    """The body, with whatever stands in the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Operation):
    """An operation of the wire, with what it needs and what answers it."""

    name: str
    handler: Handler
    permission: Permission
    """What the gate checks before the handler is called (access/authorization.py)."""
    items: Items | None = None
    per_page: int = PAGE
    """How many items a page has, unless the query says."""
    streams: bool = False
    """Whether the handler reads the body by itself, however large it is."""
    late: timedelta = timedelta(0)
    """How long after its end a credential is still taken, because the command looks at when the run ended."""

    @classmethod
    def of(cls, name: str, handler: Handler, **more: Any) -> Self:
        """Return the endpoint of the wire's operation of this name; `more` are fields that the server alone has."""
        said = {field.name: getattr(OPERATIONS[name], field.name) for field in fields(Operation)}
        if (item := said["item"]) is not None:
            said["answer"] = Page.__class_getitem__(item)
        return cls(**said, name=name, handler=handler, permission=PERMISSIONS[name], **more)

    @property
    def summary(self) -> str:
        """Return the handler's first line."""
        return (self.handler.__doc__ or "").partition("\n")[0]

    @property
    def tag(self) -> str:
        """Return the group in which the document shows it."""
        return self.handler.__module__.rsplit(".", 1)[-1]
