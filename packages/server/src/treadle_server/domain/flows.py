"""A flow: tasks that were submitted as one."""

from datetime import datetime
from typing import NamedTuple


class Flow(NamedTuple):
    """A flow, in the room that its tasks were submitted from."""

    id: str
    name: str | None
    room: str
    submitter: str
    created_at: datetime


class FlowWanted(NamedTuple):
    """The flow that a submit names or creates."""

    id: str
    name: str | None = None
