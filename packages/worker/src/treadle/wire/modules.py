"""Imports users' modules that are named on the command line; they may be in the current directory."""

import importlib
import os
import sys
from contextlib import suppress
from types import ModuleType


class NotImported(Exception):
    """A module can't be imported by its name; the message says why, and what to write instead."""


class ExitedAtImport(NotImported):
    """A module called `sys.exit` when it was imported."""


def imported(name: str) -> ModuleType:
    """Import a module, by its name as in `import` or by its file as a shell completes it.

    Raises `NotImported` if the name is invalid or there is no such module, and `ExitedAtImport`. Errors of the module
    itself, a missing import included, are passed on with the whole traceback, for its author.
    """
    # If the current directory was removed, installed modules are still found.
    with suppress(FileNotFoundError):
        here = os.getcwd()  # noqa: PTH109 - what goes into sys.path is text
        if here not in sys.path:
            sys.path.insert(0, here)
    module = name
    if name.endswith(".py"):
        # A package is named by its folder; `__init__` would import it a second time.
        module = name.removeprefix("./").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if not all(part.isidentifier() for part in module.split(".")):
        raise NotImported(f"{name!r} is not a module name: write it as in `import`, for example examples.hello")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise NotImported(f"there is no module {module!r}, neither here nor installed") from None
        raise
    except SystemExit as error:
        # A script without `if __name__ == "__main__"` may do this; the process would end without a message.
        raise ExitedAtImport(
            f"{module} called sys.exit when it was imported (SystemExit: {error.code}): move its script code"
            " under `if __name__ == '__main__':`"
        ) from None
