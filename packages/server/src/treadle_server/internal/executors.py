"""The interface of executors of `@internal` tasks, such as `treadle.internal.InternalRegistry`."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Protocol

from starlette.types import ASGIApp

from treadle.wire.modules import NotImported, imported
from treadle_server.errors import SettingUnusable


class Executors(Protocol):
    """Functions that run the tasks of `@internal` jobs, in this process or behind a broker."""

    @property
    def concurrency(self) -> int:
        """Return the most weight that is dispatched at once; further tasks wait in their queues."""
        ...

    @property
    def is_local(self) -> bool:
        """Return whether they run in this process, and end with it."""
        ...

    def jobs(self) -> Mapping[str, dict[str, Any]]:
        """Return the fields of `JobRegister` for each job, by full name."""
        ...

    async def open(self, app: ASGIApp) -> None:
        """Get ready for `dispatch`. Executors in this process report to `app`, without a socket."""
        ...

    async def dispatch(self, claim: dict[str, Any]) -> None:
        """Hand over a claim, in the JSON form of `Claim`, to be run once. Raises any error of the delivery."""
        ...

    def nudge(self) -> None:
        """Make executors in this process check at once whether their runs are cancelled or paused."""
        ...

    async def close(self) -> None:
        """Let runs in this process end, hand the rest back, and disconnect from the broker."""
        ...


_MEMBERS = ("concurrency", "is_local", "jobs", "open", "dispatch", "nudge", "close")


def load(named: str) -> Executors:
    """Return the executors named `module:name`; the module may be in the current directory.

    Raises `SettingUnusable` when there is no such module or name in it, the module ends the process, it is
    something else, or taskiq is missing. Other errors of the module are passed on, for its author.
    """
    module, colon, name = named.partition(":")
    if not (module and colon and name):
        raise SettingUnusable(f"internal: {named!r} is not of the form module:registry, for example app.jobs:registry")
    try:
        found: Any = imported(module)
    except NotImported as error:
        raise SettingUnusable(f"internal: {error}") from None
    except ImportError as error:
        if getattr(error.__cause__, "name", None) != "taskiq":
            raise
        raise SettingUnusable(
            "internal: tasks of the room @internal need taskiq: pip install 'treadle-server[internal]'"
        ) from None
    try:
        found = attrgetter(name)(found)
    except (AttributeError, SystemError):  # the latter is Python 3.13.0's, where the current directory was removed
        raise SettingUnusable(f"internal: the module {module} has no {name!r}: name its InternalRegistry") from None
    return check(found, named)


def check(found: Any, named: str = "internal") -> Executors:
    """Return `found`. Raises `SettingUnusable` unless it implements `Executors`."""
    missing = [member for member in _MEMBERS if not hasattr(found, member)]
    if missing:
        raise SettingUnusable(
            f"{named} is a {type(found).__name__} without {', '.join(missing)}: use an InternalRegistry"
        )
    executors: Executors = found
    return executors
