"""The import of a task's module by the child process that runs it, without a worker of its own."""

import importlib
import runpy
import sys
from types import ModuleType

from treadle.errors import DefinitionError

MAIN = "__treadle_main__"
"""A script's `__name__` in the child, so that its `if __name__ == "__main__":` doesn't start another worker."""

_under_way: list[str] = []
"""What is being imported, in a child process."""


def load(origin: dict[str, str]) -> ModuleType:
    """Import a module by its name, or run the script at a path; raises whatever they raise."""
    _under_way.append(next(iter(origin.values())))
    try:
        if "module" in origin:
            return importlib.import_module(origin["module"])
        module = ModuleType(MAIN)
        sys.modules[MAIN] = module
        vars(module).update(runpy.run_path(origin["path"], run_name=MAIN))
        return module
    finally:
        _under_way.pop()


def check_may_begin() -> None:
    """Raise `DefinitionError` for a worker that starts while a child process imports the module of its task."""
    if _under_way:
        raise DefinitionError(
            f"{_under_way[-1]} runs a worker when it is imported, and a task with isolation='process' or a target is"
            ' imported in a child process: write `if __name__ == "__main__":` before Worker(…).run()'
        )
