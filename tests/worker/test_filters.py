"""One filter language: what is written is what is meant, and what can't be read says why."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.filters import KEYS, FilterError, complete, matches, parse, write
from treadle.wire.status import OPEN, Status
from treadle.wire.tasks import TaskFilter


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
        ("x satus:pending", 'no "satus:"', 2),
        ("target:", "wants a value", 0),
        ("target:a target:b", "given twice", 9),
        ('text "open', "quote is not closed", 5),
        ('say "', "quote is not closed", 4),
        ("worker:web-1", "worker:", 0),
        ("id:web-1", "id:", 0),
    ],
)
def test_what_cannot_be_read_says_where_and_why(text: str, says: str, at: int) -> None:
    with pytest.raises(FilterError, match=says) as caught:
        parse(text)

    assert caught.value.at == at


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
        tag=st.none() | NAMES,
        worker=st.none() | st.integers(0, 999).map(uuid),
        id=st.none() | st.integers(1, 36).map(lambda length: uuid(7)[:length]),
        text=st.none() | NAMES,
    )
)
def test_a_filter_that_is_written_is_read_back_the_same(wanted: TaskFilter) -> None:
    assert parse(write(wanted)) == wanted


@pytest.mark.parametrize("text", ["tag.region:", "tag.region.name:", "tag.a=b:c", "tag.a:1 tag.b:2"])
def test_a_nested_tag_without_a_value_or_given_twice_is_an_error(text: str) -> None:
    with pytest.raises(FilterError):
        parse(text)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    with suppress(FilterError):
        parsed = parse(text)

        assert parse(write(parsed)) == parsed


def test_the_last_word_is_completed() -> None:
    assert complete("sta") == "status:"
    assert complete("x status:pending,ru") == "x status:pending,running"
    assert complete("job:@g", jobs=["@global:tasks:b", "@global:tasks:a"]) == "job:@global:tasks:a"
    assert complete("status:pending") is None
    assert complete("") is None


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
    }

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
    ):
        assert matches(parse(text), row), text
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
    ):
        assert not matches(parse(text), row), text
    assert {"status", "job", "room", "target", "worker", "tag", "id"} == set(KEYS)
