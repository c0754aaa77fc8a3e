"""What the server's settings say about tasks and jobs, in the form that the engine uses."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal

import orjson

from treadle_server.domain.jobs import Job
from treadle_server.errors import InvalidCategory

OnRestart = Literal["keep", "requeue", "backoff"]
"""What becomes of a run of an internal executor that was lost with its process."""


def check_category(category: str, allowed: Collection[str], *, of: str = "") -> None:
    """Raise `InvalidCategory`, which names the setting, unless the category is allowed; `of` is the job's full name."""
    if category not in allowed:
        raise InvalidCategory(
            f"category {category!r}{f' of {of}' if of else ''} is not allowed here; the server admits:"
            f" {', '.join(sorted(allowed))}. Use one of these, or add it to TREADLE_ALLOWED_CATEGORIES where the server"
            " runs"
        )


@dataclass(frozen=True, slots=True)
class TaskDefaults:
    """What holds for a task when neither the call nor its job says anything."""

    priority: int = 0
    max_retries: int = 0
    max_requeues: int = 0
    retry_base: float = 5.0
    retry_multiplier: float = 2.0
    retry_randomization: float = 0.0
    timeout: float | None = None
    lease_seconds: float = 60.0
    heartbeat_increment: float | None = None
    """None: as long as the lease."""
    start_timeout: float = 60.0
    on_failure: str = "hold"
    weight: int = 1
    budget: float | None = None
    pool: str | None = None


@lru_cache(maxsize=4096)
def _parsed(defaults: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(defaults)
    return found


@lru_cache(maxsize=4096)
def _merged(defaults: TaskDefaults, of_job: str) -> dict[str, Any]:
    options = {name: value for name, value in _parsed(of_job).items() if value is not None}
    return {**asdict(defaults), **options}


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that commands need."""

    allowed_categories: frozenset[str] = frozenset({"tasks", "modifiers", "selections", "analysis"})
    worker_timeout: float = 60.0
    """Seconds without a heartbeat after which a worker is lost."""
    defaults: TaskDefaults = field(default_factory=TaskDefaults)
    internal_jobs: frozenset[str] = frozenset()
    """The full names of the `@internal` jobs that this server has executors for."""
    internal_timeout: float = 3600.0
    """Seconds from its claim after which a run of an `@internal` job is stuck."""
    on_restart: OnRestart = "requeue"
    needs_tokens: bool = False
    """Whether what belongs to a user without a valid token stands still."""

    def has_executor(self, job: Job) -> bool:
        """Return whether a task of the job may be put in: an `@internal` one needs an executor on this server."""
        return not job.is_internal or job.full_name in self.internal_jobs

    def defaults_of(self, job: Job) -> dict[str, Any]:
        """Return what the job's registration says of its tasks."""
        return _parsed(job.defaults)

    def options(self, call: dict[str, Any], job: Job) -> dict[str, Any]:
        """Return each option of a task: the call's value, else the job's, else the server's; an explicit 0 counts."""
        base = _merged(self.defaults, job.defaults)
        options = {**base, **{name: value for name, value in call.items() if value is not None}} if call else base
        return options if not job.is_internal else options | self.fixed(job)

    def fixed(self, job: Job) -> dict[str, Any]:
        """Return what no call decides: of an `@internal` task its run's own limit, and there are no pools."""
        if not job.is_internal:
            return {}
        timeout = self.internal_timeout
        return {"lease_seconds": timeout, "heartbeat_increment": 0.0, "start_timeout": timeout, "pool": None}
