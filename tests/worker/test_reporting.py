"""Reports are kept in order until they are taken; leases are counted from before they were renewed."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from treadle.clock import monotonic
from treadle.errors import ConnectionLost, StaleRun, ValidationFailed, problem_named
from treadle.tasks import endings
from treadle.values import LONGEST_TEXT, clean
from treadle.worker.lease import Leases, abort_margin, stop_margin
from treadle.worker.reports import KEPT_LINES, Answer, Report, Reporter
from treadle.worker.watchdog import Watchdog

pytestmark = pytest.mark.anyio

Send = Callable[[list[Report]], Any]
REF = {"task_id": "t", "run_id": 0}


@asynccontextmanager
async def reporting(send: Send) -> AsyncIterator[tuple[Reporter, list[tuple[Report, Answer]]]]:
    answered: list[tuple[Report, Answer]] = []

    async def sending(reports: list[Report]) -> list[Answer]:
        statuses = send(reports)
        return [{**REF, "status": status, "type": "stale-run", "detail": "lost"} for status in statuses]

    reporter = Reporter(sending, lambda report, answer: answered.append((report, answer)))
    reporter.online.set()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(reporter.run())
        yield reporter, answered
        running.cancel()


async def test_reports_of_one_turn_go_together_and_ends_are_answered() -> None:
    batches: list[list[str]] = []

    def send(reports: list[Report]) -> list[int]:
        batches.append([report["kind"] for report in reports])
        return [200] * len(reports)

    async with reporting(send) as (reporter, answered):
        reporter.add({**REF, "kind": "started"})
        reporter.progress(("t", 0), 0.5, "half")
        reporter.line(("t", 0), "hello", "info")
        reporter.add({**REF, "kind": "completed", "result": 1})
        assert await reporter.flushed(5)

    assert batches == [["started", "progress", "logs", "completed"]]
    assert [report["kind"] for report, _ in answered] == ["completed"]


async def test_a_lost_answer_is_followed_by_the_same_reports() -> None:
    """T8."""
    batches: list[list[Report]] = []

    def send(reports: list[Report]) -> list[int]:
        batches.append(list(reports))
        if len(batches) == 1:
            raise ConnectionLost("gone")
        return [200] * len(reports)

    async with reporting(send) as (reporter, answered):
        reporter.add({**REF, "kind": "completed", "result": 1})
        assert await reporter.flushed(5)

    assert batches[0] == batches[1]
    assert len(answered) == 1


async def test_reports_that_go_again_go_before_those_that_came_meanwhile() -> None:
    """T8."""
    batches: list[list[str]] = []

    def send(reports: list[Report]) -> list[int]:
        batches.append([report["task_id"] for report in reports])
        if len(batches) == 1:
            reporter.add({**REF, "task_id": "later", "kind": "completed", "result": 2})
            raise ConnectionLost("gone")
        return [200] * len(reports)

    async with reporting(send) as (reporter, _):
        reporter.add({**REF, "kind": "completed", "result": 1})
        assert await reporter.flushed(5)

    assert batches == [["t"], ["t", "later"]]


async def test_nothing_is_sent_before_the_worker_is_open() -> None:
    sent: list[Report] = []

    def send(reports: list[Report]) -> list[int]:
        sent.extend(reports)
        return [200] * len(reports)

    async with reporting(send) as (reporter, _):
        reporter.online.clear()
        reporter.add({**REF, "kind": "completed"})
        assert not await reporter.flushed(0.05)
        assert sent == []
        reporter.online.set()
        assert await reporter.flushed(5)


async def test_one_bad_report_does_not_take_the_others_with_it() -> None:
    def send(reports: list[Report]) -> list[int]:
        if any(report.get("result") == "bad" for report in reports):
            raise ValidationFailed(problem_named("validation-error", "reports.1.result: bad"))
        return [200] * len(reports)

    async with reporting(send) as (reporter, answered):
        for result in ("good", "bad", "fine"):
            reporter.add({**REF, "kind": "completed", "result": result})
        assert await reporter.flushed(5)

    assert [(report["result"], answer["status"]) for report, answer in answered] == [
        ("good", 200), ("bad", 422), ("fine", 200),
    ]  # fmt: skip


async def test_a_checkpoint_of_a_lost_run_raises() -> None:
    """E3, G3."""
    async with reporting(lambda reports: [409] * len(reports)) as (reporter, _):
        with pytest.raises(StaleRun, match="lost"):
            await reporter.confirm({**REF, "kind": "checkpoint", "checkpoint": 1})


async def test_lines_that_come_too_fast_are_left_out_and_counted() -> None:
    lines: list[dict[str, Any]] = []

    def send(reports: list[Report]) -> list[int]:
        lines.extend(line for report in reports for line in report.get("lines", ()))
        return [200] * len(reports)

    async with reporting(send) as (reporter, _):
        for number in range(KEPT_LINES + 10):
            reporter.line(("t", 0), f"line {number}", "info")
        reporter.add({**REF, "kind": "completed"})
        assert await reporter.flushed(5)

    assert len(lines) == KEPT_LINES
    assert lines[0]["message"] == "11 lines were logged too fast and left out"
    assert lines[-1]["message"] == f"line {KEPT_LINES + 9}"


async def test_a_lease_is_counted_from_before_the_renewal_was_sent() -> None:
    """G5."""
    sent: list[dict[str, Any]] = []

    async def beat(body: dict[str, Any]) -> dict[str, Any]:
        sent.append(body)
        await asyncio.sleep(0.05)
        return {"taken_until": [{"task_id": "t", "run_id": 0, "seconds_left": 10}], "cancel": [REF]}

    leases = Leases(beat)
    held = leases.add({"id": "t", "run_id": 0, "seconds_left": 1, "target": "robot"}, monotonic())
    held.usage = 2.5
    before = monotonic()
    assert await leases.beat()

    assert sent == [{"tasks": [{**REF, "usage": 2.5}]}]
    assert before + 10 <= held.expires < before + 10.05
    assert held.stop == "cancel"


async def test_the_code_of_a_target_is_stopped_before_its_lease_ends() -> None:
    """G5."""
    stopped = asyncio.Event()
    leases = Leases(lambda _: asyncio.sleep(0, {}))
    held = leases.add({"id": "t", "run_id": 0, "seconds_left": 1.0, "target": "robot"}, monotonic())
    held.stop_code = stopped.set

    leases.guard(held)
    async with asyncio.timeout(20):
        await stopped.wait()

    assert held.stop == "lease"
    assert monotonic() < held.expires
    assert stop_margin(60) > abort_margin(60) > 0


def test_a_cancel_outranks_a_pause_and_nothing_else_changes_the_first_reason() -> None:
    leases = Leases(lambda _: asyncio.sleep(0, {}))
    held = leases.add({"id": "t", "run_id": 0}, monotonic())

    for why in ("pause", "pause", "cancel", "timeout"):
        leases.stop_runs([REF], why)

    assert held.stop == "cancel"


def test_results_and_errors_become_reports_that_any_store_keeps() -> None:
    assert endings.completed({"a": (1, 2)}) == {"kind": "completed", "result": {"a": [1, 2]}}
    refused = endings.completed(object())
    assert (refused["kind"], refused["reason"]) == ("exception", "internal-error")
    assert "is no JSON" in refused["error"]
    assert endings.raised(ValueError("a\x00b\ud800"))["error"] == "ValueError: a\\x00b\\ud800"
    assert len(clean("x" * 3_000_000)) <= LONGEST_TEXT


async def test_a_target_that_can_not_be_stopped_ends_its_process_before_its_lease_does() -> None:
    """G5: the watchdog is a thread, which a blocked event loop doesn't stop."""
    aborted = threading.Event()
    killed = threading.Event()
    leases = Leases(lambda _: asyncio.sleep(0, {}))
    coroutine = leases.add({"id": "c", "run_id": 0, "seconds_left": 4.0, "target": "robot"}, monotonic())
    process = leases.add({"id": "p", "run_id": 0, "seconds_left": 4.0, "target": "arm"}, monotonic())
    process.kill = killed.set
    for held in (coroutine, process):
        held.code_runs = True
        leases.guard(held)
    watchdog = Watchdog(leases, abort=aborted.set)

    watchdog.start()
    both = aborted.wait(20) and killed.wait(20)  # Blocks the loop, as bad code would.
    watchdog.stop()

    assert both
    assert monotonic() < max(coroutine.expires, process.expires)
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
