"""A limit as code writes it: `Limit("openai", key="/customer", concurrency=5, rate=(100, 60))`."""

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

    If `concurrency`, `rate` or both are given, `@task` creates the limit when it does not exist. Raises
    `InvalidArguments` for values that no server accepts, a rate that is not a pair, `burst` without `rate`, and
    `on_full` without either.
    """

    name: str
    """The limit's name, in the job's room or the task's."""
    key: str | None = None
    """Each key is limited separately. In `@task` a key that begins with `/` points into the arguments, such as
    `/customer` or `/order/id`; any other is the key itself."""
    weight: int | None = None
    """How much of the concurrency a task takes; 1 by default."""
    concurrency: int | None = None
    """The most weight at once, over all workers."""
    rate: tuple[int, float] | None = None
    """How many claims in how many seconds."""
    burst: int | None = None
    """How many claims may come at once; by default the rate's count."""
    on_full: OnFull | None = None
    """What happens to a submit when the limit is full. `wait`, the default: it waits. `reject`: it raises `LimitFull`.
    `newest`: the other waiting tasks are cancelled, so it alone waits. `replace`: the oldest running tasks are
    cancelled too, until it fits."""

    def __post_init__(self) -> None:
        """Check each value, and that they fit together. Raises `InvalidArguments`."""
        if self.rate is not None and not _is_pair(self.rate):
            raise InvalidArguments(
                f"Limit({self.name!r}): rate={brief(self.rate)} is not a pair of count and seconds, such as (100, 60)"
            )
        if self.burst is not None and self.rate is None:
            raise InvalidArguments(
                f"Limit({self.name!r}): burst={brief(self.burst)} has no effect without rate: give rate too"
            )
        if self.on_full is not None and self.concurrency is None and self.rate is None:
            raise InvalidArguments(
                f"Limit({self.name!r}): on_full={brief(self.on_full)} only applies to a limit that is created:"
                " give concurrency or rate too"
            )
        try:
            LimitName.model_validate(self._name())
            Caps.model_validate(self.caps)
        except ValidationError as error:
            raise InvalidArguments(f"Limit({brief(self.name)}): {first_wrong(error)}") from None

    @property
    def caps(self) -> dict[str, Any]:
        """Return what the limit allows, as sent to the server; empty when this only names a limit."""
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
        """Return how a single task names the limit. Raises `InvalidArguments` if this sets more than a task may."""
        if self.caps:
            raise InvalidArguments(
                f"a submit can only name {self.name!r}, not set it: give concurrency and rate to @task or set_limit"
            )
        return self._name()

    def of_job(self) -> dict[str, Any]:
        """Return how a job's registration names the limit, with the caps to create it with if it does not exist."""
        return {**self._name(), **self.caps}

    def _name(self) -> dict[str, Any]:
        given = {"name": self.name, "key": self.key, "weight": self.weight}
        return {name: value for name, value in given.items() if value is not None}


def _is_pair(rate: object) -> bool:
    return isinstance(rate, tuple | list) and len(rate) == 2 and all(map(_is_number, rate))


def _is_number(one: object) -> bool:
    return isinstance(one, int | float) and not abs(one) > MOST_INTEGER
