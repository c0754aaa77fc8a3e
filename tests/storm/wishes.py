"""The tasks that clients put in during a storm: of every kind, each as it goes over the wire.

Older versions read this too (`tests/versions`), so nothing of what only this one has is imported here.
"""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from uuid_utils import uuid7

from tests.history.records import Cap
from tests.storm.site import ROOM

LABOUR = "@global:tasks:labour"
TOIL = "@global:tasks:toil"
CRAFT = "@global:tasks:craft"
GATHER = "@global:tasks:gather"
JOURNEYS = ("@global:tasks:journey", "@global:tasks:trek")

LAB = "lab"
"""The room of most tasks."""

TARGETS = 12
KEYS = 8

Wish = dict[str, Any]
"""One task, as a submit of many has it."""

GLOBAL = "@global"

CAPS = [
    *(Cap(room, "few", concurrency=3) for room in (LAB, ROOM)),
    *(Cap(room, "each", concurrency=2) for room in (LAB, ROOM)),
    *(Cap(room, "calls", rate=(20, 2.0), burst=5) for room in (LAB, ROOM)),
    Cap(GLOBAL, "bench", concurrency=2),
    Cap(GLOBAL, "turns", rate=(3, 1.0), burst=2),
]
"""Every limit that there is: tasks name a room's, `craft` counts against those of its job by what its payload has."""

LIMITS_OF_JOBS = {CRAFT: [{"name": cap.name, "key": "/key"} for cap in CAPS if cap.room == GLOBAL]}


def _new(chance: random.Random, job: str, **payload: Any) -> Wish:
    return {"id": str(uuid7()), "job": job, "payload": {"n": chance.randrange(1_000_000), **payload}}


def plain(chance: random.Random, number: int) -> Iterator[Wish]:
    """Yield so many: quick ones, slow ones, such that raise, such with targets, in threads and in processes."""
    for i in range(number):
        task = _new(chance, LABOUR)
        payload = task["payload"]
        match i:
            case 0 | 1 | 2:
                payload["seconds"], task["target"] = 0.1, f"t{chance.randrange(TARGETS)}"
            case 3:
                payload["raises"] = chance.randint(1, 2)
            case 4:
                payload["raises"] = 1_000
            case 5:
                payload["seconds"] = chance.uniform(1, 4)
            case 6:
                payload["seconds"], task["delay"] = 0.1, chance.uniform(1, 5)
            case 7:
                payload["seconds"], task["job"] = chance.uniform(0.1, 1), TOIL
            case 8 if chance.random() < 0.1:
                payload["seconds"], task["job"] = chance.uniform(0.1, 1), TOIL
                task["target"] = f"p{chance.randrange(2)}"
            case _:
                pass
        yield task


def limited(chance: random.Random) -> Iterator[Wish]:
    """Yield some under each limit, in the loop and in threads."""
    for job in (LABOUR, TOIL):
        weight = chance.choice((1, 1, 2, 3))
        yield _new(chance, job, seconds=_while(chance)) | {"limits": [{"name": "few", "weight": weight}]}
        each = {"name": "each", "key": f"k{chance.randrange(KEYS)}"}
        yield _new(chance, job, seconds=_while(chance)) | {"limits": [each]}
        yield _new(chance, LABOUR) | {"limits": [{"name": "calls"}]}
        yield _new(chance, CRAFT, key=f"k{chance.randrange(KEYS)}", seconds=_while(chance))
    yield _new(chance, LABOUR, raises=1) | {"limits": [{"name": "calls"}, {"name": "few"}]}


def _while(chance: random.Random) -> float:
    """Return how long what holds a place takes, in seconds."""
    return chance.uniform(0.02, 0.3)


def flow(chance: random.Random) -> list[Wish]:
    """Return a flow: one that fans out and in, or a chain whose middle may fail, under one of the policies."""
    if chance.random() < 0.5:
        return _fan(chance)
    policy = chance.choice(("cancel", "run", "hold"))
    head, middle, last, end = (_new(chance, GATHER, seconds=_while(chance)) for _ in range(4))
    middle["payload"]["raises"] = chance.choice((0, 1, 3))
    several = [head, middle, last, end]
    for before, one in pairwise(several):
        before["ref"] = before["id"][-6:]
        one |= {"depends_on": {"before": before["ref"]}, "on_dependency_failure": policy}
    return several


def _fan(chance: random.Random) -> list[Wish]:
    first = _new(chance, GATHER) | {"ref": "first"}
    pages = [
        _new(chance, GATHER, raises=chance.choice((0, 0, 1)), seconds=_while(chance))
        | {"ref": f"page-{i}", "depends_on": {"source": "first"}}
        for i in range(chance.randint(2, 6))
    ]
    last = _new(chance, GATHER)
    last |= {"depends_on": {"parts": [one["ref"] for one in pages]}, "arguments_from": {"parts": "parts"}}
    return [first, *pages, last]


def journeys(chance: random.Random) -> list[Wish]:
    """Return some tasks of steps; some sleep in their midst, some receive messages at their end."""
    return [
        _new(
            chance,
            chance.choice(JOURNEYS),
            steps=chance.randint(2, 8),
            nap=chance.choice((0.0, 0.0, 0.5, 2.0)),
            messages=chance.choice((0, 0, 1, 3)),
        )
        for _ in range(chance.randint(1, 3))
    ]
