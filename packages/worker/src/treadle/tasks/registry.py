"""The tasks that a module defines; two of one name are detected on import, and when they are collected."""

from collections.abc import Callable, Iterable
from types import CodeType, FrameType, ModuleType
from typing import Any

from treadle.client.names import where
from treadle.errors import DefinitionError, DuplicateTask
from treadle.tasks.definition import Task

_defined: dict[tuple[str, str], CodeType] = {}


def remember(full_name: str, function: Callable[..., Any], frame: FrameType) -> None:
    """Record that `function`'s module defines `full_name`; raise `DuplicateTask` if it has already done so.

    A reload is told from a second definition by the module's code object, which is a new one then. Functions inside
    functions, such as those in tests, may share names: `collect` finds the duplicates that matter.
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


def by_name(tasks: Iterable[Task[..., Any]]) -> dict[str, Task[..., Any]]:
    """Return tasks by full name; raise `DuplicateTask` if two share one, `DefinitionError` for anything but a task."""
    if isinstance(tasks, Task):
        raise DefinitionError(f"tasks must be a list: write [{tasks.job.name}]")
    named: dict[str, Task[..., Any]] = {}
    for task in tasks:
        if not isinstance(task, Task):
            raise DefinitionError(f"{task!r} is not a task: decorate its function with @task")
        other = named.setdefault(task.full_name, task)
        if other is not task:
            raise DuplicateTask(f"{where(other)} and {where(task)} are both named {task.full_name}: rename one")
    return named


def collect(modules: Iterable[ModuleType]) -> list[Task[..., Any]]:
    """Return the tasks that the modules contain, imported ones included; raise `DuplicateTask`."""
    found = (value for module in modules for value in vars(module).values() if isinstance(value, Task))
    return list(by_name(found).values())
