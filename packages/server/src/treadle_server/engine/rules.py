"""The server's settings about tasks and jobs, in the form that the engine uses."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from treadle.wire.options import OF_JOB
from treadle_server.domain.jobs import Job, OnRestart
from treadle_server.errors import InvalidCategory


def check_category(category: str, allowed: Collection[str], *, of: str = "") -> None:
    """Raise `InvalidCategory`, which names the setting, unless the category is allowed; `of` is the job's full name."""
    if category not in allowed:
        raise InvalidCategory(
            f"category {category!r}{f' of {of}' if of else ''} is not allowed; this server allows:"
            f" {', '.join(sorted(allowed))}. Use one of these, or add it to TREADLE_ALLOWED_CATEGORIES on the server"
        )


@dataclass(frozen=True, eq=False, slots=True)
class TaskDefaults:
    """The server's default of each task option, which applies when neither the call nor the job gives a value.

    Compared and hashed by identity: the merge with a job's options is looked up in a cache for every task.
    """

    values: Mapping[str, Any]


def defaults_with(**settings: Any) -> TaskDefaults:
    """Return the options' built-in defaults, overridden by the server's settings."""
    return TaskDefaults({name: option.default for name, option in OF_JOB.items()} | settings)


@lru_cache(maxsize=4096)
def _parsed(defaults: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(defaults)
    return found


@lru_cache(maxsize=4096)
def _merged(defaults: TaskDefaults, of_job: str) -> dict[str, Any]:
    options = {name: value for name, value in _parsed(of_job).items() if value is not None and name in OF_JOB}
    return {**defaults.values, **options}


def _with_increment(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with a heartbeat increment, which defaults to the length of a lease."""
    if options["heartbeat_increment"] is not None:
        return options
    return {**options, "heartbeat_increment": options["lease_seconds"]}


@lru_cache(maxsize=4096)
def _of_job(defaults: TaskDefaults, of_job: str) -> dict[str, Any]:
    return _with_increment(_merged(defaults, of_job))


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that the engine's commands need."""

    allowed_categories: frozenset[str] = frozenset({"tasks", "modifiers", "selections", "analysis"})
    worker_timeout: float = 60.0
    """Seconds without a heartbeat after which a worker is lost."""
    defaults: TaskDefaults = field(default_factory=defaults_with)
    internal_jobs: frozenset[str] = frozenset()
    """The full names of the `@internal` jobs that this server has executors for."""
    internal_timeout: float = 3600.0
    """Seconds from its claim after which a run of an `@internal` job is stuck."""
    on_restart: OnRestart = "requeue"
    needs_tokens: bool = False
    """Whether the tasks and schedules of a user without a valid token wait until there is one."""

    def has_executor(self, job: Job) -> bool:
        """Return whether tasks of the job may be submitted: an `@internal` job needs an executor on this server."""
        return not job.is_internal or job.full_name in self.internal_jobs

    def limits_of(self, job: Job) -> list[dict[str, Any]]:
        """Return the limits that the job's tasks count against, as its registration names them."""
        return _parsed(job.defaults).get("limits") or []

    def options(self, call: dict[str, Any], job: Job) -> dict[str, Any]:
        """Return each option of a task: the call's value, else the job's, else the server's; an explicit 0 counts."""
        if not call and not job.is_internal:
            return _of_job(self.defaults, job.defaults)
        given = {name: value for name, value in call.items() if value is not None}
        return _with_increment({**_merged(self.defaults, job.defaults), **given, **self.fixed(job)})

    def fixed(self, job: Job) -> dict[str, Any]:
        """Return the options that no call decides: an `@internal` task has the server's time limit, and no pool."""
        if not job.is_internal:
            return {}
        timeout = self.internal_timeout
        return {"lease_seconds": timeout, "heartbeat_increment": 0.0, "start_timeout": timeout, "pool": None}
