"""New ids: UUIDv7, so that they sort by the time they were made."""

import uuid_utils

from treadle.wire.ids import TaskId


def new_task_id() -> TaskId:
    """Return a fresh UUIDv7 in its canonical text form."""
    return TaskId(str(uuid_utils.uuid7()))
