"""Webhooks: where outcomes of tasks are sent, and the deliveries that failed."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from treadle.wire.fields import Flag, Instant, Model, Request, Text
from treadle.wire.ids import Uuid
from treadle.wire.names import parse_job_name
from treadle.wire.status import TERMINAL, Status

DeliveryState = Literal["dead", "waiting"]

NAME = r"^[A-Za-z0-9._-]{1,64}$"
"""The form of a webhook's name."""


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("write a URL such as https://example.org/hook")
    if parts.username is not None or parts.password is not None:
        raise ValueError("contains a user or a password; deliveries are signed instead")
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise ValueError("contains a space, a control character, a backslash or a non-ASCII character; encode it")
    if not 0 < (parts.port or 80) < 65_536:  # `port` raises ValueError if it is not a number
        raise ValueError("its port is not between 1 and 65535")
    return text


def _job(name: str) -> str:
    return str(parse_job_name(name))


Url = Annotated[str, StringConstraints(min_length=1, max_length=2000), AfterValidator(_url)]
FullName = Annotated[Text, AfterValidator(_job)]


class WebhookSet(Request):
    """Creates or changes a webhook: `PUT /v1/rooms/{room}/webhooks/{name}`."""

    url: Url
    jobs: list[FullName] | None = Field(default=None, min_length=1, max_length=100)
    """Full names of the jobs whose outcomes are sent; left out, every job."""
    statuses: list[Status] = Field(default_factory=lambda: sorted(TERMINAL), min_length=1, max_length=3)
    """The outcomes that are sent: completed, failed, cancelled."""
    rotate: Flag = False
    """Create a new secret and show it."""

    @field_validator("statuses")
    @classmethod
    def _outcomes(cls, value: list[Status]) -> list[Status]:
        if wrong := [status for status in value if status not in TERMINAL]:
            raise ValueError(f"{', '.join(wrong)}: not an outcome; use completed, failed or cancelled")
        return sorted(set(value))


class WebhookItem(Model):
    """A webhook."""

    id: str
    room_id: str
    name: str
    url: str
    jobs: list[str] | None = None
    statuses: list[Status]
    owner: str
    stands_still: str | None = None
    """Why nothing is sent: the owner has no valid token. Deliveries wait until there is one."""
    created_at: Instant
    updated_at: Instant
    waiting: int = 0
    """Deliveries that are still being attempted."""
    dead: int = 0
    """Deliveries that were given up; they can be redelivered."""
    secret: str | None = None
    """The secret that signs the deliveries (`whsec_…`): only in the answer to the request that created it."""


class DeliveryItem(Model):
    """A delivery: one outcome for one webhook."""

    id: str
    """The `webhook-id` of every attempt."""
    task_id: str
    job_name: str
    status: Status
    created_at: Instant
    attempts: int
    """The number of attempts so far."""
    next_at: Instant | None = None
    """When the next attempt is due."""
    dead_at: Instant | None = None
    answered: int | None = None
    """The HTTP status of the last answer; null if there was none."""
    error: str | None = None
    """The error of the last attempt."""


class Redeliver(Request):
    """Redelivers dead deliveries: `POST /v1/rooms/{room}/webhooks/{name}/redeliver`."""

    ids: list[Uuid] | None = Field(default=None, min_length=1, max_length=1000)
    """The ids of the deliveries; left out, all dead ones."""


class Redelivered(Model):
    """The number of dead deliveries that will be attempted again."""

    redelivered: int
