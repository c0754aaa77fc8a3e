"""Reports are kept in order until they are taken."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from treadle.errors import ConnectionLost, PayloadTooLarge, StaleRun, StoreUnavailable, ValidationFailed, problem_named
from treadle.wire.fields import LONGEST_OUTPUT
from treadle.wire.runs import LINES_AT_ONCE
from treadle.worker import reports
from treadle.worker.reports import MUCH, Answer, ReportData, Reporter, name_of

pytestmark = pytest.mark.anyio

Send = Callable[[list[ReportData]], Any]
REF = {"task_id": "t", "run_id": 0}


@asynccontextmanager
async def reporting(send: Send) -> AsyncIterator[tuple[Reporter, list[tuple[ReportData, Answer]]]]:
    answered: list[tuple[ReportData, Answer]] = []

    async def sending(reports: list[ReportData]) -> list[Answer]:
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

    def send(reports: list[ReportData]) -> list[int]:
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
    batches: list[list[ReportData]] = []

    def send(reports: list[ReportData]) -> list[int]:
        batches.append(list(reports))
        if len(batches) == 1:
            raise ConnectionLost("gone")
        return [200] * len(reports)

    async with reporting(send) as (reporter, answered):
        reporter.add({**REF, "kind": "completed", "result": 1})
        assert await reporter.flushed(5)

    assert batches[0] == batches[1]
    assert len(answered) == 1


async def test_that_reports_wait_is_said_once_and_not_at_each_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A database that was away for an hour had each of its workers write a line a second."""
    monkeypatch.setattr(reports, "PAUSE", 0.0)
    tries: list[int] = []

    def send(batch: list[ReportData]) -> list[int]:
        tries.append(len(batch))
        if len(tries) not in {4, 8}:
            raise StoreUnavailable(problem_named("store-unavailable", "the disk is full"))
        return [200] * len(batch)

    async with reporting(send) as (reporter, _):
        for _ in range(2):
            reporter.add({**REF, "kind": "completed", "result": 1})
            assert await reporter.flushed(5)

    assert len(tries) == 8
    said = [record.getMessage() for record in caplog.records]
    assert said == ["reports could not be sent yet: Store unavailable: the disk is full; trying again"] * 2, (
        "once for each time"
    )


@pytest.mark.parametrize("odd", [[], [{}], [7], [{"status": "200"}], [{"status": 200}] * 2, {}, None])
async def test_answers_that_can_not_be_read_are_told_and_the_same_reports_are_sent_again(
    odd: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each was called a bug, with a traceback a second."""
    monkeypatch.setattr(reports, "PAUSE", 0.0)
    batches: list[list[ReportData]] = []

    async def send(reports: list[ReportData]) -> list[Answer]:
        batches.append(list(reports))
        return odd if len(batches) < 3 else [{"status": 200}]

    reporter = Reporter(send, lambda *_: None)
    reporter.online.set()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(reporter.run())
        reporter.add({**REF, "kind": "completed", "result": 1})
        assert await reporter.flushed(5)
        running.cancel()

    assert batches[0] == batches[1] == batches[2]
    assert caplog.text.count("reports could not be sent yet: the server's answer can't be read") == 1
    assert not [record for record in caplog.records if record.exc_info]


async def test_reports_that_go_again_go_before_those_that_came_meanwhile() -> None:
    """T8."""
    batches: list[list[str]] = []

    def send(reports: list[ReportData]) -> list[int]:
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
    sent: list[ReportData] = []

    def send(reports: list[ReportData]) -> list[int]:
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
    def send(reports: list[ReportData]) -> list[int]:
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


async def test_why_a_report_was_refused_is_said_once() -> None:
    def send(reports: list[ReportData]) -> list[int]:
        raise PayloadTooLarge(problem_named("payload-too-large", "the request has 17 MB"))

    async with reporting(send) as (reporter, _):
        with pytest.raises(PayloadTooLarge) as refused:
            await reporter.confirm({**REF, "kind": "step", "result": "x"})

    assert str(refused.value) == "Payload too large: the request has 17 MB"


async def test_lines_that_come_too_fast_are_left_out_and_counted() -> None:
    lines: list[dict[str, Any]] = []

    def send(reports: list[ReportData]) -> list[int]:
        lines.extend(line for report in reports for line in report.get("lines", ()))
        return [200] * len(reports)

    async with reporting(send) as (reporter, _):
        for number in range(LINES_AT_ONCE + 10):
            reporter.line(("t", 0), f"line {number}", "info")
        reporter.add({**REF, "kind": "completed"})
        assert await reporter.flushed(5)

    assert len(lines) == LINES_AT_ONCE
    assert lines[0]["message"] == "11 lines were dropped, because they were logged too fast"
    assert lines[-1]["message"] == f"line {LINES_AT_ONCE + 9}"


async def test_long_lines_are_left_out_and_counted_before_they_are_a_request_that_no_server_takes() -> None:
    lines: list[dict[str, Any]] = []

    def send(reports: list[ReportData]) -> list[int]:
        # What a server takes at once (max_body_bytes), each character written in six bytes.
        assert (
            sum(6 * len(line["message"]) for report in reports for line in report.get("lines", ())) < 16 * 1024 * 1024
        )
        lines.extend(line for report in reports for line in report.get("lines", ()))
        return [200] * len(reports)

    async with reporting(send) as (reporter, _):
        for number in range(100):
            reporter.line(("t", 0), f"{number}".ljust(LONGEST_OUTPUT, "\x1b"), "info")
        assert await reporter.flushed(5)

    assert [line["message"][:10].strip("\x1b") for line in lines] == ["99 lines w", "99"]


async def test_lines_that_are_too_much_for_the_server_go_in_parts_each_once_and_one_that_is_alone_is_refused() -> None:
    """They were lost together, and of a run that was over without a word."""
    lines: list[str] = []
    is_cut = False

    def send(reports: list[ReportData]) -> list[int]:
        nonlocal is_cut
        said = [line["message"] for report in reports for line in report.get("lines", ())]
        if sum(map(len, said)) > 100:
            raise PayloadTooLarge(problem_named("payload-too-large", "send less at a time"))
        if "line 9" in said and not is_cut:
            is_cut = True
            raise ConnectionLost("gone")
        lines.extend(said)
        return [200] * len(reports)

    async with reporting(send) as (reporter, answered):
        for number in range(40):
            reporter.line(("t", 0), f"line {number}" if number != 20 else "x" * 101, "info")
        reporter.add({**REF, "kind": "completed"})
        assert await reporter.flushed(5)

    assert lines == [f"line {number}" for number in range(40) if number != 20]
    assert [(name_of(report), answer["status"]) for report, answer in answered] == [
        ("logs report of a line of 101 characters", 413),
        ("completed report", 200),
    ]


async def test_as_many_requests_are_under_way_as_the_server_says_each_of_much_that_depends_on_nothing() -> None:
    asked: list[int] = []
    may_answer = asyncio.Event()

    async def sending(reports: list[ReportData]) -> list[Answer]:
        asked.append(len(reports))
        await may_answer.wait()
        return [{**REF, "status": 200}] * len(reports)

    reporter = Reporter(sending, lambda *_: None, at_once=lambda: 3)
    reporter.online.set()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(reporter.run())
        for n in range(5):
            for k in range(MUCH):
                reporter.add({"task_id": f"{n}-{k}", "run_id": 0, "kind": "completed", "starts": True})
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert asked == [MUCH] * 3, "the others wait for an answer"

        may_answer.set()
        assert await reporter.flushed(5)
        running.cancel()
    assert sum(asked) == 5 * MUCH
