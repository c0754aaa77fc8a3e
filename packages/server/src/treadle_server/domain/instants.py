"""Instants as the server keeps them: in UTC, and within the years that both databases can hold."""

from datetime import UTC, datetime

from treadle.wire.fields import EARLIEST, LATEST
from treadle_server.errors import ValidationFailed


def instant(value: datetime | None, name: str) -> datetime | None:
    """Return the instant in UTC. Raises `ValidationFailed` outside the years 1970 to 9000."""
    if value is None:
        return None
    if not EARLIEST <= value < LATEST:
        raise ValidationFailed(f"{name}: {value.isoformat()} is not between the years 1970 and 9000")
    return value.astimezone(UTC)
