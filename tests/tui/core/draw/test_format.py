"""Numbers, ages, bars and sparklines are short, aligned and honest."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tui.mock import NOON
from tests.tui.scene import at, task
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.format import (
    age,
    bar,
    clock,
    lasted,
    number,
    one_line,
    period,
    rate,
    signed,
    sparkline,
    spread,
    task_state,
    total,
)
from treadle_tui.core.draw.glyphs import ASCII, UNICODE
from treadle_tui.core.draw.text import plain, width


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"),
        (-5, "0s"),
        (0.4, "0s"),
        (48, "48s"),
        (62, "1m02"),
        (760, "12m40"),
        (7500, "2h05"),
        (273_600, "3d04"),
        (412 * 86_400, "412d"),
        (1_234 * 86_400, "3.4y"),
        (1e18, "9999y"),
    ],
)
def test_an_age_is_told_in_its_two_largest_units(seconds: float | None, shown: str) -> None:
    assert age(seconds) == shown


@given(st.floats(allow_nan=True, allow_infinity=True))
@example(1_000.0 * 86_400)
@example(99.95 * 31_557_600)
def test_every_age_fits_into_its_column_of_five_cells(seconds: float) -> None:
    assert len(age(seconds)) <= 5


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (9417, "9,417"), (123_456_789, "123.5M"), (2**63, "9.2E"), (-(2**63), "-9.2E")]
)
def test_a_number_that_is_too_long_is_told_in_larger_units(value: int, shown: str) -> None:
    assert number(value) == shown


def test_a_number_takes_no_more_room_than_there_is() -> None:
    """A column of five cells showed 123,456 as `123.…`, which may be thousands or millions."""
    told = [number(value, cells=5) for value in (99_999, 123_456, 999_499, 999_500, 123_456_789, 2**63)]

    assert told == ["100k", "123k", "999k", "1.0M", "123M", "9.2E"]
    assert [number(value, cells=4) for value in (9_999, 10_028)] == ["10k", "10k"]
    assert [number(value, cells=3) for value in (999, 2_000)] == ["999", "2k"]


def test_a_length_that_was_set_keeps_its_parts_of_a_second() -> None:
    shown = [period(seconds) for seconds in (0.001, 1.5, 30.0, 90.0, 5400.0)]

    assert shown == ["0.001s", "1.5s", "30s", "1m30", "1h30"]


def test_a_capped_total_says_so() -> None:
    assert total(10_000, capped=True) == "10,000+"
    assert total(812, capped=False) == "812"


def test_rates_and_growth_are_told_with_what_matters() -> None:
    assert (rate(41.23), rate(12_345)) == ("41.2", "12,345")
    assert (signed(18.2), signed(-0.4), signed(0.01)) == ("+18/s", "-0.4/s", "")


def test_a_sparkline_starts_at_zero_and_gives_zero_a_level_of_its_own() -> None:
    assert sparkline([0, 1, 50, 100], 4, UNICODE) == "▁▂▄▇"
    assert sparkline([100, 100, 100], 3, UNICODE) == "▇▇▇"
    assert sparkline([], 3, UNICODE) == "   "
    assert sparkline([None, 0, 9], 4, UNICODE) == "  ▁▇"


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(1, 30), st.sampled_from([ASCII, UNICODE]))
def test_a_bar_takes_its_cells_and_only_the_whole_is_full(share: float, cells: int, glyphs: object) -> None:
    assert isinstance(glyphs, type(ASCII))
    drawn = bar(share, cells, glyphs)

    assert width(drawn) == cells
    if share < 1 and cells > 1:
        assert plain(drawn) != glyphs.full * cells


def test_ten_megabytes_of_json_are_shown_without_being_written_out() -> None:
    value = {"rows": ["x" * 1000] * 10_000}

    assert len(one_line(value, UNICODE)) <= 200


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({"status": "running"}, "● running"),
        ({"status": "running", "cancel_requested": True}, "● pausing"),
        ({"status": "scheduled"}, "◷ scheduled"),
        ({"status": "scheduled", "reason": "suspended"}, "◷ asleep"),
        ({"status": "pending", "reason": "suspended"}, "○ pending"),
        ({"status": "scheduled", "next_retry_at": at(-9)}, "↻ retry in 9s"),
        ({"status": "scheduled", "next_retry_at": at(3)}, "↻ retry due"),
    ],
)
def test_a_state_has_a_glyph_and_a_word(more: dict[str, object], shown: str) -> None:
    item = TaskItem.model_validate(task(1, **more))  # type: ignore[arg-type]

    assert task_state(item, NOON, UNICODE).text == shown


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.34, "340ms"), (1.24, "1.2s"), (48, "48s"), (62, "1m02"), (-3, "0ms"), (None, "-")]
)
def test_a_stretch_is_told_as_exactly_as_it_matters(seconds: float | None, words: str) -> None:
    assert lasted(seconds) == words


def test_a_history_is_spread_over_the_room_there_is_whole_and_evenly() -> None:
    assert spread([1, 2, 3, 4], 2) == [1.5, 3.5]
    assert spread([1, 2], 5) == [1, 1, 1, 2, 2]
    assert spread([None, None, 4, None], 2) == [None, 4]
    assert spread([], 5) == []


def test_an_instant_at_an_end_of_the_years_is_written_and_ends_nothing() -> None:
    """As a server may have it where it means for ever: no zone leads beyond it, and the dashboard ended over it."""
    for instant in (
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    ):
        assert clock(instant) in {"23:59:59", "00:00:00"}
