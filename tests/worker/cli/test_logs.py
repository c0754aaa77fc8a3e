"""`treadle logs`: the lines of a task's code, those that are there and those that come."""

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.worker.cli.conftest import Command, Shop
from treadle.cli import logs as module
from treadle.cli.logs import newer
from treadle.wire.runs import LogItem

AT = datetime(2026, 11, 29, 9, 30, 12, tzinfo=UTC)


def line(n: int, run: int = 0) -> LogItem:
    return LogItem(run_id=run, at=AT + timedelta(seconds=n), level="info", message=f"line {n}")


def logged(shop: Shop, task_id: str, *lines: int, run: int = 0) -> None:
    told = [{"at": line(n).at.isoformat(), "level": "info", "message": f"line {n}"} for n in lines]
    shop.report(task_id, "logs", run=run, lines=told)


def test_the_lines_of_a_task_are_printed_and_those_of_a_later_run_say_so(command: Command, shop: Shop) -> None:
    task = shop.submit(max_retries=1, retry_base=0)
    shop.start(task)
    logged(shop, task, 1, 2)
    shop.report(task, "failed", error="x")
    shop.start(task)
    logged(shop, task, 3, run=1)

    assert command.said("logs", task).splitlines() == [
        "09:30:13 info    line 1",
        "09:30:14 info    line 2",
        "run 1 09:30:15 info    line 3",
    ]
    assert command.said("logs", task[:-1], "--lines", "1") == "run 1 09:30:15 info    line 3\n"
    assert command.said("logs", task, "--lines", "0") == ""
    assert [one["message"] for one in command.read("logs", task)] == ["line 1", "line 2", "line 3"]
    assert "no task's id begins with" in command.refused("logs", "00000000")


@pytest.mark.parametrize("is_json", [False, True])
def test_followed_lines_are_printed_as_they_come_until_the_task_has_ended(
    command: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch, is_json: bool
) -> None:
    task = shop.submit()
    shop.start(task)
    logged(shop, task, 1, 2)
    looks = threading.Semaphore(0)
    printed: list[int] = []
    begun = module._print

    def print_and_tell(lines: Any, *, is_json: bool) -> None:
        begun(lines, is_json=is_json)
        printed.append(len(lines))
        looks.release()

    monkeypatch.setattr(module, "_print", print_and_tell)
    monkeypatch.setattr(module, "PAUSE", 0.0)

    def work() -> None:
        looks.acquire()
        logged(shop, task, 3)
        while sum(printed) < 2:
            looks.acquire()
        shop.report(task, "completed")

    worker = threading.Thread(target=work)
    worker.start()
    said = command.said("logs", task, "-f", "--lines", "1", *(["--json"] if is_json else [])).splitlines()
    worker.join()

    told = [json.loads(one)["message"] for one in said] if is_json else [one.partition("info    ")[2] for one in said]
    assert told == ["line 2", "line 3"]


@pytest.mark.parametrize(
    ("known", "found", "new"),
    [
        ([], [], []),
        ([], [1, 2], [1, 2]),
        ([1, 2], [1, 2], []),
        ([1, 2], [1, 2, 3], [3]),
        ([1, 2, 3], [2, 3, 4], [4]),
        ([1, 2], [3, 4], [3, 4]),
        ([1, 1], [1, 1, 1], [1]),
    ],
)
def test_what_came_after_the_known_lines_is_new(known: list[int], found: list[int], new: list[int]) -> None:
    assert newer([line(n) for n in known], [line(n) for n in found]) == [line(n) for n in new]
