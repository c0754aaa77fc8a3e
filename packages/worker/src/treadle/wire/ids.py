"""Identifiers that cross the wire, each with a type of its own so that one is never passed for another."""

import re
import uuid
from typing import Annotated, NewType, TypeAlias

from pydantic import StringConstraints

from treadle.wire.reasons import ID_BEGINNING, UUID

TaskId = NewType("TaskId", str)
"""A task's id, a UUID that its submitter may choose."""
WorkerId = NewType("WorkerId", str)
"""A worker's id, a UUID that the server gives it when it is registered."""
JobId = NewType("JobId", str)
"""A job's id, a UUID of the server's; people call a job by its full name."""
RunId = NewType("RunId", int)
"""The number of an attempt at a task: 0, 1, 2 … With the task's id it is the fencing token of a lease."""

Uuid = Annotated[str, StringConstraints(pattern=UUID, to_lower=True)]
"""A UUID in its canonical text form; read in either case, kept in lower case."""

IdBeginning = Annotated[str, StringConstraints(pattern=ID_BEGINNING, to_lower=True)]
"""The beginning of a UUID, or all of it, with or without dashes."""

GivenId: TypeAlias = str | uuid.UUID
"""An id as a program has it: a string, or the UUID that its database or web framework gives."""


def is_uuid(text: str) -> bool:
    """Return whether `text` is a UUID in its canonical form."""
    return re.fullmatch(UUID, text) is not None


def begins(whole: str, given: str) -> bool:
    """Return whether an id begins with the given text, with or without dashes."""
    return _digits(whole).startswith(_digits(given))


def _digits(text: str) -> str:
    return text.replace("-", "").lower()
