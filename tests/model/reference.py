"""A pure, slow Treadle that is meant to be obviously right: what the real one does is compared with it.

It shares with the server the words of the wire and the table of transitions, and nothing else: dicts and lists, the
clock an argument, every question answered by looking at everything. `docs/model.md` explains a task's life from it.
"""

from collections import Counter
from dataclasses import fields
from datetime import datetime
from typing import Any

from tests.model.sweeps import Sweeps
from tests.model.things import Step, Task
from treadle.wire.status import Status

_HIDDEN = {
    "seq", "content", "usage_before", "goes_first", "unfenced", "updated_at", "limits", "schedule", "kept", "messages",
    "needs", "counts",
}  # fmt: skip
SHOWN = [field.name for field in fields(Task) if field.name not in _HIDDEN]
_CAUSES = ("running", "claimed", "stopping", "paused", "failed", "retry")


def written(value: Any) -> Any:
    """Return the value as JSON has it: instants end in Z."""
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


class Treadle(Sweeps):
    """The model, and how it shows itself: as the lists over HTTP do."""

    def shown(self, task: Task) -> dict[str, Any]:
        """Return the task as `TaskItem`."""
        data = {name: written(getattr(task, name)) for name in SHOWN}
        own = self.keys_in(task.room_id, task.limits)
        counts = sorted((*key[:2], key[2] or "", weight, key in own) for key, weight in task.counts.items())
        shown = {"queue_position": self.position(task), "blocked_by": self.blocked_by(task), "counts_against": counts}
        return data | shown

    def holders(self, target: tuple[str, str]) -> list[tuple[str, str]]:
        """Return what holds a target, each with its cause, live runs first."""
        found = []
        for task in self.tasks.values():
            if self.target_of(task) == target and self.holds_target(task):
                cause = "retry" if task.status is Status.SCHEDULED else task.status.value
                found.append((cause, self._since(task), task.id))
        for key, hold in self.holds.items():
            if hold.target == target:
                found.append(("stopping", self.runs[key].ended_at, hold.task_id))
        found.sort(key=lambda one: (_CAUSES.index(one[0]), *one[1:]))
        return [(task_id, cause) for cause, _, task_id in found]

    @staticmethod
    def _since(task: Task) -> datetime:
        at = {
            Status.CLAIMED: task.claimed_at,
            Status.RUNNING: task.started_at,
            Status.FAILED: task.completed_at,
        }.get(task.status, task.updated_at)
        assert at is not None
        return at

    def blocked_by(self, task: Task) -> list[str] | None:
        """Return the tasks whose end a pending one waits for."""
        if task.status is not Status.PENDING:
            return None
        target = self.target_of(task)
        ids = [] if target is None else [task_id for task_id, _ in self.holders(target)]
        ids += [task.id] if self.rests(task) else []
        return list(dict.fromkeys(ids)) or None

    def targets(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what is known of each target that a task has."""
        found = {}
        for target in {self.target_of(task) for task in self.tasks.values()} - {None}:
            assert target is not None
            waiting = [t for t in self.tasks.values() if t.status is Status.PENDING and self.target_of(t) == target]
            line = self.line(target)
            found[target] = {
                "holders": self.holders(target),
                "waiting": len(waiting),
                "next_task_id": line[0].id if line else None,
            }
        return found

    def counts(self, full_name: str) -> dict[str, int]:
        """Return how many tasks of the job are where."""
        return Counter(task.status.value for task in self.tasks.values() if task.job_name == full_name)

    def shown_runs(self, task_id: str) -> list[dict[str, Any]]:
        """Return the resolved runs of the task, as `RunItem`."""
        names = ("run_id", "status", "reason", "error", "worker_id", "usage", "claimed_at", "started_at", "ended_at")
        mine = sorted((run for run in self.runs.values() if run.task_id == task_id), key=lambda run: run.run_id)
        return [{name: written(getattr(run, name)) for name in names} for run in mine]

    @staticmethod
    def shown_step(step: Step) -> dict[str, Any]:
        """Return the step as `StepItem`."""
        return {field.name: written(getattr(step, field.name)) for field in fields(Step)}

    def shown_workers(self) -> dict[str, dict[str, Any]]:
        """Return by id what is shown of each worker."""
        return {
            worker.id: {
                "state": worker.state.value,
                "last_heartbeat": written(worker.last_heartbeat),
                "jobs": sorted(name for name in worker.jobs if not self.jobs[name].deleted),
                "used": self.weight_of(worker.id),
                "running": sorted((task.id, task.run_id) for task in self.runs_of(worker.id)),
            }
            for worker in self.workers.values()
        }

    def shown_schedules(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what is shown of each schedule, by room and name."""
        names = (
            "job_name", "cron", "interval", "missed", "paused", "payload", "options", "last_at", "last_task_id",
            "skipped_at", "skipped_for", "owner", "created_at", "version",
        )  # fmt: skip
        found = {}
        for key, one in self.schedules.items():
            if not one.deleted:
                last = None if one.last_task_id is None else self.tasks[one.last_task_id].status.value
                next_at = None if one.paused else written(one.next_at)
                told = {name: written(getattr(one, name)) for name in names}
                found[key] = told | {"next_at": next_at, "last_status": last}
        return found
