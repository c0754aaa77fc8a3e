"""The tables of tasks' steps, and of messages sent to tasks."""

from sqlalchemy import CheckConstraint, Column, Double, ForeignKey, Integer, String, Table, UniqueConstraint

from treadle_server.store.tables.base import either, metadata, partial_index
from treadle_server.store.types import Instant, Json

task_steps = Table(
    "task_steps",
    metadata,
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("name", String(255), nullable=False),
    Column("occurrence", Integer, nullable=False),
    Column("kind", String(8), nullable=False),
    Column("function", String(255)),
    Column("run_id", Integer, nullable=False),
    Column("result", Json),
    Column("at", Instant, nullable=False),
    Column("seconds", Double),
    Column("until", Instant),
    Column("received_at", Instant),
    UniqueConstraint("task_seq", "name", "occurrence"),
    CheckConstraint(either("kind", "call", "sleep", "receive"), name="kind_known"),
)

"""Steps that a task's code has completed once, in the order in which they were saved; `tasks.steps` is their number."""

task_messages = Table(
    "task_messages",
    metadata,
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("name", String(255), nullable=False),
    Column("id", String(255), nullable=False),
    Column("data", Json),
    Column("sender", String(255), nullable=False),
    Column("sent_at", Instant, nullable=False),
    Column("step", Integer),
    UniqueConstraint("task_seq", "name", "id"),
)

"""Messages in order of arrival; `step` is the number of the step that received one, null while it waits."""

partial_index(
    "ix_task_messages_waiting",
    task_messages.c.task_seq,
    task_messages.c.name,
    task_messages.c.number,
    where="step IS NULL",
)
