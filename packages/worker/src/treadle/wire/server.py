"""The server's own status, and tokens and signing keys."""

from typing import Annotated

from pydantic import Field

from treadle.wire.fields import Flag, GivenInstant, Instant, JsonObject, Model, Request, Text
from treadle.wire.reasons import USER_NAME


class Health(Model):
    """Whether the process is up and its services are healthy."""

    status: str
    version: str
    services: dict[str, str] = Field(default_factory=dict)
    time: Instant | None = None
    """The clock of the server's machine. Leases follow the database's clock, which `Stats` gives."""


class Stats(Model):
    """Totals over all jobs."""

    counts: dict[str, int]
    jobs: int
    workers: dict[str, int]
    slots: int
    used: int
    server_time: Instant
    version: str
    database: str
    started_at: Instant


class Whoami(Model):
    """The user that the token belongs to."""

    user: str
    superuser: bool
    scopes: list[str]
    may_write: bool = True
    """Whether the token may change anything at all; one with only scopes for reading may not."""
    expires_at: Instant | None = None
    """When the token expires; null: never."""


class RecentEvents(Model):
    """The last transitions in brief, oldest first."""

    stream: str
    """The id of this start of the server."""
    seq: int
    """The number of the last event."""
    limit: int
    items: list[JsonObject]


class KeysRotate(Request):
    """Requests a new key for signing temporary credentials: `POST /v1/signing-keys`."""

    revoke: Flag = False
    """Whether the old keys, and every credential signed with them, become invalid at once."""


class SigningKeyItem(Model):
    """A key of temporary credentials, without its secret."""

    id: str
    created_at: Instant
    valid_until: Instant | None = None
    """Until when the key is accepted; null for the current signing key."""


class SigningKeys(Model):
    """The keys, newest first."""

    items: list[SigningKeyItem]


class TokenCreate(Request):
    """Makes a token for a user."""

    name: Annotated[str, Field(pattern=USER_NAME)]
    superuser: Flag = False
    scopes: list[Text] | None = Field(default=None, max_length=100)
    """What the token may do; left out, it has the rights of a plain user."""
    expires_at: GivenInstant | None = None


class TokenItem(Model):
    """A token, without its secret."""

    id: str
    name: str
    user: str
    superuser: bool
    scopes: list[str]
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None


class NewToken(TokenItem):
    """A token with its secret, which is shown only this once."""

    token: str
