"""The tables of webhooks and of their deliveries."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint

from treadle_server.store.tables.base import metadata, partial_index
from treadle_server.store.types import Id, Instant, Json

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("room", String(255), nullable=False),
    Column("name", String(64), nullable=False),
    Column("url", Text, nullable=False),
    Column("jobs", Json),
    Column("statuses", Json, nullable=False),
    Column("secret", String(128), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("room", "name"),
)

"""URLs that outcomes of a room's tasks are sent to. The secret signs each request, so it is stored in plain text."""

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("webhook_id", ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), nullable=False),
    Column("status", String(16), nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Instant),
    Column("dead_at", Instant),
    Column("answered", Integer),
    Column("error", Text),
    CheckConstraint("(next_at IS NULL) <> (dead_at IS NULL)", name="waiting_or_dead"),
    Index(None, "task_seq"),
)

"""The outbox: deliveries that wait, and dead ones, which are no longer tried automatically.

`next_at` is the time of the next try or, while a server is trying, the time from which another one may take over.
"""

partial_index(
    "ix_webhook_deliveries_waiting",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.next_at,
    where="next_at IS NOT NULL",
)

partial_index(
    "ix_webhook_deliveries_dead",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.dead_at,
    where="dead_at IS NOT NULL",
)
