"""Treadle: a durable task queue that you can watch and steer from a terminal.

The SDK: `@task`, `Client`, `Worker` and what they need. Everything is loaded on first use, so that importing this
package, or `treadle.wire` beneath it, costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle import errors
    from treadle.client import Client
    from treadle.context import Context
    from treadle.current import current_client
    from treadle.errors import TaskCancelled, TaskFailed, TreadleError, WaitTimeout
    from treadle.handle import TaskHandle
    from treadle.ids import new_task_id
    from treadle.options import Options
    from treadle.outcomes import Intermittent, Interrupted, MalformedPayload, Pause, ResourceUnavailable, Retry
    from treadle.schedules import Cron, Every
    from treadle.settings import Settings
    from treadle.sync import SyncClient, SyncHandle
    from treadle.tasks import Bound, Task, task
    from treadle.worker import Worker

__version__ = "0.1.0"

_HOMES = {
    "Bound": "treadle.tasks",
    "Client": "treadle.client",
    "Context": "treadle.context",
    "Cron": "treadle.schedules",
    "Every": "treadle.schedules",
    "Intermittent": "treadle.outcomes",
    "Interrupted": "treadle.outcomes",
    "MalformedPayload": "treadle.outcomes",
    "Options": "treadle.options",
    "Pause": "treadle.outcomes",
    "ResourceUnavailable": "treadle.outcomes",
    "Retry": "treadle.outcomes",
    "Settings": "treadle.settings",
    "SyncClient": "treadle.sync",
    "SyncHandle": "treadle.sync",
    "Task": "treadle.tasks",
    "TaskCancelled": "treadle.errors",
    "TaskFailed": "treadle.errors",
    "TaskHandle": "treadle.handle",
    "TreadleError": "treadle.errors",
    "WaitTimeout": "treadle.errors",
    "Worker": "treadle.worker",
    "current_client": "treadle.current",
    "new_task_id": "treadle.ids",
    "task": "treadle.tasks",
}
"""Where each public name is defined."""

__all__ = [
    "Bound",
    "Client",
    "Context",
    "Cron",
    "Every",
    "Intermittent",
    "Interrupted",
    "MalformedPayload",
    "Options",
    "Pause",
    "ResourceUnavailable",
    "Retry",
    "Settings",
    "SyncClient",
    "SyncHandle",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskHandle",
    "TreadleError",
    "WaitTimeout",
    "Worker",
    "__version__",
    "current_client",
    "errors",
    "new_task_id",
    "task",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name == "errors":
        return importlib.import_module("treadle.errors")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'treadle' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
