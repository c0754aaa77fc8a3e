"""The writer's reads and deletions of artifacts' rows."""

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
    """Return the artifacts that exist, locked for changes."""
    if not keys:
        return []
    columns = tuple_(artifacts.c.task_seq, artifacts.c.run_id, artifacts.c.name)
    # The tasks separately too, because tuples can be looked up in an index only by bitmap scans.
    seqs = artifacts.c.task_seq.in_(sorted({seq for seq, _, _ in keys}))
    statement = ROWS.where(seqs, columns.in_(sorted(keys))).order_by(artifacts.c.id).with_for_update()
    return [Artifact(*row) for row in await tx.connection.execute(statement)]


async def dead_artifacts(tx: Tx, *, expired: datetime, announced: datetime, most: int) -> list[Artifact]:
    """Return up to `most` artifacts that expired by `expired`, or were announced before `announced` and not stored."""
    # Literally as in the partial index, which is not used otherwise.
    is_uploading: ColumnElement[bool] = literal_column("artifacts.state = 'uploading'")
    is_abandoned = and_(is_uploading, artifacts.c.created_at < announced)
    statement = ROWS.where(or_(artifacts.c.expires_at <= expired, is_abandoned)).limit(most)
    return [Artifact(*row) for row in await tx.connection.execute(statement.with_for_update(skip_locked=True))]


async def locations_of_tasks(tx: Tx, seqs: Collection[int]) -> list[str]:
    """Return the locations of the tasks' artifacts: the rows are deleted with the tasks, the objects are not."""
    return [location for (location,) in await _locations.rows(tx, seqs=seqs)]


_locations = Prepared(select(artifacts.c.location).where(is_among(artifacts.c.task_seq, "seqs")))
