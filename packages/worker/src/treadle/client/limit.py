"""A limit as code names it: `Limit("openai", key="/customer", concurrency=5, rate=(100, 60))`."""

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from treadle.errors import InvalidArguments
from treadle.values import brief, first_wrong
from treadle.wire.limits import Caps, LimitName, OnFull
from treadle.wire.values import MOST_INTEGER


@dataclass(frozen=True)
class Limit:
    """A limit that tasks count against, by its name.

    With `concurrency`, `rate` or both `@task` makes the limit when it is missing. Raises `InvalidArguments` for what no
    server takes, for a rate that is no pair, for a burst without a rate, and for `on_full` without either.
    """

    name: str
    """Its name in the job's room, or the task's."""
    key: str | None = None
    """Each key has the limit for itself. Of `@task` one that begins with `/` points into the arguments, as `/customer`
    or `/order/id`; all else is the key itself."""
    weight: int | None = None
    """How much of the concurrency a task takes; 1 when it is left out."""
    concurrency: int | None = None
    """The most weight at once, over all workers."""
    rate: tuple[int, float] | None = None
    """How many claims in how many seconds."""
    burst: int | None = None
    """How many claims may come at once; as many as the rate's count when it is left out."""
    on_full: OnFull | None = None
    """`reject`: a submit raises `LimitFull` when there is no room; `newest`: the others that wait are cancelled, and it
    waits alone; `replace`: the oldest running ones too, until it fits; `wait`, when it is left out."""

    def __post_init__(self) -> None:
        """Check each value, and that they fit together. Raises `InvalidArguments`."""
        if self.rate is not None and not _is_pair(self.rate):
            raise InvalidArguments(
                f"Limit({self.name!r}): rate={brief(self.rate)} is no pair of count and seconds, as (100, 60)"
            )
        if self.burst is not None and self.rate is None:
            raise InvalidArguments(
                f"Limit({self.name!r}): burst={brief(self.burst)} says how much of a rate comes at once: give rate"
            )
        if self.on_full is not None and self.concurrency is None and self.rate is None:
            raise InvalidArguments(
                f"Limit({self.name!r}): on_full={brief(self.on_full)} is of a limit that is made:"
                " give concurrency or rate"
            )
        try:
            LimitName.model_validate(self._name())
            Caps.model_validate(self.caps)
        except ValidationError as error:
            raise InvalidArguments(f"Limit({brief(self.name)}): {first_wrong(error)}") from None

    @property
    def caps(self) -> dict[str, Any]:
        """Return what it allows, as it goes over the wire; nothing when it only names a limit."""
        found: dict[str, Any] = {}
        if self.concurrency is not None:
            found["concurrency"] = self.concurrency
        if self.rate is not None:
            count, seconds = self.rate
            found["rate"] = {"count": count, "seconds": float(seconds)}
            if self.burst is not None:
                found["rate"]["burst"] = self.burst
        if self.on_full is not None:
            found["on_full"] = self.on_full
        return found

    def named(self) -> dict[str, Any]:
        """Return how one task names it. Raises `InvalidArguments` for what a single task can't say of a limit."""
        if self.caps:
            raise InvalidArguments(
                f"a submit names {self.name!r} and does not set it: give concurrency and rate to @task, or to set_limit"
            )
        return self._name()

    def of_job(self) -> dict[str, Any]:
        """Return how a job's registration names it, with what it allows when it is missing."""
        return {**self._name(), **self.caps}

    def _name(self) -> dict[str, Any]:
        given = {"name": self.name, "key": self.key, "weight": self.weight}
        return {name: value for name, value in given.items() if value is not None}


def _is_pair(rate: object) -> bool:
    return isinstance(rate, tuple | list) and len(rate) == 2 and all(map(_is_number, rate))


def _is_number(one: object) -> bool:
    return isinstance(one, int | float) and not abs(one) > MOST_INTEGER
