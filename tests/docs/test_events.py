"""Each event that anybody is told has its place in the pages: on the socket, of a task's history, to a webhook."""

import re
from pathlib import Path
from typing import get_args

from treadle.wire.frames import EventType, Push, Topic
from treadle.wire.runs import Report
from treadle.wire.status import TERMINAL
from treadle.wire.tasks import TaskEvent

DOCS = Path(__file__).parents[2] / "docs"
PROTOCOL = (DOCS / "protocol.md").read_text()


def of_table(head: str, column: int = 0) -> set[str]:
    """Return the names in a column, the first unless it is said, of each table whose head begins so."""
    tables = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PROTOCOL, re.MULTILINE)
    assert tables, f"there is no table of {head}"
    return {
        name for table in tables for row in table.splitlines() for name in re.findall(r"`([^`]+)`", cells(row)[column])
    }


def cells(row: str) -> list[str]:
    return row.strip("|").split("|")


def test_each_type_of_event_on_the_socket_is_described() -> None:
    assert of_table("type") == set(get_args(EventType))


def test_each_push_is_described() -> None:
    """In the tables of pushes, or by an example where an observer's are shown."""
    by_example = set(re.findall(r'\{"push": "(\w+)"', PROTOCOL))

    assert of_table("push") | by_example == set(get_args(Push))


def test_each_topic_that_can_be_watched_is_described() -> None:
    assert of_table("topic") == set(get_args(Topic))


def test_each_kind_of_what_happened_to_a_task_is_described() -> None:
    assert of_table("kind") == set(get_args(TaskEvent.model_fields["kind"].annotation))


def test_each_kind_of_report_is_described_with_fields_that_it_may_have() -> None:
    fields = Report.model_fields

    assert of_table("report") == set(get_args(fields["kind"].annotation))
    assert of_table("report", 1) == fields.keys() - {"kind", "task_id", "run_id"}


def test_each_event_that_a_webhook_is_sent_is_described() -> None:
    page = (DOCS / "webhooks.md").read_text()

    assert set(re.findall(r"`(task\.\w+)`", page)) == {f"task.{status}" for status in TERMINAL}
