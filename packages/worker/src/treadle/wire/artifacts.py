"""Artifacts: named files that runs upload."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from treadle.wire.fields import GivenInstant, Instant, Model, Request
from treadle.wire.reasons import SHA256

LONGEST_NAME = 255
"""The most characters of an artifact's name."""

ARTIFACTS_AT_ONCE = 100
"""How many artifacts of a task an observer is shown: those of its last runs."""

_MEDIA_TYPE = re.compile(r"[a-zA-Z0-9!#$&^_.+-]+/[a-zA-Z0-9!#$&^_.+-]+(?: *;[ -~]*)?")
"""The value becomes a header, so it is one line of ASCII."""


def check_artifact_name(name: str) -> str:
    """Return the name of an artifact. Raises `ValueError` unless it can be a relative path everywhere.

    That is 1 to 255 printable characters, with `/` between segments of which none is empty, `.` or `..`, and no
    backslash.
    """
    if not 0 < len(name) <= LONGEST_NAME:
        raise ValueError(f"has {len(name)} characters; an artifact's name must have 1 to {LONGEST_NAME}")
    if not name.isprintable():
        raise ValueError("contains a control or other unprintable character; remove it")
    if "\\" in name:
        raise ValueError("contains a backslash; separate segments with /")
    for segment in name.split("/"):
        if segment in {"", ".", ".."}:
            raise ValueError(
                f"has the segment {segment!r}; a name is a relative path without empty segments, '.' and '..'"
            )
    return name


def check_media_type(text: str) -> str:
    """Return a media type such as `text/csv; charset=utf-8`. Raises `ValueError` for anything else."""
    if not _MEDIA_TYPE.fullmatch(text):
        raise ValueError("is not a media type; write one such as text/plain or application/octet-stream")
    return text


ArtifactName = Annotated[str, AfterValidator(check_artifact_name)]
"""An artifact's name, as checked by `check_artifact_name`."""
MediaType = Annotated[str, StringConstraints(min_length=3, max_length=255), AfterValidator(check_media_type)]
"""A media type, such as `text/plain; charset=utf-8`."""
Sha256 = Annotated[str, StringConstraints(pattern=SHA256)]
"""A digest of 64 lower-case hexadecimal digits."""


class ArtifactCreate(Request):
    """Announces an upload: `POST /v1/tasks/{task_id}/runs/{run_id}/artifacts`."""

    name: ArtifactName
    content_type: MediaType = "application/octet-stream"
    content_length: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
    """Bytes; the upload must have exactly so many."""
    sha256: Sha256 | None = None
    """The digest that the uploaded bytes must have; left out, the server only computes it."""
    expires_at: GivenInstant | None = None
    """When the artifact is deleted; left out, after the server's default time, or with its task."""


class ArtifactItem(Model):
    """A stored artifact."""

    name: str
    run_id: int
    content_type: str
    size: int
    """Bytes."""
    sha256: str | None = None
    created_at: Instant
    expires_at: Instant | None = None
    """When the artifact is deleted; null: with its task."""


class ArtifactUpload(Model):
    """An announced upload, and where to put its bytes."""

    name: str
    run_id: int
    content_type: str
    content_length: int
    sha256: str | None = None
    expires_at: Instant | None = None
    stored: ArtifactItem | None = None
    """The artifact, if it is already stored and there is nothing to upload."""
    put_url: str | None = None
    """Where to PUT the bytes, without a token; null when they are stored."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers that the PUT must have."""
    finish_url: str | None = None
    """Where to POST once the PUT is done, without a token or a body; null when the PUT itself stores the artifact."""
    expires: Instant | None = None
    """Until when the URLs are valid."""


__all__ = [
    "LONGEST_NAME",
    "ArtifactCreate",
    "ArtifactItem",
    "ArtifactName",
    "ArtifactUpload",
    "MediaType",
    "Sha256",
    "check_artifact_name",
    "check_media_type",
]
