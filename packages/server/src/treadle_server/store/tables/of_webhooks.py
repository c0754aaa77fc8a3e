"""The tables of webhooks and of what is owed to them."""

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

"""Where outcomes of a room's tasks are told; the secret signs what is sent, so it is kept as it is."""

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

"""The outbox: outcomes that are still to be told, and the dead ones, which are not tried any more by themselves.

`next_at` is when it is tried next, or, while a server is at it, when another one may take it over.
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
