"""The index of tags, the same on both databases: for each task the keys by which filters find it.

A key is a hash of a path and its value (`treadle.wire.tags`), so that an entry takes 16 bytes however long they are. A
collision is less likely than a wrong bit on a disk.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache

from pydantic_core import from_json
from sqlalchemy import delete

from treadle.wire.tags import entries, wanted
from treadle_server.domain.hashes import hashed
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.tables import task_tags
from treadle_server.store.transaction.rows import insert_tuples


def keys_wanted(tag: str) -> list[int]:
    """Return the keys one of which a task must have to match a filter's `path` or `path=value`."""
    return sorted(hashed(*entry) for entry in wanted(tag))


@lru_cache(maxsize=1024)
def _keys(tags: str) -> tuple[int, ...]:
    """Return the keys of tags (JSON text). Cached, because many tasks have the same tags."""
    return tuple(sorted({hashed(*entry) for entry in entries(from_json(tags))}))


async def insert_tags(tx: Tx, tagged: Iterable[Task]) -> None:
    """Add the tags of tasks, which have been inserted already, to the index."""
    rows = ((key, task.seq) for task in tagged if task.tags is not None for key in _keys(task.tags))
    await insert_tuples(tx, task_tags, ("key", "task_seq"), rows)


async def update_tags(tx: Tx, changed: Collection[Task]) -> None:
    """Update the index to the tasks' present tags."""
    if changed:
        await tx.connection.execute(delete(task_tags).where(task_tags.c.task_seq.in_([task.seq for task in changed])))
        await insert_tags(tx, changed)
