"""Which tasks a module has: two of one name are found at import, and when they are collected."""

from collections.abc import Callable, Iterable
from types import CodeType, FrameType, ModuleType
from typing import Any

from treadle.client.names import where
from treadle.errors import DefinitionError, DuplicateTask
from treadle.tasks.definition import Task

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


def by_name(tasks: Iterable[Task[..., Any]]) -> dict[str, Task[..., Any]]:
    """Return tasks by their full names; raise `DuplicateTask` when two share one, `DefinitionError` for no task."""
    if isinstance(tasks, Task):
        raise DefinitionError(f"tasks come in a list: write [{tasks.job.name}]")
    named: dict[str, Task[..., Any]] = {}
    for task in tasks:
        if not isinstance(task, Task):
            raise DefinitionError(f"{task!r} is no task: decorate its function with @task")
        other = named.setdefault(task.full_name, task)
        if other is not task:
            raise DuplicateTask(f"{where(other)} and {where(task)} are both the task {task.full_name}: rename one")
    return named


def collect(modules: Iterable[ModuleType]) -> list[Task[..., Any]]:
    """Return the tasks that the modules hold, imported ones too; raise `DuplicateTask`."""
    found = (value for module in modules for value in vars(module).values() if isinstance(value, Task))
    return list(by_name(found).values())
