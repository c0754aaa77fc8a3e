"""One filter language: what is written is what is meant, and what can't be read says why."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.cli.which import explaining_filters
from treadle.filters import KEYS, FilterError, complete, is_relative, matches, parse, write
from treadle.wire.filters import TaskFilter
from treadle.wire.status import OPEN, Status


def uuid(number: int) -> str:
    """One that is the same each time."""
    return f"019aa5c0-0000-7000-8000-{number * 0x9E3779B1 & 0xFFFFFFFF:012x}"


def test_words_narrow_fields_and_the_rest_is_searched_for() -> None:
    parsed = parse('status:pending,running job:@global:modifiers:Rotate target:cam-1 angle "no cell"')

    assert parsed == TaskFilter(
        status=[Status.PENDING, Status.RUNNING], job="@global:modifiers:Rotate", target="cam-1", text="angle no cell"
    )


def test_groups_stand_for_several_states() -> None:
    assert parse("status:open") == TaskFilter(status=[status for status in Status if status in OPEN])
    assert parse("status:done") == TaskFilter(status=[Status.COMPLETED, Status.FAILED, Status.CANCELLED])
    assert parse("status:all") == TaskFilter(status=list(Status))


def test_an_empty_filter_means_everything() -> None:
    assert parse("  ") == TaskFilter()


@pytest.mark.parametrize(
    ("text", "says", "at"),
    [
        ("status:penning", 'no status "penning"', 0),
        ("x satus:pending", 'no "satus:"; did you mean status:', 2),
        ("-satus:pending", 'no "satus:"', 0),
        ("x zzz:pending", "there are status, job", 2),
        ("target:", "needs a value", 0),
        ("target:a target:b", "given twice", 9),
        ('text "open', "unclosed quote", 5),
        ('say "', "unclosed quote", 4),
        ("status:paused -status:open", "excludes every status", 0),
        ("-ended:<1h", "use the opposite sign", 0),
        ("-id:00", "- works with status, job", 0),
        ("ended:1h", "write <1h for less than that ago", 0),
        ("ended:soon", "write <1h or >2d", 0),
        ("ended:2026-13-01", "is not a time: month", 0),
        ("ended:2026-01-01T12:00", "write >2026-01-01T12:00 for later", 0),
        ("x created:<999999999d", "beyond the calendar", 2),
        ("ended:<1h ended:<2h", "given twice", 10),
        ("tries:many", "write a number like 3", 0),
        ("tries:<0", "must be at least 0", 0),
        ("duration:5m", "write >5m for longer", 0),
        ("duration:>999999d", "duration:", 0),
        ("id:web-1", "id: write the beginning of an id, such as 019aa5c0", 0),
        ("flow:x", "flow: write the beginning of an id", 0),
        ("room:a@b", "room: 'a@b' is not a room", 0),
    ],
)
def test_what_cannot_be_read_says_where_and_why(text: str, says: str, at: int) -> None:
    with pytest.raises(FilterError, match=says) as caught:
        parse(text)

    assert caught.value.at == at


TIMES = st.none() | st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
NAMES = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), min_size=1, max_size=20)


@given(
    st.builds(
        TaskFilter,
        room=st.none() | st.sampled_from(["@global", "@internal", "lab", "a room", '"quoted"', "zimmer-ü"]),
        status=st.none()
        | st.sets(st.sampled_from(list(Status)), min_size=1).map(
            lambda chosen: [status for status in Status if status in chosen]
        ),
        job=st.none() | NAMES,
        target=st.none() | NAMES,
        error=st.none() | NAMES,
        failure=st.none() | st.just("00ff00ff00ff00ff"),
        not_error=st.none() | st.lists(NAMES, min_size=1, max_size=2),
        tag=st.none() | st.lists(NAMES, min_size=1, max_size=3),
        worker=st.none() | st.integers(0, 999).map(uuid) | NAMES,
        created_from=TIMES,
        created_until=TIMES,
        started_from=TIMES,
        ended_until=TIMES,
        least_tries=st.none() | st.integers(0, 99),
        most_tries=st.none() | st.integers(0, 99),
        least_seconds=st.none() | st.floats(0, 315_360_000),
        most_seconds=st.none() | st.floats(0, 315_360_000),
        not_room=st.none() | st.lists(st.sampled_from(["@global", "lab"]), min_size=1, max_size=2),
        not_job=st.none() | st.lists(NAMES, min_size=1, max_size=2),
        not_target=st.none() | st.lists(NAMES, min_size=1, max_size=2),
        not_worker=st.none() | st.lists(NAMES, min_size=1, max_size=2),
        not_tag=st.none() | st.lists(NAMES, min_size=1, max_size=2),
        id=st.none() | st.integers(1, 36).map(lambda length: uuid(7)[:length]),
        text=st.none() | NAMES,
    )
)
def test_a_filter_that_is_written_is_read_back_the_same(wanted: TaskFilter) -> None:
    assert parse(write(wanted)) == wanted


@pytest.mark.parametrize("text", ["tag.region:", "tag.region.name:", "tag.a=b:c", "-tag.a=b:c"])
def test_a_nested_tag_without_a_value_is_an_error(text: str) -> None:
    with pytest.raises(FilterError):
        parse(text)


def test_a_star_is_every_job_as_the_dashboard_writes_it() -> None:
    """It was the name of one that is not there: a filter copied from the dashboard found nothing elsewhere."""
    assert parse("job:* status:failed") == parse("status:failed")
    with pytest.raises(FilterError, match="job: is given twice"):
        parse("job:* job:lab:tasks:add")


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    with suppress(FilterError):
        parsed = parse(text)

        assert parse(write(parsed)) == parsed


def test_the_last_word_is_completed() -> None:
    assert complete("sta") == "status:"
    assert complete("x status:pending,ru") == "x status:pending,running"
    assert complete("job:@g", {"job": lambda: ["@global:tasks:b", "@global:tasks:a"]}) == "job:@global:tasks:a"
    assert complete("-worker:we", {"worker": lambda: ["web 2", "web 1"]}) == '-worker:"web 1"'
    assert complete("x -ta") == "x -target:"
    assert complete("-en") is None
    assert complete("ended:") == "ended:<1h"
    assert complete("ended:<2") is None
    assert complete("status:pending") is None
    assert complete("nokey:x") is None
    assert complete("-") is None
    assert complete("") is None


def test_a_long_text_that_was_pasted_is_completed_at_once() -> None:
    pasted = "x" * 200_000  # for which 120 seconds, a test's time, were not enough

    assert complete(f"{pasted} sta") == f"{pasted} status:"


def test_every_key_of_the_language_narrows() -> None:
    row = {
        "id": uuid(1),
        "job_name": "@global:modifiers:Rotate",
        "room_id": "room_42",
        "status": "pending",
        "payload": {"angle": 15},
        "target": "cam-1",
        "tags": {"k": "v", "region": {"name": "eu west", "n": [1, 2.5]}},
        "worker_id": uuid(5),
        "run_id": 2,
        "flow_id": uuid(7),
        "error": "ValueError: no cell",
        "reason": "timeout",
        "created_at": "2026-01-01T12:00:00Z",
        "started_at": datetime(2026, 1, 1, 13, tzinfo=UTC),
        "completed_at": "2026-01-01T13:01:30Z",
    }
    workers = {uuid(5): "web-2"}
    now = datetime(2026, 1, 1, 14, 0, 0, tzinfo=UTC)

    for text in (
        "status:pending",
        "job:@global:modifiers:Rotate",
        "room:room_42",
        "target:cam-1",
        f"worker:{uuid(5)}",
        "tag:k",
        "tag:k=v",
        "tag.k:v",
        'tag.region.name:"eu west"',
        'tag:"region.name=eu west"',
        "tag.region.n:2.5",
        "tag:region.n",
        "ANGLE",
        row["id"][-8:],
        f"id:{row['id'][:20].upper()}",
        f"id:{row['id'].replace('-', '')[:20]}",
        f"flow:{uuid(7)}",
        f"flow:{uuid(7).replace('-', '')[:30].upper()}",
        "tag:k tag.region.n:1",
        "worker:web-2",
        "tries:3",
        "tries:>2 tries:<4",
        "created:>1h created:<3h",
        "created:>2026-01-01T12:00:00Z",
        "started:<=1h",
        "ended:<1h",
        "duration:>1m30s duration:<1m30s",
        "-status:done",
        "-room:lab",
        "-job:x",
        "-target:cam-2",
        "-worker:web-1",
        "-tag:k=w -tag:l",
        "error:ValueError",
        "error:timeout",
        "-error:Value -error:KeyError",
    ):
        assert matches(parse(text, now=now), row, workers=workers), text
    for text in (
        "status:running",
        "job:x",
        "room:x",
        "target:x",
        f"worker:{uuid(6)}",
        "tag:k=w",
        "tag:l",
        "tag.region.name:eu",
        "tag.region.n:2",
        "nothing",
        "id:ffff",
        "flow:ffff",
        f"flow:{uuid(8)}",
        "tag:k tag:l",
        "worker:web-1",
        "tries:2",
        "tries:>3",
        "tries:<3",
        "created:<1h",
        "created:<2026-01-01T12:00:00Z",
        "started:>2h",
        "ended:>1h",
        "duration:>1m31s",
        "duration:<1m29s",
        "-status:pending",
        "-room:room_42",
        "-job:@global:modifiers:Rotate",
        "-target:cam-1",
        "-worker:web-2",
        f"-worker:{uuid(5)}",
        "-tag:k",
        "-tag:l -tag.region.n:1",
        "error:Value",
        "error:error",
        "-error:ValueError",
        "-error:x -error:timeout",
        "failure:00ff00ff00ff00ff",
    ):
        assert not matches(parse(text, now=now), row, workers=workers), text


def test_what_has_not_begun_or_ended_has_no_time_of_it() -> None:
    waiting = {"id": uuid(1), "job_name": "a:b:c", "status": "pending", "run_id": None}

    for text in ("started:<9w", "started:>1s", "ended:<9w", "duration:>0s", "duration:<9w", "tries:>0", "flow:0"):
        assert not matches(parse(text), waiting), text
    assert matches(parse("tries:0 -worker:web-1 -target:x"), waiting)


def test_how_long_ago_is_told_from_now_and_a_day_is_that_day() -> None:
    now = datetime(2026, 1, 10, 12, 0, 0, 999, tzinfo=UTC)

    ago = parse("created:<1h30m ended:>1d", now=now)
    day = parse("created:2026-01-31")

    assert ago.created_from == datetime(2026, 1, 10, 10, 30, tzinfo=UTC)
    assert ago.ended_until == datetime(2026, 1, 9, 12, tzinfo=UTC)
    assert day.created_from == datetime(2026, 1, 31).astimezone()
    assert day.created_until - day.created_from == timedelta(days=1)
    assert is_relative("x ended:<1h")
    assert not is_relative("ended:2026-01-31 duration:>1h <1h")


def test_a_state_that_is_not_meant_is_taken_from_those_that_are() -> None:
    assert parse("status:open -status:paused,running").status == [
        Status.SCHEDULED, Status.BLOCKED, Status.PENDING, Status.CLAIMED,
    ]  # fmt: skip
    assert parse("-status:open") == parse("status:done")


GUIDE = (Path(__file__).parents[2] / "docs/filters.md").read_text()


def test_every_key_is_documented_and_every_documented_example_is_read() -> None:
    rows = dict(re.findall(r"^\| `([a-z]+):` \| (.+) \|$", GUIDE, re.MULTILINE))
    listed = {key: set(re.findall(r"`([^`]+)`", row)) for key, row in rows.items()}
    block = re.findall(r"^    (.+?)(?:  +#.*)?$", GUIDE, re.MULTILINE)
    spoken = [text for line in block for text in re.findall(r"'([^']+)'", line)]
    spoken += re.findall(r"client\.list\(\"(.+)\"\)", GUIDE)

    assert list(rows) == list(KEYS)
    assert {key: set(known.examples) - listed[key] for key, known in KEYS.items()} == {key: set() for key in KEYS}
    assert len(spoken) == 8
    for text in [*spoken, *(one for row in listed.values() for one in row)]:
        assert parse(text) != TaskFilter(), text


def test_the_commands_help_names_every_key() -> None:
    def command() -> None:
        """Do it."""

    told = explaining_filters(click.command()(command).callback or command).__doc__ or ""

    assert [key for key in KEYS if f"{key}:" not in told] == []
