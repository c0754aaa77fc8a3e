"""An endpoint: one line of the table in `routes.py`."""

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
    """A list in a body whose items the handler validates one by one: a wrong item is refused alone."""

    name: str
    outline: type[BaseModel]
    """The body's model, with unvalidated items in the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Operation):
    """An operation of the wire, with its permission and its handler."""

    name: str
    handler: Handler
    permission: Permission
    """What is checked before the handler is called (authorization/authorization.py)."""
    items: Items | None = None
    per_page: int = PAGE
    """How many items a page has, unless the query says otherwise."""
    streams: bool = False
    """Whether the handler reads the body itself, without the limit on bodies."""
    late: timedelta = timedelta(0)
    """How long an expired credential is still accepted, because the command itself checks when the run ended."""

    @classmethod
    def of(cls, name: str, handler: Handler, **more: Any) -> Self:
        """Return the endpoint of the wire's operation `name`; `more` are the fields that only endpoints have."""
        said = {field.name: getattr(OPERATIONS[name], field.name) for field in fields(Operation)}
        if (item := said["item"]) is not None:
            said["answer"] = Page.__class_getitem__(item)
        return cls(**said, name=name, handler=handler, permission=PERMISSIONS[name], **more)

    @property
    def summary(self) -> str:
        """Return the first line of the handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n")[0]

    @property
    def tag(self) -> str:
        """Return the group in which the OpenAPI document shows it."""
        return self.handler.__module__.rsplit(".", 1)[-1]
