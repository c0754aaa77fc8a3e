"""Rows of artifacts: what the writer reads, writes and deletes of them."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, and_, literal_column, or_, select, tuple_

from treadle_server.domain.artifacts import ARTIFACT_FIELDS, Artifact
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import artifacts

ROWS = select(*(artifacts.c[name] for name in ARTIFACT_FIELDS))

ArtifactKey = tuple[int, int, str]
"""(task seq, run id, name)."""


async def artifacts_by_key(tx: Tx, keys: Collection[ArtifactKey]) -> list[Artifact]:
    """Return those of the artifacts that there are, to change them."""
    if not keys:
        return []
    columns = tuple_(artifacts.c.task_seq, artifacts.c.run_id, artifacts.c.name)
    # The tasks by themselves, too: along an index tuples are looked up in bitmaps alone.
    seqs = artifacts.c.task_seq.in_(sorted({seq for seq, _, _ in keys}))
    statement = ROWS.where(seqs, columns.in_(sorted(keys))).order_by(artifacts.c.id).with_for_update()
    return [Artifact(*row) for row in await tx.connection.execute(statement)]


async def dead_artifacts(tx: Tx, *, expired: datetime, announced: datetime, most: int) -> list[Artifact]:
    """Return up to `most` artifacts that expired by then, or were announced before then and never stored."""
    # Word by word as in the partial index, which is used only then.
    is_uploading: ColumnElement[bool] = literal_column("artifacts.state = 'uploading'")
    is_abandoned = and_(is_uploading, artifacts.c.created_at < announced)
    statement = ROWS.where(or_(artifacts.c.expires_at <= expired, is_abandoned)).limit(most)
    return [Artifact(*row) for row in await tx.connection.execute(statement.with_for_update(skip_locked=True))]


async def locations_of_tasks(tx: Tx, seqs: Collection[int]) -> list[str]:
    """Return where the objects of the tasks' artifacts are: their rows go with the tasks, the objects do not."""
    return [location for (location,) in await _locations.rows(tx, seqs=seqs)]


_locations = Prepared(select(artifacts.c.location).where(is_among(artifacts.c.task_seq, "seqs")))
