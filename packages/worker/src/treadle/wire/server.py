"""What the server says of itself, and tokens."""

from typing import Annotated

from pydantic import Field

from treadle.wire.fields import Flag, GivenInstant, Instant, JsonObject, Model, Request, Text
from treadle.wire.reasons import USER_NAME


class Health(Model):
    """Whether the process lives and its services turn."""

    status: str
    version: str
    services: dict[str, str] = Field(default_factory=dict)
    time: Instant | None = None
    """The clock of the server's machine; leases go by the store's, which `Stats` tells."""


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
    """Who the token belongs to."""

    user: str
    superuser: bool
    scopes: list[str]
    may_write: bool = True
    """Whether it may change anything at all; a token whose scopes are those of reading may not."""
    expires_at: Instant | None = None
    """From when on it is nobody's; null: never."""


class RecentEvents(Model):
    """The last transitions in brief, the oldest first."""

    stream: str
    """Names this start of the server."""
    seq: int
    """The number of the last event."""
    limit: int
    items: list[JsonObject]


class KeysRotate(Request):
    """Asks for a new key that signs temporary credentials: `POST /v1/signing-keys`."""

    revoke: Flag = False
    """Whether the old keys, and every credential that they signed, end here and now."""


class SigningKeyItem(Model):
    """A key of temporary credentials, without its secret."""

    id: str
    created_at: Instant
    valid_until: Instant | None = None
    """Until when it verifies; null for the one that signs."""


class SigningKeys(Model):
    """The keys, the newest first."""

    items: list[SigningKeyItem]


class TokenCreate(Request):
    """Makes a token for a user."""

    name: Annotated[str, Field(pattern=USER_NAME)]
    superuser: Flag = False
    scopes: list[Text] | None = Field(default=None, max_length=100)
    """What it may do; left out, it has the rights of a plain user."""
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
    """A token with its secret, which is shown this once."""

    token: str
