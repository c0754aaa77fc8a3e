"""What the watchdog ends with its lease, and what it leaves a moment (G5)."""

import asyncio
import threading
from functools import partial

import pytest

from treadle.clock import monotonic
from treadle.worker.lease import Leases
from treadle.worker.watchdog import Watchdog

pytestmark = pytest.mark.anyio


async def test_a_target_that_can_not_be_stopped_ends_its_process_before_its_lease_does() -> None:
    """G5: the watchdog is a thread, which a blocked event loop doesn't stop."""
    ends: dict[str, float] = {}
    ended = threading.Event()

    def end(what: str) -> None:
        ends.setdefault(what, monotonic())
        if len(ends) == 2:
            ended.set()

    leases = Leases(lambda _: asyncio.sleep(0, {}))
    # All but three seconds of the lease have passed: of a long one the last half second is left for the end.
    since = monotonic() - 7
    coroutine = leases.add({"id": "c", "run_id": 0, "seconds_left": 10.0, "target": "robot"}, since)
    process = leases.add({"id": "p", "run_id": 0, "seconds_left": 10.0, "target": "arm"}, since)
    process.kill = partial(end, "process")
    for held in (coroutine, process):
        held.code_runs = True
        leases.guard(held)
    watchdog = Watchdog(leases, abort=partial(end, "coroutine"))

    watchdog.start()
    both = ended.wait(20)  # Blocks the loop, as bad code would.
    watchdog.stop()

    assert both
    assert max(ends.values()) < coroutine.expires == process.expires
    for held in (coroutine, process):
        leases.drop(held)


async def test_code_that_was_frozen_with_its_worker_has_a_second_to_stop_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that woke on a busy machine had 50 ms, and ended itself though its code would have stopped."""
    now = 0.0
    monkeypatch.setattr("treadle.worker.watchdog.monotonic", lambda: now)
    aborted: list[float] = []
    leases = Leases(lambda _: asyncio.sleep(0, {}))
    held = leases.add({"id": "c", "run_id": 0, "seconds_left": 0.4, "target": "robot"}, now)
    held.code_runs, held.stop = True, "lease"
    held.timer = asyncio.get_running_loop().call_later(60, lambda: None)
    watchdog = Watchdog(leases, abort=lambda: aborted.append(now))

    now = 9.0
    watchdog._end_lost_targets(was_frozen=True)
    now = 9.9
    watchdog._end_lost_targets(was_frozen=False)
    assert aborted == []
    now = 10.05
    watchdog._end_lost_targets(was_frozen=False)
    assert aborted == [10.05]
    leases.drop(held)


async def test_code_that_woke_before_its_lease_ended_has_no_moment_longer_g5(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("treadle.worker.watchdog.monotonic", lambda: now)
    aborted: list[float] = []
    leases = Leases(lambda _: asyncio.sleep(0, {}))
    held = leases.add({"id": "c", "run_id": 0, "seconds_left": 6.0, "target": "robot"}, now)
    held.code_runs, held.stop = True, "lease"
    held.timer = asyncio.get_running_loop().call_later(60, lambda: None)
    watchdog = Watchdog(leases, abort=lambda: aborted.append(now))

    now = held.last_moment - 0.1
    watchdog._end_lost_targets(was_frozen=True)
    assert aborted == []
    now = held.last_moment
    watchdog._end_lost_targets(was_frozen=False)

    assert aborted == [held.last_moment]
    leases.drop(held)


async def test_a_process_is_told_again_and_again_that_its_worker_goes_on() -> None:
    """Also while the loop is blocked, as here."""
    told: list[float] = []
    twice = threading.Event()

    def tell() -> None:
        told.append(monotonic())
        if len(told) == 2:
            twice.set()

    leases = Leases(lambda _: asyncio.sleep(0, {}))
    leases.add({"id": "p", "run_id": 0, "seconds_left": 10.0}, monotonic()).goes_on = tell
    watchdog = Watchdog(leases)

    watchdog.start()
    was_told = twice.wait(20)
    watchdog.stop()

    assert was_told
