"""Limits: how many tasks run at once or start within a time, across all workers and servers."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from treadle.wire.fields import MOST_WEIGHT, TEN_YEARS, Instant, Model, Period, Request, Text
from treadle.wire.pointers import is_pointer

MOST_NAMED = 4
"""How many limits a task may count against."""

Cap = Annotated[int, Field(strict=True, ge=1, le=MOST_WEIGHT)]
"""How much a limit allows."""


def check_limit_name(text: str) -> str:
    """Return the name of a limit. Raises `ValueError` if it can't be part of a URL's path, as `.` and `..` can't."""
    if not 0 < len(text) <= 255 or not text.isprintable() or "/" in text or text in {".", ".."}:
        raise ValueError(
            "a limit's name has 1 to 255 characters, no '/' and no control characters, and is not '.' or '..'"
        )
    return text


LimitTitle = Annotated[Text, AfterValidator(check_limit_name)]
"""A limit's name."""


OnFull = Literal["wait", "reject", "newest", "replace"]
"""What happens to a task submitted while a limit is full. `wait`: it waits. `reject`: it is refused with `limit-full`.
`newest`: it waits, and all others that wait are cancelled, with the reason `superseded`. `replace`: as `newest`, and
the oldest running ones are cancelled too, until it fits."""


RateSeconds = Annotated[float, Field(strict=True, ge=0.001, le=TEN_YEARS, allow_inf_nan=False)]
"""Seconds in which a rate's count refills; below a thousandth, a day's tokens exceed what a number holds."""


class LimitName(Request):
    """A limit that a task counts against."""

    name: LimitTitle
    key: Text | None = None
    """Each key has a limit of its own. In a job's limits, one that begins with `/` points into the payload."""
    weight: Cap | None = None
    """How much of the concurrency the task takes; 1 if left out."""


class Rate(Request):
    """How many claims are allowed in a time: tokens that refill evenly, up to `burst` of them."""

    count: Cap
    seconds: RateSeconds
    burst: Cap | None = None
    """The maximum number of tokens; `count` if left out."""


class Caps(Request):
    """What a limit allows."""

    concurrency: Cap | None = None
    """The maximum weight of claimed and running tasks, and of cancelled ones until their code has stopped."""
    rate: Rate | None = None
    on_full: OnFull = "wait"


_BARE_TILDE = re.compile("~(?![01])")


class LimitOfJob(LimitName, Caps):
    """A limit that a job's tasks count against. If it gives concurrency or a rate, the limit is created if missing."""

    @property
    def caps(self) -> Caps | None:
        """What the limit allows if it has to be created; None if it must exist already."""
        if self.concurrency is None and self.rate is None:
            return None
        return Caps(concurrency=self.concurrency, rate=self.rate, on_full=self.on_full)

    @field_validator("key")
    @classmethod
    def _points(cls, key: str | None) -> str | None:
        if is_pointer(key) and _BARE_TILDE.search(key):
            raise ValueError("a key that begins with / is a JSON pointer: write ~0 there for ~, and ~1 for /")
        return key

    @model_validator(mode="after")
    def _of_caps(self) -> Self:
        if self.caps is None and "on_full" in self.model_fields_set:
            raise ValueError("on_full: only for a limit that is to be created; give concurrency or rate with it")
        return self


class LimitPut(Caps):
    """Creates or changes a limit: `PUT /v1/rooms/{room}/limits/{name}`."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.concurrency is None and self.rate is None:
            raise ValueError("give concurrency, rate or both")
        return self


class ShownRate(Model):
    """The rate of a limit as the server shows it."""

    count: int
    seconds: Period
    burst: int


class LimitKey(Model):
    """The use of a limit for one of its keys, and the tasks that wait for it."""

    key: str | None = None
    """None: the tasks without a key."""
    used: int = 0
    waiting: int = 0
    waiting_is_capped: bool = False
    """True if more wait: counting stopped there."""
    tokens: float | None = None
    """With a rate: how many claims were allowed at `tokens_at`; they have refilled since."""
    tokens_at: Instant | None = None
    """None: nothing has been claimed yet."""


class LimitItem(Model):
    """A limit, with its use and the tasks that wait for it."""

    id: str
    room_id: str
    name: str
    concurrency: int | None = None
    rate: ShownRate | None = None
    on_full: str = "wait"
    used: int = 0
    """The weight in use now, over all keys."""
    waiting: int = 0
    """Pending tasks that count against it."""
    waiting_is_capped: bool = False
    """True if more wait: counting stopped there. `keys` may then be too low as well."""
    keys: int = 0
    """Keys that are in use or waited for."""
    busiest: list[LimitKey] = Field(default_factory=list)
    """At most five keys: those with the most waiting tasks, then the fullest. Those of a shared room's limit are shown
    only to users who may read all rooms."""
    created_at: Instant
    version: int = 1


class LimitOfTask(Model):
    """A limit that a task counts against: its own, or its job's."""

    room: str
    name: str
    key: str | None = None
    weight: int = 1
    own: bool = False
    """Whether the task names it itself."""
