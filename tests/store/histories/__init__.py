"""Databases as earlier versions made them: what each form of a migration said, and rows to fill them with.

0001 had four forms. `first` made what the code's tables were; `second` wrote them out; `third` is the second with TEXT
for JSON on SQLite; the fourth is the file as it stands. `0001-*.sql` are what the first two said to each database.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from treadle_server.store.types import BigKey, Id, Instant, Json

HERE = Path(__file__).parent


def statements(form: str, dialect: str) -> list[str]:
    """Return what made a database at revision 0001 in its `first`, `second` or `third` form."""
    written = "second" if form == "third" else form
    made = (HERE / f"0001-{written}.{dialect}.sql").read_text()
    return (made.replace(" JSON", " TEXT") if form == "third" else made).splitlines()


class Written(str):
    """A JSON text."""

    __slots__ = ()


class Named(str):
    """A UUID."""

    __slots__ = ()


_NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
_LATER = _NOW + timedelta(hours=1)


def _id(n: int) -> Named:
    return Named(f"00000000-0000-7000-8000-{n:012}")


def _task(seq: int, status: str, **more: Any) -> dict[str, Any]:
    plain = {
        "seq": seq,
        "id": _id(seq),
        "job_num": 1,
        "lane": 1,
        "job_name": "@global:tasks:noop",
        "room": "@global",
        "status": status,
        "priority": 0,
        "due_at": _NOW,
        "created_at": _NOW,
        "updated_at": _NOW,
        "payload": Written('{"a": [1, "ü"]}'),
        "content_hash": b"\x00h",
        "submitter": "ann",
        "max_retries": 3,
        "max_requeues": 5,
        "retry_base": 5.0,
        "retry_multiplier": 2.0,
        "retry_randomization": 0.1,
        "lease_seconds": 60.0,
        "start_timeout": 60.0,
        "heartbeat_increment": 60.0,
        "schema_version": 1,
        "weight": 1,
        "on_failure": "hold",
        "blocked": False,
        "version": 1,
        "run_id": -1,
        "unfenced": False,
        "retry_count": 0,
        "requeue_count": 0,
        "cancel_requested": False,
        "settled": False,
        "tags": Written('{"k": "v"}'),
    }
    return plain | more


def named(n: int) -> Named:
    """Return an id."""
    return _id(n)


def completed(seq: int, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row of a task that has completed, and that of its last run."""
    times = {"worker_id": _id(90), "claimed_at": _NOW, "started_at": _NOW}
    task = _task(seq, "completed", **{"run_id": 0, "completed_at": _LATER, **times, **more})
    run = {
        "task_seq": seq,
        "run_id": task["run_id"],
        "status": "completed",
        "ended_at": _LATER,
        "digest": b"d",
        **times,
    }
    return task, run


_LEASE = {"run_id": 0, "worker_id": _id(90), "taken_until": _LATER, "claimed_at": _NOW}

ROWS: dict[str, list[dict[str, Any]]] = {
    "jobs": [
        {
            "num": 1,
            "id": _id(80),
            "room": "@global",
            "category": "tasks",
            "name": "noop",
            "version": 1,
            "schema": Written('{"type": "object"}'),
            "schema_version": 1,
            "defaults": Written("{}"),
            "created_at": _NOW,
            "retain": True,
            "paused": False,
        }
    ],
    "job_schemas": [{"job_num": 1, "version": 1, "schema": Written('{"type": "object"}'), "created_at": _NOW}],
    "lanes": [{"id": 1, "job_num": 1, "room": "@global", "pool": ""}],
    "lane_counts": [{"lane": 1, "status": "pending", "priority": 0, "n": 1}],
    "count_deltas": [{"id": 1, "lane": 1, "status": "pending", "priority": 0, "n": 1}],
    "targets": [{"num": 1, "room": "@global", "name": "press"}],
    "workers": [
        {
            "id": _id(90),
            "owner": "bob",
            "created_at": _NOW,
            "last_heartbeat": _NOW,
            "name": "one",
            "concurrency": 4,
            "min_concurrency": 1,
            "state": "online",
        }
    ],
    "worker_jobs": [{"worker_id": _id(90), "job_num": 1}],
    "tasks": [
        _task(1, "pending", deadline=_LATER, unique_key="only"),
        _task(2, "scheduled", retry_count=1, run_id=0, next_retry_at=_LATER, target_num=1, target="press"),
        _task(3, "claimed", **_LEASE),
        _task(4, "running", started_at=_NOW, timeout=3.5, checkpoint=Written("7"), progress=Written("0.25"), **_LEASE),
        _task(5, "completed", completed_at=_LATER, run_id=0, result=Written("42"), unique_key="only"),
        _task(6, "failed", completed_at=_LATER, run_id=0, reason="error", error="'no'; --", result=Written('"7"')),
        _task(7, "cancelled", completed_at=_LATER, reason="cancelled", result=Written("1.5"), scopes=Written('["a"]')),
        _task(8, "paused", cancel_requested=True, usage=1.25, result=Written("true"), tags=None),
    ],
    "runs": [
        {
            "task_seq": 5,
            "run_id": 0,
            "status": "completed",
            "worker_id": _id(90),
            "claimed_at": _NOW,
            "started_at": _NOW,
            "ended_at": _LATER,
            "digest": b"d",
        },
        {"task_seq": 6, "run_id": 0, "status": "failed", "reason": "error", "claimed_at": _NOW, "ended_at": _LATER},
    ],
    "holds": [{"task_seq": 7, "run_id": 0, "worker_id": _id(90), "target_num": 1, "weight": 1, "until": _LATER}],
    "task_logs": [{"task_seq": 5, "run_id": 0, "line": 1, "at": _NOW, "level": "info", "message": "said"}],
    "task_dependencies": [{"task_seq": 2, "needs_seq": 1}],
    "tokens": [
        {
            "id": _id(70),
            "name": "t",
            "user": "ann",
            "digest": b"\x01",
            "superuser": True,
            "scopes": Written('["*"]'),
            "created_at": _NOW,
        }
    ],
    "artifacts": [
        {
            "id": _id(60),
            "task_seq": 5,
            "run_id": 0,
            "name": "a.txt",
            "content_type": "text/plain",
            "size": 3,
            "location": "x/y",
            "state": "stored",
            "created_at": _NOW,
        }
    ],
    "meta": [{"key": "alive_at", "value": "2026-01-01T12:00:00+00:00"}, {"key": "sole_writer", "value": ""}],
    "webhooks": [
        {
            "id": _id(50),
            "room": "@global",
            "name": "w",
            "url": "https://example.org",
            "secret": "s",
            "statuses": Written('["failed"]'),
            "owner": "ann",
            "created_at": _NOW,
            "updated_at": _NOW,
        }
    ],
    "webhook_deliveries": [
        {
            "id": _id(51),
            "webhook_id": _id(50),
            "task_seq": 6,
            "status": "failed",
            "body": "{}",
            "created_at": _NOW,
            "attempts": 1,
            "next_at": _LATER,
        }
    ],
    "schedules": [
        {
            "id": _id(40),
            "room": "@global",
            "name": "nightly",
            "job_num": 1,
            "payload": Written("{}"),
            "schema_version": 1,
            "template": Written("{}"),
            "cron": "0 3 * * *",
            "zone": "UTC",
            "missed": "late",
            "jitter_seconds": 0.0,
            "paused": False,
            "next_at": _LATER,
            "owner": "ann",
            "created_at": _NOW,
            "version": 1,
        }
    ],
    "schedule_ticks": [{"schedule_id": _id(40), "tick": _NOW, "task_seq": 1}],
    "signing_keys": [{"id": "k1", "secret": b"\x02", "created_at": _NOW}],
}
"""Rows of each table, in an order in which they can be put in."""


def _type(value: object) -> Any:
    kinds = {Written: Json, Named: Id, datetime: Instant(), int: BigKey, bool: sa.Boolean(), bytes: sa.LargeBinary()}
    return kinds.get(type(value))


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value


def put(connection: sa.Connection, name: str, row: dict[str, Any]) -> None:
    """Put a row into the table of this name."""
    table = sa.table(name, *[sa.column(column, _type(value)) for column, value in row.items()])
    connection.execute(table.insert().values({one: _plain(value) for one, value in row.items()}))


def fill(connection: sa.Connection, revision: str) -> dict[str, list[str]]:
    """Put rows into every table that is there, and return their columns.

    Before 0006 nothing could put a schedule in. From 0033 on a task's row is two.
    """
    there = set(sa.inspect(connection).get_table_names())
    columns: dict[str, list[str]] = {}
    for name, rows in ROWS.items():
        if name not in there or (name == "schedules" and revision < "0006"):
            continue
        columns[name] = _columns(connection, name)
        for row in rows:
            own = {column: value for column, value in row.items() if column in columns[name]}
            put(connection, name, own)
            if own != row:
                specs = _columns(connection, "task_specs")
                put(connection, "task_specs", {column: value for column, value in row.items() if column in specs})
    return columns


def _columns(connection: sa.Connection, name: str) -> list[str]:
    return [one["name"] for one in sa.inspect(connection).get_columns(name)]


def _from(connection: sa.Connection, name: str) -> sa.TextClause | sa.TableClause:
    """Return where a table's rows stand: of tasks what they are to do has gone into another table since."""
    if name != "tasks" or "task_specs" not in sa.inspect(connection).get_table_names():
        return sa.table(name)
    own = ", ".join(name for name in _columns(connection, "task_specs") if name not in {"job_num", "room"})
    return sa.text(f"tasks JOIN (SELECT {own} FROM task_specs) AS specs USING (seq)")


def read(connection: sa.Connection, columns: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the rows as texts: what a number, a JSON or an instant is kept as is the schema's affair."""
    found = {}
    for name, names in columns.items():
        rows = connection.execute(sa.select(*[sa.column(one) for one in names]).select_from(_from(connection, name)))
        found[name] = sorted(str(tuple(map(str, row))) for row in rows)
    return found
