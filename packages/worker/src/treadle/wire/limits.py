"""Limits: how much of some tasks runs at once or begins in a time, over all workers and servers."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from treadle.wire.fields import MOST_WEIGHT, TEN_YEARS, Instant, Model, Request, Text
from treadle.wire.pointers import is_pointer

MOST_NAMED = 4
"""Limits that a task may count against."""

Cap = Annotated[int, Field(strict=True, ge=1, le=MOST_WEIGHT)]
"""How much a limit allows."""


def check_limit_name(text: str) -> str:
    """Return the name of a limit. Raises `ValueError` unless it can stand in a path, where `.` and `..` lead away."""
    if not 0 < len(text) <= 255 or not text.isprintable() or "/" in text or text in {".", ".."}:
        raise ValueError(
            "a limit's name has 1 to 255 characters, no '/' and no control characters, and is not '.' or '..'"
        )
    return text


LimitTitle = Annotated[Text, AfterValidator(check_limit_name)]
"""A limit's name."""


OnFull = Literal["wait", "reject", "newest", "replace"]
"""What becomes of a task that is put in when a limit is full: it waits (`wait`), is refused with `limit-full`
(`reject`), or waits alone, for all others that wait are cancelled, reason `superseded` (`newest`), and the oldest
running ones too, until it fits (`replace`)."""


RateSeconds = Annotated[float, Field(strict=True, ge=0.001, le=TEN_YEARS, allow_inf_nan=False)]
"""In how many seconds a rate's count fills; with less than a thousandth what fills in a day is no number any more."""


class LimitName(Request):
    """A limit that a task counts against."""

    name: LimitTitle
    key: Text | None = None
    """Each key has the limit for itself. Of a job, one that begins with `/` points into the payload."""
    weight: Cap | None = None
    """How much of the concurrency it takes; 1 when it is left out."""


class Rate(Request):
    """How many claims in a time: tokens that fill evenly, up to `burst` of them."""

    count: Cap
    seconds: RateSeconds
    burst: Cap | None = None
    """The most tokens; as many as `count` when it is left out."""


class Caps(Request):
    """What a limit allows."""

    concurrency: Cap | None = None
    """The most weight of claimed and running tasks, and of cancelled ones until their code has stopped."""
    rate: Rate | None = None
    on_full: OnFull = "wait"


_BARE_TILDE = re.compile("~(?![01])")


class LimitOfJob(LimitName, Caps):
    """A limit that a job's tasks count against; one that says what it allows is made if it is missing."""

    @property
    def caps(self) -> Caps | None:
        """Return what it is to allow when it is missing; None: it is there already."""
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
            raise ValueError("on_full is for a limit that is made: give concurrency or rate with it")
        return self


class LimitPut(Caps):
    """Makes or changes a limit: `PUT /v1/rooms/{room}/limits/{name}`."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.concurrency is None and self.rate is None:
            raise ValueError("give concurrency, rate or both: a limit limits something")
        return self


class ShownRate(Model):
    """The rate of a limit as the server shows it."""

    count: int
    seconds: float
    burst: int


class LimitKey(Model):
    """What is used of a limit for one of its keys, and waits for it."""

    key: str | None = None
    """None: all that has no key."""
    used: int = 0
    waiting: int = 0
    waiting_is_capped: bool = False
    """True when more wait: counting stopped there."""
    tokens: float | None = None
    """With a rate: how many claims there was room for at `tokens_at`; since then they fill."""
    tokens_at: Instant | None = None
    """None: nothing was claimed yet."""


class LimitItem(Model):
    """A limit, with its use and who waits."""

    id: str
    room_id: str
    name: str
    concurrency: int | None = None
    rate: ShownRate | None = None
    on_full: str = "wait"
    used: int = 0
    """The weight that counts now, over all keys."""
    waiting: int = 0
    """Pending tasks that count against it."""
    waiting_is_capped: bool = False
    """True when more wait: counting stopped there. `keys` may be more then, too."""
    keys: int = 0
    """Keys that are in use or waited for."""
    busiest: list[LimitKey] = Field(default_factory=list)
    """At most five of them: those for which most tasks wait, then the fullest. Those of a shared room's limit are told
    only to who reads all rooms."""
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
