"""The lists of jobs and rooms: a task stands in both from when it is put in until it is removed."""

from collections.abc import Sequence

from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.postgres.changes import Part
from treadle_server.store.sqlite.writer import InlineConnection
from treadle_server.store.transaction.postponed import postpone_beside

_INSERT = "INSERT INTO task_listings (job_num, room, task_seq) SELECT column1, column2, column3 FROM {rows}"
_PG_INSERT = "INSERT INTO task_listings (job_num, room, task_seq) SELECT "
_PG_INSERT_ALIKE = f"{_PG_INSERT} $1::bigint, $2::text, seq FROM unnest($3::bigint[]) AS v (seq)"
_PG_INSERT_MIXED = f"{_PG_INSERT} * FROM unnest($1::bigint[], $2::text[], $3::bigint[])"

DELETE = "DELETE FROM task_listings WHERE job_num = ? AND task_seq = ?"
PG_DELETE = """
DELETE FROM task_listings USING unnest($1::bigint[], $2::bigint[]) AS v (job_num, seq)
 WHERE task_listings.job_num = v.job_num AND task_listings.task_seq = ANY (ARRAY[v.seq])
"""
"""What removes tasks from both lists, each by the number of its job and its own."""

_LISTED = "listed"


async def insert_listings(tx: Tx, new: Sequence[Task]) -> None:
    """List tasks that are put in; on PostgreSQL along with what else the batch changes."""
    if isinstance(tx.connection, InlineConnection):
        tx.connection.run_together(_INSERT, (), [(task.job_num, task.room, task.seq) for task in new])
        return
    seqs = [task.seq for task in new]
    of = {(task.job_num, task.room) for task in new}
    if len(of) == 1:
        part = Part(_LISTED, _PG_INSERT_ALIKE, (*of.pop(), seqs), len(new))
    else:
        jobs, rooms = [task.job_num for task in new], [task.room for task in new]
        part = Part(_LISTED, _PG_INSERT_MIXED, (jobs, rooms, seqs), len(new))
    await postpone_beside(tx, part)
