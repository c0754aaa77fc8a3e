"""How long a task waits before it is tried again.

The formula is Effectum's: base * multiplier ** attempt, lengthened at random by up to the fraction `randomization`. The
jitter keeps tasks that failed together from coming back together.
"""

from collections.abc import Callable
from datetime import timedelta

from treadle_server.domain.tasks import Task

Draw = Callable[[], float]
"""A source of random numbers in [0, 1)."""

CAP = timedelta(days=1)
"""The longest back-off, whatever the base and multiplier."""

REQUEUE_CAP = timedelta(seconds=60)


def backoff(attempt: int, *, base: float, multiplier: float, randomization: float, draw: float) -> timedelta:
    """Return the delay before retry number `attempt` (0 is the first).

    `base` is in seconds; `draw` is a random number in [0, 1). The result is at most `CAP`.
    """
    cap = CAP.total_seconds()
    if base == 0:
        return timedelta(0)
    try:
        delay = base * multiplier**attempt * (1 + draw * randomization)
    except OverflowError:
        delay = cap
    return timedelta(seconds=min(cap, delay))


def backoff_of(task: Task, attempt: int, draw: Draw) -> timedelta:
    """Return the task's own back-off before retry number `attempt`; 0 is the first."""
    return backoff(
        attempt,
        base=task.retry_base,
        multiplier=task.retry_multiplier,
        randomization=task.retry_randomization,
        draw=draw(),
    )


def requeue_delay(lost_before: int) -> timedelta:
    """Return how long a lost task waits that had been lost `lost_before` times before: 0, 1, 2, 4 … 60 s."""
    if lost_before == 0:
        return timedelta(0)
    return min(REQUEUE_CAP, timedelta(seconds=2 ** min(lost_before - 1, 10)))
