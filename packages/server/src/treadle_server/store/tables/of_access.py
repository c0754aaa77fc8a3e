"""The tables of access: tokens, and the keys that sign temporary credentials."""

from sqlalchemy import Boolean, Column, Index, LargeBinary, String, Table

from treadle_server.store.tables.base import metadata
from treadle_server.store.types import Id, Instant, Json

tokens = Table(
    "tokens",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("user", String(255), nullable=False),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("superuser", Boolean, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Index(None, "user"),
)

"""Bearer tokens; only a digest of the secret is kept."""

signing_keys = Table(
    "signing_keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("valid_until", Instant),
)

"""Keys of temporary credentials: the one without `valid_until` signs; the others only verify, until that time."""
