"""How many tasks of each job ended lately: counted as they are committed, kept in memory for five minutes."""

from collections import Counter, deque
from typing import Any

from treadle.wire.status import TERMINAL, Status
from treadle_server.clock import Clock
from treadle_server.engine.hub import Batch

STEP_SECONDS = 10
STEPS = 30


class Rates:
    """Ends per job in steps of ten seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step = self._now()
        self._completed: dict[int, deque[int]] = {}
        self._failed: dict[int, deque[int]] = {}

    def _now(self) -> int:
        return int(self._clock.monotonic() // STEP_SECONDS)

    def heed(self, batch: Batch) -> None:
        """Count what a commit ended."""
        self.roll()
        for status, kind in ((Status.COMPLETED, self._completed), (Status.FAILED, self._failed)):
            ended = Counter(task.job_num for task, was in batch.tasks if task.status is status and was not in TERMINAL)
            for job_num, n in ended.items():
                kind.setdefault(job_num, deque([0] * STEPS, STEPS))[-1] += n

    def roll(self) -> bool:
        """Let time pass; return whether a step has ended that anything happened in, or fell out of."""
        passed = self._now() - self._step
        if passed <= 0:
            return False
        self._step += passed
        changed = False
        for kind in (self._completed, self._failed):
            for job_num, steps in list(kind.items()):
                changed = True
                steps.extend([0] * min(passed, STEPS))
                if not any(steps):
                    del kind[job_num]
        return changed

    def history(self, job_num: int) -> dict[str, Any]:
        """Return the job's last five minutes as `QueueHistory`."""
        return {
            "step_seconds": STEP_SECONDS,
            "completed": list(self._completed.get(job_num, _NOTHING)),
            "failed": list(self._failed.get(job_num, _NOTHING)),
        }


_NOTHING = (0,) * STEPS
