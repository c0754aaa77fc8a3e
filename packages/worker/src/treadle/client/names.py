"""Which functions a client or a worker has at its server, by their jobs' names: two of one name are found when used."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from treadle.client.bound import Submittable
from treadle.errors import DuplicateTask
from treadle.wire.names import MOST_ORIGIN

log: logging.Logger = logging.getLogger("treadle")

OTHER_VERSION = (
    "The function takes these arguments, but its job is registered with the schema of another version: start a worker"
    " with this one (with --replace-schema, unless it only takes more), or call client.register(task, replace=True)."
)
"""Said of arguments that their function takes and the server refuses."""


class Names:
    """Which functions a client or a worker has at its server, by their jobs' names.

    Two functions of one name would share its queue: in one process they are refused, whoever has them, and where the
    server knows the job from another process, `compare` warns. What was noted counts until `clear`, or until its
    client is gone.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        self.urls: frozenset[str] = frozenset(urls)
        self.tasks: dict[str, Submittable] = {}
        self._told: set[tuple[str, str]] = set()
        """Of which names and other origins was warned."""

    def check(self, task: Submittable) -> None:
        """Note a task; raise `DuplicateTask` when another module's function has its name here.

        A reloaded module's function is the same one, and so may be a script's (`__main__`), which others import by
        another name. Functions inside others may repeat names.
        """
        name = task.full_name
        if self.tasks.get(name) is task:
            return
        for names in (self, *self._beside()):
            other = names.tasks.get(name)
            if other is not None and _are_strangers(qualified(other), qualified(task)):
                raise DuplicateTask(
                    f"{where(other)} and {where(task)} are both the task {name}, and would share its queue:"
                    " give one of them another name, @task(name=…), or another category"
                )
        self.tasks[name] = task
        _in_use[id(self)] = self

    def compare(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Warn, once, of each job in the server's answer that another module's function was registered as."""
        for job in jobs:
            name: str = job["full_name"]
            theirs: str = job.get("origin") or ""
            ours = qualified(self.tasks[name]) if name in self.tasks else None
            if _are_strangers(ours, theirs) and (name, theirs) not in self._told:
                self._told.add((name, theirs))
                log.warning(
                    "%s is %s here, and was registered as %s: the two share a queue, and run each other's tasks. Give"
                    " one of them another name, @task(name=…), another room or another category; if it is the same"
                    " function, which was moved, register it once with replace: true (treadle worker --replace-schema)",
                    name,
                    ours,
                    theirs,
                )

    def clear(self) -> None:
        """Forget the tasks: others may have their names."""
        self.tasks.clear()
        _in_use.pop(id(self), None)

    def _beside(self) -> "list[Names]":
        """Return what others of this process have at the same server."""
        # The references are listed in one step: another thread may open a client meanwhile.
        others = (found() for found in _in_use.valuerefs())
        return [names for names in others if names is not None and names is not self and names.urls & self.urls]


_in_use: WeakValueDictionary[int, Names] = WeakValueDictionary()
"""The names of each client and worker of this process that has any."""


def qualified(task: Submittable) -> str | None:
    """Return which function a task is, `module:qualname`, in every process that imports it.

    None for a script's own, for those inside others, and for what is too long to be told.
    """
    module, name = task.function.__module__, task.function.__qualname__
    if not module or module == "__main__" or "<locals>" in name:
        return None
    origin = f"{module}:{name}"
    return origin if len(origin) <= MOST_ORIGIN else None


def _are_strangers(one: str | None, other: str | None) -> bool:
    """Return whether two origins are of two modules; one module's function may have been renamed meanwhile."""
    if not one or not other:
        return False
    return one.partition(":")[0] != other.partition(":")[0]


def where(task: Submittable) -> str:
    """Return where a task's function is defined, for people."""
    return f"{task.function.__module__}.{task.function.__qualname__}"
