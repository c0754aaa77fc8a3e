"""Webhooks: where outcomes of tasks are told, and what could not be delivered."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from treadle.wire.fields import Flag, Instant, Model, Request, Text
from treadle.wire.ids import Uuid
from treadle.wire.names import parse_job_name
from treadle.wire.status import TERMINAL, Status

DeliveryState = Literal["dead", "waiting"]

NAME = r"^[A-Za-z0-9._-]{1,64}$"
"""How a webhook's name is written."""


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("write a URL such as https://example.org/hook")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or a password; what is sent is signed instead")
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise ValueError("holds a space, a control character, a backslash or what is not ASCII; encode it")
    if not 0 < (parts.port or 80) < 65_536:  # port raises ValueError when it is no number
        raise ValueError("its port is not between 1 and 65535")
    return text


def _job(name: str) -> str:
    return str(parse_job_name(name))


Url = Annotated[str, StringConstraints(min_length=1, max_length=2000), AfterValidator(_url)]
FullName = Annotated[Text, AfterValidator(_job)]


class WebhookSet(Request):
    """Makes a webhook or changes it: `PUT /v1/rooms/{room}/webhooks/{name}`."""

    url: Url
    jobs: list[FullName] | None = Field(default=None, min_length=1, max_length=100)
    """Full names of jobs; left out, every job."""
    statuses: list[Status] = Field(default_factory=lambda: sorted(TERMINAL), min_length=1, max_length=3)
    """Outcomes that are told: completed, failed, cancelled."""
    rotate: Flag = False
    """Make a new secret, and show it."""

    @field_validator("statuses")
    @classmethod
    def _outcomes(cls, value: list[Status]) -> list[Status]:
        if wrong := [status for status in value if status not in TERMINAL]:
            raise ValueError(f"{', '.join(wrong)}: no outcome; those are completed, failed and cancelled")
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
    """Why nothing is sent: its owner has no valid token. What is to be told waits."""
    created_at: Instant
    updated_at: Instant
    waiting: int = 0
    """Deliveries that are still tried."""
    dead: int = 0
    """Deliveries that were given up, and may be redelivered."""
    secret: str | None = None
    """What signs the deliveries (`whsec_…`): only in the answer that made it."""


class DeliveryItem(Model):
    """One outcome for one webhook."""

    id: str
    """The `webhook-id` of every try."""
    task_id: str
    job_name: str
    status: Status
    created_at: Instant
    attempts: int
    """How often it was tried."""
    next_at: Instant | None = None
    """When it is tried next."""
    dead_at: Instant | None = None
    answered: int | None = None
    """The HTTP status of the last answer; null when there was none."""
    error: str | None = None
    """What was wrong with the last try."""


class Redeliver(Request):
    """Tries dead deliveries again: `POST /v1/rooms/{room}/webhooks/{name}/redeliver`."""

    ids: list[Uuid] | None = Field(default=None, min_length=1, max_length=1000)
    """Which; left out, all."""


class Redelivered(Model):
    """How many dead deliveries are tried again."""

    redelivered: int
