"""Modules of the user's that commands are given by name: they may lie in the current directory."""

import importlib
import os
import sys
from contextlib import suppress
from types import ModuleType


class NotImported(Exception):
    """A module that can't be had by its name; the message says why, and what to write instead."""


class ExitedAtImport(NotImported):
    """A module that ended its process when it was imported."""


def imported(name: str) -> ModuleType:
    """Import a module, by its name as in `import` or by its file as a shell completes it.

    Raises `NotImported` for what is no module's name, where there is none of that name, and `ExitedAtImport`; whatever
    else it raises itself is its author's to see, with the whole traceback: what it imports and does not find, too.
    """
    # One that was removed has no module: those that are installed are found.
    with suppress(FileNotFoundError):
        here = os.getcwd()  # noqa: PTH109 - what goes into sys.path is text
        if here not in sys.path:
            sys.path.insert(0, here)
    module = name
    if name.endswith(".py"):
        # A package is its folder, and would be imported a second time as a module in it.
        module = name.removeprefix("./").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if not all(part.isidentifier() for part in module.split(".")):
        raise NotImported(f"{name!r} is no module's name: write it as in `import`, for example examples.hello")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise NotImported(f"there is no module {module!r} here or among the installed ones") from None
        raise
    except SystemExit as error:
        # As the end of a script does without `if __name__ == "__main__"`; the process would go without a word.
        raise ExitedAtImport(
            f"{module} called sys.exit when it was imported (SystemExit: {error.code}): put what it does as a script"
            " under `if __name__ == '__main__':`"
        ) from None
