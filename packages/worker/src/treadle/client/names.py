"""The functions that a client or a worker uses at its server, by job name, to detect two of the same name."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from treadle.client.bound import Submittable
from treadle.errors import DuplicateTask
from treadle.wire.names import MOST_ORIGIN

log: logging.Logger = logging.getLogger("treadle")

OTHER_VERSION = (
    "The function takes these arguments, but its job is registered with another version's schema: start a worker"
    " with this one (with --replace-schema, unless it only takes more), or call client.register(task, replace=True)."
)
"""The note for arguments that the function accepts and the server refuses."""


class Names:
    """The functions that a client or a worker uses at its server, by their jobs' names.

    Two functions of one name would share its queue. Within a process the second is refused, whichever client or worker
    uses it; when the server knows the job from another process, `compare` warns. An entry lasts until `clear`, or until
    its client is garbage-collected.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        self.urls: frozenset[str] = frozenset(urls)
        self.tasks: dict[str, Submittable] = {}
        self._told: set[tuple[str, str]] = set()
        """The pairs of name and foreign origin that were already warned about."""

    def check(self, task: Submittable) -> None:
        """Record a task; raise `DuplicateTask` when another module's function already has its name here.

        After a reload of its module a function counts as the same, and so does a script's (`__main__`), which other
        modules may import under another name. Functions inside functions may share names.
        """
        name = task.full_name
        if self.tasks.get(name) is task:
            return
        for names in (self, *self._beside()):
            other = names.tasks.get(name)
            if other is not None and _are_strangers(qualified(other), qualified(task)):
                raise DuplicateTask(
                    f"{where(other)} and {where(task)} are both named {name} and would share its queue:"
                    " give one of them another name, @task(name=…), or another category"
                )
        self.tasks[name] = task
        _in_use[id(self)] = self

    def compare(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Warn, once each, of jobs in the server's answer that were registered as another module's function."""
        for job in jobs:
            name: str = job["full_name"]
            theirs: str = job.get("origin") or ""
            ours = qualified(self.tasks[name]) if name in self.tasks else None
            if _are_strangers(ours, theirs) and (name, theirs) not in self._told:
                self._told.add((name, theirs))
                log.warning(
                    "%s is %s here, but was registered as %s: the two share a queue and run each other's tasks. Give"
                    " one of them another name, @task(name=…), another room or another category; if it is the same"
                    " function and has moved, register it once with replace: true (treadle worker --replace-schema)",
                    name,
                    ours,
                    theirs,
                )

    def clear(self) -> None:
        """Forget the tasks, so that others may have their names."""
        self.tasks.clear()
        _in_use.pop(id(self), None)

    def _beside(self) -> "list[Names]":
        """Return the names of the other clients and workers of this process at the same server."""
        # `valuerefs` copies in one step: another thread may open a client meanwhile.
        others = (found() for found in _in_use.valuerefs())
        return [names for names in others if names is not None and names is not self and names.urls & self.urls]


_in_use: WeakValueDictionary[int, Names] = WeakValueDictionary()
"""The names of each client and worker of this process that has recorded any."""


def qualified(task: Submittable) -> str | None:
    """Return a task's function as `module:qualname`, the same in every process that imports it.

    None for a function of a script or inside a function, and for a name that is too long to be sent.
    """
    module, name = task.function.__module__, task.function.__qualname__
    if not module or module == "__main__" or "<locals>" in name:
        return None
    origin = f"{module}:{name}"
    return origin if len(origin) <= MOST_ORIGIN else None


def _are_strangers(one: str | None, other: str | None) -> bool:
    """Return whether two origins are of different modules; a function may be renamed within its module."""
    if not one or not other:
        return False
    return one.partition(":")[0] != other.partition(":")[0]


def where(task: Submittable) -> str:
    """Return where a task's function is defined, for messages."""
    return f"{task.function.__module__}.{task.function.__qualname__}"
