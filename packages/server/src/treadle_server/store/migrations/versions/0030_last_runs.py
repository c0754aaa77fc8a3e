"""The run with which a task completed is told by the task's own row, which has its digest now; `runs` has the others.

Those of older databases are moved where the row tells the same, to the last digit of what the run has used; what it
could not tell stays a row of `runs`. The view `treadle_runs` shows both.
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_RULE = "digest IS NULL OR status = 'completed'"

_USAGE = """
CASE WHEN tasks.usage_before IS NULL THEN tasks.usage
     WHEN tasks.usage > tasks.usage_before THEN tasks.usage - tasks.usage_before END
"""
"""What the run that the task's row tells has used."""

_MOVE = f"""
UPDATE tasks SET digest = runs.digest
  FROM runs
 WHERE runs.task_seq = tasks.seq AND runs.run_id = tasks.run_id AND runs.status = 'completed'
   AND tasks.status = 'completed' AND NOT tasks.settled
   AND runs.digest IS NOT NULL AND runs.reason IS NULL AND runs.error IS NULL AND runs.traceback IS NULL
   AND runs.claimed_at = tasks.claimed_at AND runs.ended_at = tasks.completed_at
   AND runs.started_at {{same}} tasks.started_at AND runs.worker_id {{same}} tasks.worker_id
   AND runs.usage {{same}} ({_USAGE})
"""  # noqa: S608 - this text alone
_DELETE = """
DELETE FROM runs
 WHERE EXISTS (SELECT 1 FROM tasks WHERE seq = task_seq AND tasks.run_id = runs.run_id AND tasks.digest IS NOT NULL)
"""
_MOVE_BACK = f"""
INSERT INTO runs (task_seq, run_id, status, worker_id, usage, claimed_at, started_at, ended_at, digest)
SELECT seq, run_id, status, worker_id, {_USAGE}, claimed_at, started_at, completed_at, digest
  FROM tasks WHERE digest IS NOT NULL
"""  # noqa: S608 - this text alone

_SPENT_BEFORE = """
UPDATE tasks SET usage_before = CASE WHEN runs.usage < tasks.usage THEN tasks.usage - runs.usage END
  FROM runs
 WHERE runs.task_seq = tasks.seq AND runs.run_id = tasks.run_id AND tasks.status = 'completed'
   AND tasks.usage_before = tasks.usage AND runs.usage IS NOT NULL
"""
"""A task that had completed counted its last run among those before; from now on the difference is that run's."""

_VIEW = """
CREATE VIEW treadle_runs AS
SELECT tasks.id AS task_id, job_name AS job, room, run, ended.status, ended.reason, ended.error, traceback,
       coalesce(workers.name, {worker}) AS worker, ended.worker_id, ended.usage, {seconds} AS seconds,
       {times}
FROM {ended} JOIN tasks ON tasks.seq = ended.task_seq LEFT JOIN workers ON workers.id = ended.worker_id
"""
_WRITTEN = """
(SELECT task_seq, run_id AS run, status, reason, error, traceback, worker_id, usage, claimed_at, started_at, ended_at
   FROM runs) AS ended
"""
_ALL = f"""
(SELECT task_seq, run_id AS run, status, reason, error, traceback, worker_id, usage, claimed_at, started_at, ended_at
   FROM runs
  UNION ALL
 SELECT seq, run_id, status, NULL, NULL, NULL, worker_id, {_USAGE}, claimed_at, started_at, completed_at
   FROM tasks WHERE digest IS NOT NULL) AS ended
"""  # noqa: S608 - this text alone


def _show(ended: str) -> None:
    times = ("claimed_at", "started_at", "ended_at")
    if op.get_bind().dialect.name == "sqlite":
        # Microseconds since 1970 there, which nobody reads.
        shown = [f"strftime('%Y-%m-%dT%H:%M:%fZ', ended.{at} / 1e6, 'unixepoch') AS {at}" for at in times]
        seconds, worker = "(ended.ended_at - ended.started_at) / 1e6", "ended.worker_id"
    else:
        shown = [f"ended.{at} AS {at}" for at in times]
        seconds, worker = "extract(epoch FROM ended.ended_at - ended.started_at)", "CAST(ended.worker_id AS text)"
    view = _VIEW.format(times=", ".join(shown), seconds=seconds, worker=worker, ended=ended)
    op.execute(sa.text(view.replace(":", r"\:")))


def upgrade() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    constraint = f" CONSTRAINT ck_tasks_digest_of_completed CHECK ({_RULE})"
    kind = "BLOB" if is_sqlite else "BYTEA"
    op.execute(f"ALTER TABLE tasks ADD COLUMN digest {kind}{constraint}")
    op.execute(_SPENT_BEFORE)
    op.execute(_MOVE.format(same="IS" if is_sqlite else "IS NOT DISTINCT FROM"))
    op.execute(_DELETE)
    op.execute("DROP VIEW treadle_runs")
    _show(_ALL)


def downgrade() -> None:
    op.execute("DROP VIEW treadle_runs")
    op.execute(_MOVE_BACK)
    op.execute("UPDATE tasks SET usage_before = usage WHERE digest IS NOT NULL AND usage IS NOT NULL")
    op.drop_column("tasks", "digest")
    _show(_WRITTEN)
