"""Treadle: a durable task queue that you can watch and steer from a terminal.

The SDK: `@task`, `Client`, `Worker` and what they need. Everything is loaded on first use, so that importing this
package, or `treadle.wire` beneath it, costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from treadle.version import __version__

if TYPE_CHECKING:
    from treadle import errors
    from treadle.client.bound import Bound
    from treadle.client.client import Client
    from treadle.client.current import current_client
    from treadle.client.handle import TaskHandle
    from treadle.client.limit import Limit
    from treadle.client.options import Options
    from treadle.client.sync import SyncClient, SyncHandle
    from treadle.errors import TaskCancelled, TaskFailed, TreadleError, WaitTimeout
    from treadle.ids import new_task_id
    from treadle.settings import Settings
    from treadle.tasks.chains import chain, group
    from treadle.tasks.context import Context
    from treadle.tasks.decorator import task
    from treadle.tasks.definition import Task
    from treadle.tasks.flows import Flow
    from treadle.tasks.outcomes import Intermittent, Interrupted, MalformedPayload, Pause, ResourceUnavailable, Retry
    from treadle.tasks.schedules import Cron, Every
    from treadle.worker.middleware import CallNext, Middleware
    from treadle.worker.worker import Worker


_HOMES = {
    "Bound": "treadle.client.bound",
    "CallNext": "treadle.worker.middleware",
    "Client": "treadle.client.client",
    "Context": "treadle.tasks.context",
    "Cron": "treadle.tasks.schedules",
    "Every": "treadle.tasks.schedules",
    "Flow": "treadle.tasks.flows",
    "Intermittent": "treadle.tasks.outcomes",
    "Interrupted": "treadle.tasks.outcomes",
    "Limit": "treadle.client.limit",
    "MalformedPayload": "treadle.tasks.outcomes",
    "Middleware": "treadle.worker.middleware",
    "Options": "treadle.client.options",
    "Pause": "treadle.tasks.outcomes",
    "ResourceUnavailable": "treadle.tasks.outcomes",
    "Retry": "treadle.tasks.outcomes",
    "Settings": "treadle.settings",
    "SyncClient": "treadle.client.sync",
    "SyncHandle": "treadle.client.sync",
    "Task": "treadle.tasks.definition",
    "TaskCancelled": "treadle.errors",
    "TaskFailed": "treadle.errors",
    "TaskHandle": "treadle.client.handle",
    "TreadleError": "treadle.errors",
    "WaitTimeout": "treadle.errors",
    "Worker": "treadle.worker.worker",
    "chain": "treadle.tasks.chains",
    "current_client": "treadle.client.current",
    "group": "treadle.tasks.chains",
    "new_task_id": "treadle.ids",
    "task": "treadle.tasks.decorator",
}
"""Where each public name is defined."""

__all__ = [
    "Bound",
    "CallNext",
    "Client",
    "Context",
    "Cron",
    "Every",
    "Flow",
    "Intermittent",
    "Interrupted",
    "Limit",
    "MalformedPayload",
    "Middleware",
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
    "chain",
    "current_client",
    "errors",
    "group",
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
