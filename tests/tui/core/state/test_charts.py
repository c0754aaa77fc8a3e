"""Charts over five minutes, an hour and a day: what was measured, and nothing for what was not."""

from datetime import timedelta
from typing import Any

import pytest

from tests.tui.mock import NOON
from tests.tui.scene import at, job
from treadle.wire.jobs import JobItem
from treadle_tui.core.draw.spans import SPANS, USUAL, after
from treadle_tui.core.state.charts import charted, measured_since, throughput, together

HOUR, DAY = SPANS["hour"], SPANS["day"]


def queue(*, since: float = 86_400 * 2, completed: list[int] | None = None, **more: Any) -> JobItem:
    row = job("lab:tasks:add", 1, counts={}, wave=0, oldest=None, workers=[])
    row["stats"]["since"] = at(since)
    row["history"]["completed"] = [0] * 27 + [6, 3, 1] if completed is None else completed
    return JobItem.model_validate({**row, **more})


def history(seconds: int, *completed: int) -> dict[str, Any]:
    return {"step_seconds": seconds, "completed": list(completed), "failed": [0] * len(completed)}


def test_each_span_is_followed_by_the_next_and_the_last_by_the_first() -> None:
    assert [after(span) for span in (USUAL, HOUR, DAY)] == [HOUR, DAY, USUAL]
    assert [span.seconds for span in SPANS.values()] == [300, 3600, 86_400]


def test_queues_are_added_up_step_by_step_from_the_newest() -> None:
    one, other, idle = queue(past=[history(60, 1, 2)]), queue(completed=[5]), queue(completed=[0] * 30)
    told = [each.history for each in (one, other, idle) if each.history is not None]

    (summed,) = together(told)
    assert charted(queue(completed=summed.completed), USUAL, NOON).completed == [0] * 27 + [6, 3, 6]
    assert [found.step_seconds for found in together([*told, *(one.past or ())])] == [10, 60]


@pytest.mark.parametrize(("since", "known"), [(65, 7), (300, 30), (4, 1), (-3, 1)])
def test_what_was_before_the_server_began_to_measure_is_unknown_and_not_zero(since: float, known: int) -> None:
    found = charted(queue(since=since, completed=[2] * 30), USUAL, NOON)

    assert found.completed == [None] * (30 - known) + [2] * known
    assert found.failed[: 30 - known] == [None] * (30 - known)


def test_an_hour_and_a_day_come_from_what_the_server_keeps_of_them() -> None:
    row = queue(past=[history(60, *range(60)), history(1800, *range(48))])

    assert charted(row, HOUR, NOON).completed == list(range(60))
    assert charted(row, DAY, NOON).completed == list(range(48))
    assert throughput(row, HOUR, NOON).completed[-1] == pytest.approx(59 / 60)


def test_a_span_in_which_nothing_ended_is_zero_and_one_that_an_older_server_does_not_know_is_unknown() -> None:
    assert charted(queue(past=[]), HOUR, NOON).completed == [0] * 60
    assert charted(queue(past=None), HOUR, NOON).completed == [None] * 60
    assert charted(queue(history=None), USUAL, NOON).completed == [None] * 30


def test_rates_are_those_of_the_last_half_minute_whatever_is_charted() -> None:
    row = queue(completed=[0] * 26 + [30, 30, 30, 7], past=[history(60, 1)])

    assert {throughput(row, span, NOON).completed_rate for span in SPANS.values()} == {3.0}


def test_since_when_is_told_only_where_it_is_within_the_span() -> None:
    row = queue(since=1800)

    assert measured_since(row, USUAL, NOON) is None
    assert measured_since(row, HOUR, NOON) == NOON - timedelta(seconds=1800)
    assert measured_since(queue(stats=None), DAY, NOON) is None
