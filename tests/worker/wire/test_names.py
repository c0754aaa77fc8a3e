"""Rooms and job names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.names import (
    InvalidJobName,
    InvalidRoom,
    JobName,
    parse_job_name,
    parse_room,
    path_part,
    visible_from,
)
from treadle.wire.operations import OPERATIONS


def test_a_full_name_is_split_at_its_first_two_colons_z1() -> None:
    assert parse_job_name("@global:tasks:a:b:c") == JobName("@global", "tasks", "a:b:c")


@pytest.mark.parametrize(
    "name", ["", "a", "a:b", "a:b:", ":b:c", "a::c", "@other:b:c", "a:b:c/d", "a:b:c\x00", "a\nb:c:d"]
)
def test_anything_else_is_no_job_name_z1(name) -> None:
    with pytest.raises(InvalidJobName):
        parse_job_name(name)


@pytest.mark.parametrize("room", ["", "@", "@glob", "a:b", "a@b", ":", " ", "a/b", "x" * 256, "\x00", "a\tb"])
def test_a_room_with_an_at_or_a_colon_is_refused_z2(room) -> None:
    with pytest.raises(InvalidRoom):
        parse_room(room)


def test_what_is_no_room_is_told_in_a_line_however_long_it_is() -> None:
    with pytest.raises(InvalidRoom) as refused:
        parse_room("x" * 1_000_000)

    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("room", ["@global", "@internal", "room_42", "Ünï", "a b", "x" * 255])
def test_plain_and_shared_rooms_are_accepted_z2(room) -> None:
    assert parse_room(room) == room


@given(st.text())
def test_a_text_is_a_room_or_says_why_not(text) -> None:
    try:
        room = parse_room(text)
    except InvalidRoom as error:
        said = str(error)
    else:
        said = f"{room!r} is not a room"
        assert room == text

    assert "is not a room" in said


def test_a_room_sees_its_own_jobs_and_the_shared_ones_z3() -> None:
    assert visible_from("a", "a")
    assert visible_from("a", "@global")
    assert visible_from("a", "@internal")
    assert not visible_from("a", "b")
    assert not visible_from("@global", "a")


@pytest.mark.parametrize(
    ("name", "part"), [("..", "%2E%2E"), (".", "%2E"), ("...", "..."), ("a/b", "a%2Fb"), ("@x", "@x")]
)
def test_no_name_leads_elsewhere_in_a_path(name: str, part: str) -> None:
    assert path_part(name) == part
    assert OPERATIONS["send"].request({"task_id": "7", "name": name})[1] == f"/v1/tasks/7/messages/{part}"
