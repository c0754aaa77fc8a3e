"""What failed and where, for each failed run. Of those that failed before, the last run of each failed or waiting task."""

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey, Instant

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_AT_ONCE = 1000
_CLASS = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
_FRAME = re.compile(r'^[ |+]*File "([^"\n]+)", line \d+, in (.+)$', re.MULTILINE)
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^<")
_FAILED = sa.text("""
SELECT t.seq, t.job_num, t.room, t.job_name, t.status, r.run_id, r.reason, r.error, r.traceback, r.ended_at
  FROM tasks AS t JOIN runs AS r ON r.task_seq = t.seq AND r.run_id = t.run_id
 WHERE t.seq > :last AND t.status IN ('failed', 'scheduled', 'pending') AND NOT t.settled
   AND r.status IN ('failed', 'exception')
   AND (r.reason IS NULL OR r.reason NOT IN ('worker-shutdown', 'interrupted', 'returned', 'suspended'))
 ORDER BY t.seq LIMIT :most
""").columns(ended_at=Instant())


def upgrade() -> None:
    table = op.create_table(
        "failures",
        sa.Column("task_seq", BigKey, autoincrement=False, nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("key", BigKey, nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("job_num", BigKey, nullable=False),
        sa.Column("room", sa.String(255), nullable=False),
        sa.Column("is_final", sa.Boolean(), nullable=False),
        sa.Column("kind", sa.String(255), nullable=False),
        sa.Column("place", sa.String(255), nullable=False),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name=op.f("fk_failures_task_seq"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_seq", "run_id", name=op.f("pk_failures")),
    )
    for rows in _failed(op.get_bind()):
        op.get_bind().execute(table.insert(), rows)
    op.create_index(op.f("ix_failures_at"), "failures", ["at", "task_seq"], unique=False)
    op.create_index(op.f("ix_failures_key"), "failures", ["key", "at"], unique=False)
    op.create_index(op.f("ix_failures_job_num"), "failures", ["job_num", "at", "task_seq"], unique=False)
    op.create_index(op.f("ix_failures_room"), "failures", ["room", "at", "task_seq"], unique=False)


def _failed(connection: sa.Connection) -> Iterator[list[dict[str, Any]]]:
    last = -1
    while found := connection.execute(_FAILED, {"last": last, "most": _AT_ONCE}).mappings().all():
        last = found[-1]["seq"]
        yield [_row(one) for one in found]


def _row(run: Any) -> dict[str, Any]:
    kind = run["reason"] or "error"
    if kind == "error" and (named := _CLASS.match(run["error"] or "")) is not None:
        kind = named[1][:255]
    place = _place(run["traceback"] or "") or run["job_name"][:255]
    text = f"{kind}\0{place}".encode("utf-8", "surrogatepass")
    return {
        "task_seq": run["seq"],
        "run_id": run["run_id"],
        "key": int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True),
        "at": run["ended_at"],
        "job_num": run["job_num"],
        "room": run["room"],
        "is_final": run["status"] == "failed",
        "kind": kind,
        "place": place,
    }


def _place(traceback: str) -> str:
    frames = _FRAME.findall(traceback[-20_000:])
    if not frames:
        return ""
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    path, function = (own or frames)[-1]
    tail = "/".join(re.split(r"[/\\]", path)[-2:])
    return f"{tail} in {function}"[:255]


def downgrade() -> None:
    op.drop_table("failures")
