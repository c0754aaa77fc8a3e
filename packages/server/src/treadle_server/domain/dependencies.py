"""What a task's dependencies mean for it, and which tasks of one request wait for which."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from treadle.wire.flows import MOST_DEPENDENCIES
from treadle.wire.ids import TaskId, is_uuid
from treadle.wire.status import TERMINAL, Status
from treadle_server.errors import DependencyCycle, ValidationFailed

# `Task.telling`: the number of the last task that was told where this one is, while the service goes through those that
# wait for it, or one of these. Where a task was made to run again it is negative, and -1 less than that number.

UNTOLD = 0
"""When it ends, all that wait for it are to be told."""

TAKE_BACK = -1
"""It is to run again: those that still wait, for others, are to wait for it too."""

TOLD = 2**62
"""It has ended, and everyone was told."""


def last_told(telling: int, status: Status) -> int:
    """Return the number of the last task that was told where a task is which is in `status` now."""
    if telling >= UNTOLD:
        return telling
    # What ended before all had taken it back begins anew: it says the same of each, however often.
    return UNTOLD if status in TERMINAL else -1 - telling


def told_up_to(last: int, status: Status, *, is_all: bool) -> int:
    """Return the `telling` of a task in `status` when the others were told up to the number `last`, or all of them."""
    if status in TERMINAL:
        return TOLD if is_all else last
    return UNTOLD if is_all else -1 - last


class Verdict(Enum):
    """What a dependency means for a task that waits."""

    MET = "met"
    UNMET = "unmet"
    FAILED = "failed"
    """It will never be met, unless the dependency is made to run again: the task is cancelled."""


def verdict(policy: str | None, status: Status) -> Verdict:
    """Return what a dependency in `status` means for a task that has this `on_dependency_failure`."""
    if status is Status.COMPLETED or (policy == "run" and status in TERMINAL):
        return Verdict.MET
    if status not in TERMINAL or policy == "hold":
        return Verdict.UNMET
    return Verdict.FAILED


ResultPlace = tuple[str, int | None]
"""Under which name a dependency's result comes, and at which place of its list; None: by itself."""


@dataclass(slots=True)
class Need:
    """One task that another waits for: a place in the same request, or an id."""

    of: int | TaskId
    places: list[ResultPlace] = field(default_factory=list)


class ItemDependencies(NamedTuple):
    """What an item of a request says of its dependencies."""

    id: str | None
    ref: str | None
    depends_on: Mapping[str, str | Sequence[str]]


def resolve(asked: Sequence[ItemDependencies]) -> tuple[list[list[Need]], list[int]]:
    """Return what each item needs, and an order of the items in which each stands behind those that it needs.

    Raises `ValidationFailed` for a ref that stands twice or that nothing is called, and for more dependencies than one
    request may have; and `DependencyCycle`.
    """
    _check_size(asked)
    named = _named(asked)
    needs = [_needs(f"tasks.{i}." if len(asked) > 1 else "", item, named) for i, item in enumerate(asked)]
    return needs, _in_order(asked, needs)


def _check_size(asked: Sequence[ItemDependencies]) -> None:
    """Refuse what would hold the writer for long: two layers of 1,000 tasks, each with each, took a minute."""
    total = sum(1 if isinstance(said, str) else len(said) for item in asked for said in item.depends_on.values())
    if total > MOST_DEPENDENCIES:
        raise ValidationFailed(
            f"depends_on: the tasks of this request have {total:,} dependencies; one request may have at most"
            f" {MOST_DEPENDENCIES:,}: submit the rest in further requests with the same flow_id, naming these tasks by"
            " their ids, or put a task between two layers to gather the results of the first"
        )


def _named(asked: Sequence[ItemDependencies]) -> dict[str, int]:
    """Return the items by their ids and refs."""
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
    for name, said in depends_on.items():
        if isinstance(said, str):
            yield name, said, None
        else:
            for place, word in enumerate(said):
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
                raise DependencyCycle(_circle(asked, list(on_path), of))
            else:
                on_path[of] = None
                waiting.append((of, iter(_within(needs[of]))))
    return order


def _within(needs: Sequence[Need]) -> list[int]:
    return [need.of for need in needs if isinstance(need.of, int)]


MOST_OF_CIRCLE = 20
"""Tasks of a circle that are shown."""


def _circle(asked: Sequence[ItemDependencies], path: list[int], again: int) -> str:
    """Return what to say of a circle: each task waits for the one behind it."""
    round_ = [*path[path.index(again) :], again]
    called = [asked[i].ref or asked[i].id or f"tasks.{i}" for i in round_]
    if len(called) > MOST_OF_CIRCLE:
        called = [*called[: MOST_OF_CIRCLE // 2], "…", *called[-MOST_OF_CIRCLE // 2 :]]
    return f"these tasks wait for each other in a circle, so none could ever run: {' -> '.join(called)}"
