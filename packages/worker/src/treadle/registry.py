"""Which function has which job name: two of one name are found at import, when tasks are collected, and when used."""

import logging
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from treadle.errors import DefinitionError, DuplicateTask
from treadle.wire.names import MOST_ORIGIN

if TYPE_CHECKING:
    from treadle.tasks import Task

log: logging.Logger = logging.getLogger("treadle")

_defined: dict[tuple[str, str], CodeType] = {}


def remember(full_name: str, function: Callable[..., Any], frame: FrameType) -> None:
    """Note that `function`'s module defines `full_name`; raise `DuplicateTask` when this execution of it did so before.

    The module's code object tells a second definition from a reload, which runs fresh code. Functions inside others,
    such as those of tests, may repeat names: `collect` finds what matters.
    """
    code = frame.f_code
    if "<locals>" in function.__qualname__ or code.co_name != "<module>" or function.__module__ == "__main__":
        return
    key = (function.__module__, full_name)
    if _defined.get(key) is code:
        raise DuplicateTask(
            f"{function.__module__} defines the task {full_name} twice: give one of them another name,"
            f" @task(name=…), or remove it (line {function.__code__.co_firstlineno})"
        )
    _defined[key] = code


def by_name(tasks: "Iterable[Task[..., Any]]") -> "dict[str, Task[..., Any]]":
    """Return tasks by their full names; raise `DuplicateTask` when two share one, `DefinitionError` for no task."""
    from treadle.tasks import Task as Made

    if isinstance(tasks, Made):
        raise DefinitionError(f"tasks come in a list: write [{tasks.job.name}]")
    named: dict[str, Task[..., Any]] = {}
    for task in tasks:
        if not isinstance(task, Made):
            raise DefinitionError(f"{task!r} is no task: decorate its function with @task")
        other = named.setdefault(task.full_name, task)
        if other is not task:
            raise DuplicateTask(f"{_where(other)} and {_where(task)} are both the task {task.full_name}: rename one")
    return named


class Names:
    """Which functions a client or a worker has at its server, by their jobs' names.

    Two functions of one name would share its queue: in one process they are refused, whoever has them, and where the
    server knows the job from another process, `compare` warns. What was noted counts until `clear`, or until its
    client is gone.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        self.urls: frozenset[str] = frozenset(urls)
        self.tasks: dict[str, Task[..., Any]] = {}
        self._told: set[tuple[str, str]] = set()
        """Of which names and other origins was warned."""

    def check(self, task: "Task[..., Any]") -> None:
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
                    f"{_where(other)} and {_where(task)} are both the task {name}, and would share its queue:"
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


def qualified(task: "Task[..., Any]") -> str | None:
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


def collect(modules: Iterable[ModuleType]) -> "list[Task[..., Any]]":
    """Return the tasks that the modules hold, imported ones too; raise `DuplicateTask`."""
    from treadle.tasks import Task

    found = (value for module in modules for value in vars(module).values() if isinstance(value, Task))
    return list(by_name(found).values())


def _where(task: "Task[..., Any]") -> str:
    return f"{task.function.__module__}.{task.function.__qualname__}"
