"""Instants as the server keeps them: in UTC, and within the years that every database can hold."""

from datetime import UTC, datetime

from treadle_server.errors import ValidationFailed

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


def instant(value: datetime | None, name: str) -> datetime | None:
    """Return the instant in UTC. Raises `ValidationFailed` outside the years 1970 to 9000."""
    if value is None:
        return None
    if not _EARLIEST <= value < _LATEST:
        raise ValidationFailed(f"{name}: {value.isoformat()} is not between the years 1970 and 9000")
    return value.astimezone(UTC)
