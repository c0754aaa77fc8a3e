"""The index of tags: for each task the keys of all by which a filter finds it, the same on both databases.

A key is a hash of a path and what stands there (`treadle.wire.tags`), so that each takes 16 bytes however long they
are. That two of them have the same is less likely than a wrong bit on a disk.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b

from pydantic_core import from_json
from sqlalchemy import delete

from treadle.wire.tags import Entry, entries, wanted
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.tables import task_tags
from treadle_server.store.transaction.rows import insert_tuples


def key_of(entry: Entry) -> int:
    """Return the key of a path and what stands there: signed, 64 bits."""
    path, word = entry
    text = f"{path}\0{word}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def keys_wanted(tag: str) -> list[int]:
    """Return the keys of which a filter's `path` or `path=value` wants one."""
    return sorted(map(key_of, wanted(tag)))


@lru_cache(maxsize=1024)
def _keys(tags: str) -> tuple[int, ...]:
    """Return the keys of tags, as JSON text: many tasks have the same."""
    return tuple(sorted({key_of(entry) for entry in entries(from_json(tags))}))


async def insert_tags(tx: Tx, tagged: Iterable[Task]) -> None:
    """Put the tags of tasks, which are there by now, into the index."""
    rows = ((key, task.seq) for task in tagged if task.tags is not None for key in _keys(task.tags))
    await insert_tuples(tx, task_tags, ("key", "task_seq"), rows)


async def update_tags(tx: Tx, changed: Collection[Task]) -> None:
    """Have the index say of tasks what their tags are now."""
    if changed:
        await tx.connection.execute(delete(task_tags).where(task_tags.c.task_seq.in_([task.seq for task in changed])))
        await insert_tags(tx, changed)
