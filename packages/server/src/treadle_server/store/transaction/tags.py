"""The index of tags: for each task the keys of all by which a filter finds it, the same on both databases.

A key is a hash of a path and what stands there (`treadle.wire.tags`), so that each takes 16 bytes however long they
are. That two of them have the same is less likely than a wrong bit on a disk.
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
    """Return the keys of which a filter's `path` or `path=value` wants one."""
    return sorted(hashed(*entry) for entry in wanted(tag))


@lru_cache(maxsize=1024)
def _keys(tags: str) -> tuple[int, ...]:
    """Return the keys of tags, as JSON text: many tasks have the same."""
    return tuple(sorted({hashed(*entry) for entry in entries(from_json(tags))}))


async def insert_tags(tx: Tx, tagged: Iterable[Task]) -> None:
    """Put the tags of tasks, which are there by now, into the index."""
    rows = ((key, task.seq) for task in tagged if task.tags is not None for key in _keys(task.tags))
    await insert_tuples(tx, task_tags, ("key", "task_seq"), rows)


async def update_tags(tx: Tx, changed: Collection[Task]) -> None:
    """Have the index say of tasks what their tags are now."""
    if changed:
        await tx.connection.execute(delete(task_tags).where(task_tags.c.task_seq.in_([task.seq for task in changed])))
        await insert_tags(tx, changed)
