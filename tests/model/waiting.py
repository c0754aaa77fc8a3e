"""The model's dependencies: what tasks mean for those that wait for them, and when these are told."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tests.model.reports import Reports
from tests.model.things import CIRCLE, INVALID, NO_TASK, Task
from treadle.wire.status import TERMINAL, Reason, Status
from treadle.wire.transitions import Verb

Item = Mapping[str, Any]


def named(depends_on: Mapping[str, str | Sequence[str]]) -> list[str]:
    """Return the refs and ids that an item depends on."""
    listed = [[said] if isinstance(said, str) else list(said) for said in depends_on.values()]
    return [word for words in listed for word in words]


def check_refs(given: Sequence[Item]) -> None:
    """Refuse a ref that nothing has, and tasks of a request that wait for each other in a circle, whatever is there."""
    refs = {one[name]: one for name in ("id", "ref") for one in given if name in one}

    def follow(one: Item, path: list[Item]) -> None:
        if any(one is other for other in path):
            raise CIRCLE
        for word in named(one.get("depends_on", {})):
            if word in refs:
                follow(refs[word], [*path, one])

    for one in given:
        if any(word not in refs and len(word) != 36 for word in named(one.get("depends_on", {}))):
            raise INVALID
    for one in given:
        follow(one, [])


class Waiting(Reports):
    """Tasks that wait for tasks."""

    def check_needs(self, given: Sequence[Item], one: Item) -> None:
        """Refuse to wait for what is not there."""
        refs = {other[name] for name in ("id", "ref") for other in given if name in other}
        if any(word not in refs and word not in self.tasks for word in named(one.get("depends_on", {}))):
            raise NO_TASK

    def is_met(self, task: Task, needs_id: str) -> bool:
        """Whether the task need not wait for that one any more."""
        status = self.tasks[needs_id].status
        return status is Status.COMPLETED or (task.on_dependency_failure == "run" and status in TERMINAL)

    def has_failed(self, task: Task, needs_id: str) -> bool:
        """Whether the other one has ended so that the task is to be cancelled."""
        is_over = self.tasks[needs_id].status in TERMINAL
        return is_over and task.on_dependency_failure == "cancel" and not self.is_met(task, needs_id)

    def count_anew(self, task: Task) -> None:
        """Count what the task waits for, as it is now."""
        if task.needs:
            task.waits_for = sum(not self.is_met(task, needs_id) for needs_id in task.needs)

    def ready(self, task: Task, now: datetime) -> Status:
        """Return where a task goes that is to run: it waits for tasks, then for its time, then in its queue."""
        if task.waits_for:
            return Status.BLOCKED
        return Status.SCHEDULED if task.scheduled_at > now else Status.PENDING

    def bind(self, task: Task, one: Item, ids: Mapping[str, str], now: datetime) -> None:
        """Let a new task wait for others; what they are already has its effect at once."""
        words = named(one.get("depends_on", {}))
        if not words:
            return
        task.needs = list(dict.fromkeys(ids.get(word, word) for word in words))
        task.on_dependency_failure = one.get("on_dependency_failure") or "cancel"
        self.count_anew(task)
        task.status = self.ready(task, now)
        self._fail_with(task, task.needs, now)

    def _fail_with(self, task: Task, needs: Sequence[str], now: datetime) -> None:
        failed = next((self.tasks[needs_id] for needs_id in needs if self.has_failed(task, needs_id)), None)
        if failed is not None:
            self.finish(task, Verb.CANCEL, Status.CANCELLED, now)
            task.reason, task.cancel_requested = Reason.DEPENDENCY_FAILED, False
            task.error = f"it depends on task {failed.id}, which is {failed.status.value}"

    def take_policy(self, task: Task, policy: str | None, now: datetime) -> None:
        """Change what failures mean for a task; those that were have it at once, where it still waits."""
        if policy is None or not task.needs:
            return
        task.on_dependency_failure = policy
        if task.status is Status.BLOCKED:
            self.count_anew(task)
            failed = [one for one in task.needs if self.has_failed(task, one)]
            self._go_on_with(task, sorted(failed, key=lambda one: self.tasks[one].seq), now)

    def _go_on_with(self, task: Task, failed: Sequence[str], now: datetime) -> None:
        """Cancel a task because of what has failed; else let it go on when it waits for nothing more."""
        if failed:
            self._fail_with(task, failed, now)
        elif task.status is Status.BLOCKED and not task.waits_for:
            task.scheduled_at = max(task.scheduled_at, now)
            self.move(task, Verb.UNBLOCK, self.ready(task, now), now)

    def follow(self, now: datetime, rounds: int | None = None) -> None:
        """Tell all that wait where those are that have ended or are to run again, and so on through the flow.

        After so many `rounds` the server has gone.
        """
        while self.news and rounds != 0:
            rounds = None if rounds is None else rounds - 1
            news = sorted(self.news, key=lambda task_id: self.tasks[task_id].seq)
            self.news = set()
            # Each is told what was so when this round began; whom it ends has others told in the next.
            told = [(task, [one for one in news if one in task.needs]) for task in self.tasks.values()]
            failed = {task.id: [one for one in about if self.has_failed(task, one)] for task, about in told}
            waiting = [task for task, about in told if about and self.waits(task)]
            for task in waiting:
                self.count_anew(task)
            for task in waiting:
                self._go_on_with(task, failed[task.id], now)

    @staticmethod
    def waits(task: Task) -> bool:
        """Whether it waits for others, or did when it was paused; what has begun is not changed any more."""
        return task.status is Status.BLOCKED or (task.status is Status.PAUSED and task.run_id is None)
