"""The keys of the filter language: what the value of each is, and how it is written."""

from dataclasses import dataclass

from treadle.wire.status import OPEN, TERMINAL, Status


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the language."""

    means: str
    """What its value is, and what it is compared with."""
    examples: tuple[str, ...]
    """Valid words with this key."""
    negates: bool = False
    """Whether `-key:value` is a word too."""
    begins: str = ""
    """What an empty value is completed to."""


_AGE = "<1h for less than an hour ago, >1h for more; or a day, or <2026-01-31T12:00 and >2026-01-31"

KEYS = {
    "status": Key(
        "pending, running, … or the groups open, done and all; several separated by commas",
        ("status:failed", "status:pending,running", "status:open", "-status:done"),
        negates=True,
    ),
    "job": Key(
        "the job's full name, room:category:name, or * for all jobs",
        ("job:@global:tasks:bill", "-job:lab:tasks:add"),
        negates=True,
    ),
    "room": Key("the room that the tasks were submitted from", ("room:lab", "-room:@global"), negates=True),
    "target": Key("the target's name", ("target:cam-1", "-target:cam-1"), negates=True),
    "worker": Key(
        "the worker's name or id",
        ("worker:web-2", "worker:019aa5c0-0000-7000-8000-000000000001", "-worker:web-2"),
        negates=True,
    ),
    "tag": Key(
        "key or key=value; tag.region.name:eu reaches into a nested one; with several, all must match",
        ("tag:kind", "tag:kind=test tag:user=ann", "tag.region.name:eu", "-tag:kind=test"),
        negates=True,
    ),
    "id": Key("the beginning of the task's id", ("id:019aa5c0",)),
    "flow": Key("the beginning of the id of its flow", ("flow:019aa5c0",)),
    "error": Key(
        "the class of its error, or its reason: ValueError, timeout, claim-expired",
        ("error:ValueError", "error:timeout", "-error:claim-expired"),
        negates=True,
    ),
    "failure": Key("a group of failures, by its id", ("failure:4b1f0c2a9d3e5f60",)),
    "tries": Key("how often it was claimed: 3, >2, <=5", ("tries:>1", "tries:3", "tries:>=2 tries:<=4"), begins=">1"),
    "created": Key(
        f"when it was submitted: {_AGE}",
        ("created:<1h", "created:>1d created:<7d", "created:2026-01-31", "created:>2026-01-31T12:00:00Z"),
        begins="<1h",
    ),
    "started": Key(f"when its last run started: {_AGE}", ("started:>5m status:running",), begins=">5m"),
    "ended": Key(f"when it ended: {_AGE}", ("ended:<1h status:failed", "ended:2026-01-31"), begins="<1h"),
    "duration": Key(
        "the time from its last start to its end, for ended tasks: >5m, <1m30s",
        ("duration:>5m", "duration:<250ms"),
        begins=">1m",
    ),
}
"""Every key of the language."""

TIMES = ("created", "started", "ended")
"""The keys whose values are times."""

GROUPS: dict[str, frozenset[Status]] = {"open": OPEN, "done": TERMINAL, "all": frozenset(Status)}
"""Words for several statuses at once."""
