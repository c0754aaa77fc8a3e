"""When schedules tick (E10): cron in time zones around both changes of the year, intervals that keep their phase."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from treadle_server.domain.schedules import Schedule, cron_tick, first_tick, interval_tick, zone_of
from treadle_server.errors import ValidationFailed

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca"]
START = datetime(2026, 1, 1, tzinfo=UTC)


def local(expression: str, since: str, count: int, zone: str = "Europe/Berlin") -> list[str]:
    """The next ticks behind a local time, as local times with their offset."""
    tz = zone_of(zone)
    after = datetime.fromisoformat(since).replace(tzinfo=tz)
    found = []
    for _ in range(count):
        tick = cron_tick(expression, zone, after)
        assert tick is not None
        found.append(f"{tick.astimezone(tz):%m-%d %H:%M%z}")
        after = tick
    return found


def test_a_daily_time_stays_the_local_time_over_both_changes_e10() -> None:
    assert local("30 9 * * *", "2026-03-28 10:00", 2) == ["03-29 09:30+0200", "03-30 09:30+0200"]
    assert local("30 9 * * *", "2026-10-24 10:00", 2) == ["10-25 09:30+0100", "10-26 09:30+0100"]


def test_what_falls_into_the_hour_that_is_left_out_comes_once_at_its_end_e10() -> None:
    assert local("30 2 * * *", "2026-03-28 03:00", 2) == ["03-29 03:00+0200", "03-30 02:30+0200"]
    assert local("0,30 2 * * *", "2026-03-29 01:00", 2) == ["03-29 03:00+0200", "03-30 02:00+0200"]


def test_what_falls_into_the_hour_that_comes_twice_comes_the_first_time_e10() -> None:
    assert local("30 2 * * *", "2026-10-24 03:00", 2) == ["10-25 02:30+0200", "10-26 02:30+0100"]


def test_one_that_begins_in_the_second_of_the_two_hours_does_not_tick_in_the_past_e10() -> None:
    second_two_fifteen = datetime(2026, 10, 25, 2, 15, tzinfo=BERLIN, fold=1)

    tick = cron_tick("30 2 * * *", "Europe/Berlin", second_two_fifteen)

    assert tick == datetime(2026, 10, 26, 2, 30, tzinfo=BERLIN)


def test_every_so_many_minutes_follows_the_time_that_passes_e10() -> None:
    assert local("*/30 * * * *", "2026-10-25 02:00", 4) == [
        "10-25 02:30+0200", "10-25 02:00+0100", "10-25 02:30+0100", "10-25 03:00+0100",
    ]  # fmt: skip
    assert local("*/30 * * * *", "2026-03-29 01:15", 2) == ["03-29 01:30+0100", "03-29 03:00+0200"]


def test_a_time_of_day_with_its_second_comes_once_each_day_too_e10() -> None:
    assert local("0 30 2 * * *", "2026-03-28 03:00", 2) == ["03-29 03:00+0200", "03-30 02:30+0200"]
    assert local("15 30 2 * * *", "2026-10-24 03:00", 2) == ["10-25 02:30+0200", "10-26 02:30+0100"]
    assert local("0 */30 2 * * *", "2026-10-25 02:30", 2) == ["10-25 02:00+0100", "10-25 02:30+0100"]
    assert local("0 15 2 * * *", "2026-10-03 03:00", 2, "Australia/Lord_Howe") == [
        "10-04 02:30+1100",
        "10-05 02:15+1100",
    ]


@pytest.mark.parametrize(
    "expression", ["*/7 */5 * * *", "17 */20 * * *", "*/15 2 * * *", "0 * * * SUN", "* 0-23/9 * * *"]
)
@pytest.mark.parametrize(
    ("zone", "change"),
    [("Australia/Lord_Howe", "2026-04-05"), ("Australia/Lord_Howe", "2026-10-04"), ("Africa/Cairo", "2026-04-24"),
     ("America/Havana", "2026-11-01"), ("Pacific/Apia", "2011-12-30"), ("Antarctica/Troll", "2026-10-25")],
)  # fmt: skip
def test_a_star_ticks_in_each_minute_whose_time_the_clocks_show_over_any_change_e10(
    expression: str, zone: str, change: str
) -> None:
    begin = datetime.fromisoformat(change).replace(tzinfo=UTC) - timedelta(days=1)
    minutes = [begin + timedelta(minutes=number) for number in range(3 * 1440)]
    ticking = CronSim(expression, START)
    shown = [(minute, minute.astimezone(ZoneInfo(zone))) for minute in minutes]
    expected = [
        minute
        for minute, wall in shown
        if ticking.match_day(wall) and wall.hour in ticking.hours and wall.minute in ticking.minutes
    ]

    found = [cron_tick(expression, zone, begin - timedelta(seconds=1))]
    while (last := found[-1]) is not None and last <= minutes[-1]:
        found.append(cron_tick(expression, zone, last))

    assert found[:-1] == expected


def test_six_fields_tick_by_the_second_e10() -> None:
    after = START + timedelta(milliseconds=300)

    assert cron_tick("* * * * * *", "UTC", after) == START + timedelta(seconds=1)
    assert cron_tick("*/20 * * * * *", None, START + timedelta(seconds=20)) == START + timedelta(seconds=40)


@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "15 */3 * * *", "0 0 1 * *", "5,35 1-3 * * SUN", "0 12 * * MON#1"]),
    st.sampled_from(ZONES),
    st.integers(0, 2 * 365 * 86_400),
)
def test_a_tick_is_later_on_the_whole_minute_and_none_lies_between_e10(expression: str, zone: str, offset: int) -> None:
    after = START + timedelta(seconds=offset)

    tick = cron_tick(expression, zone, after)

    assert tick is not None
    assert tick > after
    assert (tick.second, tick.microsecond) == (0, 0)
    between = after + (tick - after) / 2
    assert cron_tick(expression, zone, between) == tick


@given(st.integers(1, 10**7), st.integers(-(10**9), 10**9), st.integers(0, 10**6))
def test_an_interval_keeps_its_phase_to_the_microsecond_e10(interval: int, offset: int, part: int) -> None:
    length, after = timedelta(seconds=interval), START + timedelta(seconds=offset, microseconds=part)

    tick = interval_tick(START, length, after)

    assert after < tick <= after + length
    assert (tick - START) % length == timedelta(0)


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("61 * * * *", "cron: '61' of '61 * * * *' is not a valid minute: 0-59"),
        ("* 24 * * *", "cron: '24' of '* 24 * * *' is not a valid hour: 0-23"),
        ("0 0 32 * *", "is not a valid day-of-month: 1-31"),
        ("0 0 * 13 *", "is not a valid month: 1-12 or JAN-DEC"),
        ("0 0 * * MOON", "cron: 'MOON' of '0 0 * * MOON' is not a valid day-of-week"),
        ("99 0 0 * * *", "cron: '99' of '99 0 0 * * *' is not a valid second: 0-59"),
        ("*/0 * * * *", "cron: '*/0' of '*/0 * * * *' is not a valid minute"),
        ("* * * *", "cron: '* * * *' has 4 fields; write five (minute hour day-of-month month day-of-week)"),
        ("@daily", "cron: '@daily' has 1 field; write five"),
        ("every day", "has 2 fields"),
        ("", "has 0 fields"),
        ("0 0 31 2 *", "'0 0 31 2 *' never occurs: month 2 has no day 31"),
        ("0 0 */31 * MON#5", "cron: '0 0 */31 * MON#5' never occurs in the next 50 years"),
    ],
)
def test_a_bad_expression_is_refused_with_its_field_g9_e10(cron: str, said: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        first_tick(cron, "UTC", None, START)

    assert said in refused.value.detail
    assert refused.value.errors is not None
    assert refused.value.errors[0]["loc"] == ["cron"]


@pytest.mark.parametrize("zone", ["Europe/Berln", "Europe", "../../etc/passwd", "/etc/localtime", "\x00", "Ünïcode"])
def test_a_bad_zone_is_refused_g9_e10(zone: str) -> None:
    with pytest.raises(ValidationFailed, match=r"^zone: .* is not a time zone that the server knows; write"):
        first_tick("0 0 * * *", zone, None, START)


@given(st.text(st.sampled_from("0123456789*/,-#LWSUNMONJAN ²é"), max_size=40))
def test_any_text_is_an_expression_or_is_refused_as_none_g9(text: str) -> None:
    try:
        tick, said = first_tick(text, "Europe/Berlin", None, START), ""
    except ValidationFailed as refused:
        tick, said = None, refused.detail

    assert said.startswith("cron: ") if tick is None else tick > START


def schedule(**fields: object) -> Schedule:
    base: dict[str, object] = dict.fromkeys(
        ("cron", "zone", "interval_seconds", "next_at", "last_at", "last_task_id", "content_hash")
    )
    base |= {"id": "s", "room": "lab", "name": "s", "job_num": 1, "payload": "{}", "schema_version": 1}
    base |= {"template": "{}", "jitter_seconds": 0.0, "missed": "late", "paused": False, "owner": "a"}
    return Schedule(**{**base, "created_at": START, **fields})  # type: ignore[arg-type]


def test_what_is_missed_is_found_a_minute_late_or_with_the_following_tick_e10() -> None:
    daily = schedule(cron="0 0 * * *", zone="UTC", next_at=START)
    often = schedule(interval_seconds=5.0, next_at=START)

    assert [daily.has_missed(START + timedelta(seconds=s)) for s in (0, 59, 60)] == [False, False, True]
    assert [often.has_missed(START + timedelta(seconds=s)) for s in (0, 4.9, 5)] == [False, False, True]


@given(
    st.sampled_from(["0 0 * * *", "*/7 * * * *", "0 0,1 * * *", "30 2 * * *", "* 3 29 * *", "0 12 * * MON#5"]),
    st.sampled_from(ZONES),
    st.integers(0, 400 * 24 * 60),
    st.integers(0, 10**5),
)
def test_the_last_tick_is_the_one_that_has_come_and_is_followed_by_one_to_come_e10(
    expression: str, zone: str, offset: int, late: int
) -> None:
    first = cron_tick(expression, zone, START + timedelta(minutes=offset))
    assert first is not None
    now = first + timedelta(seconds=late)

    last = schedule(cron=expression, zone=zone, next_at=first).last_tick(now)

    before, following = (cron_tick(expression, zone, at) for at in (last - timedelta(microseconds=1), last))
    assert first <= last <= now
    assert before == last
    assert following is not None
    assert following > now


@pytest.mark.parametrize("expression", ["* * * * *", "0 * * * *", "0 0 * * *"])
def test_the_last_of_regular_ticks_is_found_at_once_e10(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By halves it took seventeen steps after a day, 1 ms for each schedule that has a deadline."""
    midnight, steps = datetime(2026, 1, 1, tzinfo=BERLIN).astimezone(UTC), list[datetime]()
    after = Schedule.tick_after
    monkeypatch.setattr(Schedule, "tick_after", lambda self, at: steps.append(at) or after(self, at))

    last = schedule(cron=expression, zone="Europe/Berlin", next_at=midnight).last_tick(midnight + timedelta(days=3))

    assert last == midnight + timedelta(days=3)
    assert len(steps) <= 3
