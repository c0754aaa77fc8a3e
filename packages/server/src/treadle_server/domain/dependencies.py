"""What a task's dependencies mean for it, and which tasks of one request wait for which."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from treadle.wire.flows import MOST_DEPENDENCIES
from treadle.wire.ids import TaskId, is_uuid
from treadle.wire.status import TERMINAL, Status
from treadle_server.errors import DependencyCycle, ValidationFailed

# Values of `Task.telling`. While the service goes through the tasks that wait for this one, it is the number of the
# last one that was notified, or -1 minus that number if this task is to run again. Otherwise it is one of these:

UNTOLD = 0
"""When the task ends, all that wait for it are to be notified."""

TAKE_BACK = -1
"""The task is to run again: those that still wait for others are to wait for it again too."""

TOLD = 2**62
"""The task has ended, and all that wait for it were notified."""


def last_told(telling: int, status: Status) -> int:
    """Return the number of the last waiting task that was notified that a task is in `status`."""
    if telling >= UNTOLD:
        return telling
    # The task ended before all were notified that it runs again: start over, since notifying is idempotent.
    return UNTOLD if status in TERMINAL else -1 - telling


def told_up_to(last: int, status: Status, *, is_all: bool) -> int:
    """Return the `telling` of a task in `status` whose waiters were notified up to the number `last`, or all were."""
    if status in TERMINAL:
        return TOLD if is_all else last
    return UNTOLD if is_all else -1 - last


class Verdict(Enum):
    """What a dependency means for a task that waits."""

    MET = "met"
    UNMET = "unmet"
    FAILED = "failed"
    """It can't be met unless the dependency runs again: the waiting task is cancelled."""


def verdict(policy: str | None, status: Status) -> Verdict:
    """Return what a dependency in `status` means for a task that has this `on_dependency_failure`."""
    if status is Status.COMPLETED or (policy == "run" and status in TERMINAL):
        return Verdict.MET
    if status not in TERMINAL or policy == "hold":
        return Verdict.UNMET
    return Verdict.FAILED


ResultPlace = tuple[str, int | None]
"""The name under which a dependency's result is passed, and its index in the list there; None: not in a list."""


@dataclass(slots=True)
class Need:
    """One task that another waits for: the index of one in the same request, or an id."""

    of: int | TaskId
    places: list[ResultPlace] = field(default_factory=list)


class ItemDependencies(NamedTuple):
    """The part of a request's item that is about its dependencies."""

    id: str | None
    ref: str | None
    depends_on: Mapping[str, str | Sequence[str]]


def resolve(asked: Sequence[ItemDependencies]) -> tuple[list[list[Need]], list[int]]:
    """Return what each item needs, and an order of the items in which each follows those that it needs.

    Raises `ValidationFailed` for a ref that is given twice or that no item has, and for more dependencies than one
    request may have; and `DependencyCycle`.
    """
    _check_size(asked)
    named = _named(asked)
    needs = [_needs(f"tasks.{i}." if len(asked) > 1 else "", item, named) for i, item in enumerate(asked)]
    return needs, _in_order(asked, needs)


def _check_size(asked: Sequence[ItemDependencies]) -> None:
    """Refuse what would hold up the writer for long: two fully connected layers of 1,000 tasks took a minute."""
    total = sum(1 if isinstance(needs, str) else len(needs) for item in asked for needs in item.depends_on.values())
    if total > MOST_DEPENDENCIES:
        raise ValidationFailed(
            f"depends_on: the tasks of this request have {total:,} dependencies; one request may have at most"
            f" {MOST_DEPENDENCIES:,}: submit the rest in further requests with the same flow_id, naming these tasks by"
            " their ids, or put a task between two layers to gather the results of the first"
        )


def _named(asked: Sequence[ItemDependencies]) -> dict[str, int]:
    """Return the indexes of the items by their ids and refs."""
    named = {item.id: i for i, item in enumerate(asked) if item.id is not None}
    refs: set[str] = set()
    for i, item in enumerate(asked):
        if item.ref is None:
            continue
        if item.ref in refs or named.get(item.ref, i) != i:
            raise ValidationFailed(f"tasks.{i}.ref: {item.ref!r} is given twice; give each task its own ref")
        refs.add(item.ref)
        named[item.ref] = i
    return named


def _needs(place: str, item: ItemDependencies, named: Mapping[str, int]) -> list[Need]:
    found: dict[int | TaskId, Need] = {}
    for name, word, member in _words(item.depends_on):
        key: int | TaskId | None = named.get(word)
        if key is None and is_uuid(lower := word.lower()):
            key = named.get(lower, TaskId(lower))
        if key is None:
            raise ValidationFailed(
                f"{place}depends_on.{name}: {word!r} is not a task id, and no task of this request has that ref"
            )
        found.setdefault(key, Need(key)).places.append((name, member))
    return list(found.values())


def _words(depends_on: Mapping[str, str | Sequence[str]]) -> Iterator[tuple[str, str, int | None]]:
    for name, needs in depends_on.items():
        if isinstance(needs, str):
            yield name, needs, None
        else:
            for place, word in enumerate(needs):
                yield name, word, place


def _in_order(asked: Sequence[ItemDependencies], needs: Sequence[Sequence[Need]]) -> list[int]:
    order: list[int] = []
    is_done = [False] * len(asked)
    for first in range(len(asked)):
        waiting = [(first, iter(_within(needs[first])))] if not is_done[first] else []
        on_path = dict.fromkeys([first])
        while waiting:
            i, following = waiting[-1]
            of = next((one for one in following if not is_done[one]), None)
            if of is None:
                waiting.pop()
                del on_path[i]
                is_done[i] = True
                order.append(i)
            elif of in on_path:
                raise DependencyCycle(_circle_message(asked, list(on_path), of))
            else:
                on_path[of] = None
                waiting.append((of, iter(_within(needs[of]))))
    return order


def _within(needs: Sequence[Need]) -> list[int]:
    return [need.of for need in needs if isinstance(need.of, int)]


MOST_OF_CIRCLE = 20
"""How many tasks of a circle are shown."""


def _circle_message(asked: Sequence[ItemDependencies], path: list[int], again: int) -> str:
    """Return the message for a circle, in which each task waits for the next."""
    round_ = [*path[path.index(again) :], again]
    called = [asked[i].ref or asked[i].id or f"tasks.{i}" for i in round_]
    if len(called) > MOST_OF_CIRCLE:
        called = [*called[: MOST_OF_CIRCLE // 2], "…", *called[-MOST_OF_CIRCLE // 2 :]]
    return f"these tasks wait for each other in a circle, so none could ever run: {' -> '.join(called)}"
