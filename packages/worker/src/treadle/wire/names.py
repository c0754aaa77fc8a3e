"""Rooms, categories and job names: how they are written, and which are refused."""

import re
from typing import Annotated, NamedTuple
from urllib.parse import quote
from uuid import UUID

from pydantic import AfterValidator

GLOBAL = "@global"
"""The room whose jobs can be seen from every room."""

INTERNAL = "@internal"
"""The room whose jobs the server's own executors run."""

SHARED_ROOMS = frozenset({GLOBAL, INTERNAL})

MOST_ORIGIN = 1000
"""The most characters of an origin, the function of a job."""

_ROOM = re.compile(r"[^@:/\s\x00-\x1f\x7f][^@:/\x00-\x1f\x7f]{0,254}")
_NAME = re.compile(r"[^/\x00-\x1f\x7f]{1,255}")


class InvalidRoom(ValueError):
    """A room id that is neither `@global`, `@internal` nor free of `@` and `:`."""


class InvalidJobName(ValueError):
    """A job name that is not `{room}:{category}:{name}`."""


class JobName(NamedTuple):
    """A job's full name, `{room}:{category}:{name}`; the last part may contain colons."""

    room: str
    category: str
    name: str

    def __str__(self) -> str:
        return f"{self.room}:{self.category}:{self.name}"


def parse_room(room: str) -> str:
    """Return `room`; raise `InvalidRoom` unless it is `@global`, `@internal`, or a plain id of up to 255 characters."""
    if isinstance(room, str) and (room in SHARED_ROOMS or _ROOM.fullmatch(room)):
        return room
    raise InvalidRoom(
        f"{room!r:.100} is not a room: use @global, @internal, or 1 to 255 characters without '@', ':', '/' and control"
        " characters"
    )


Room = Annotated[str, AfterValidator(parse_room)]
"""A room in a model; an invalid one fails with `InvalidRoom`, which the server distinguishes from other errors."""


def parse_job_name(full_name: str) -> JobName:
    """Split `{room}:{category}:{name}` at its first two colons.

    Raises `InvalidJobName` if a part is missing or empty, or the room is invalid.
    """
    room, _, rest = full_name.partition(":")
    category, _, name = rest.partition(":")
    if not category or not _NAME.fullmatch(name):
        raise InvalidJobName(
            f"{full_name!r} is not a job's full name: write room:category:name, with a name of 1 to 255 characters"
            " without '/' and control characters"
        )
    try:
        return JobName(parse_room(room), category, name)
    except InvalidRoom as error:
        raise InvalidJobName(f"{full_name!r} is not a job's full name: {error}") from None


def path_part(given: str | UUID) -> str:
    """Return a name or id quoted for a URL's path, `.` and `..` too, which clients would resolve."""
    text = str(given)
    return "%2E" * len(text) if text in {".", ".."} else quote(text, safe="@:")


def visible_from(room: str, job_room: str) -> bool:
    """Return whether a job of `job_room` can be seen from `room`, because it is in the same room or a shared one."""
    return job_room == room or job_room in SHARED_ROOMS
