"""What tags say, by whatever they are found (T9)."""

from collections.abc import Iterator

import pytest

from treadle.wire.tags import check, entries, has, shown, wanted


def test_numbers_are_found_by_their_value_and_texts_by_their_letters() -> None:
    assert has({"n": 3.0}, "n=3")
    assert has({"n": 3}, "n=3.0")
    assert has({"n": "3.0"}, "n=3.0")
    assert not has({"n": "3"}, "n=3.0")
    assert not has({"n": True}, "n=1")
    assert has({"n": -0.5}, "n=-5e-1")
    assert wanted("n=1e999") == {("n", "s1e999")}


def test_tags_are_shown_as_a_filter_names_them() -> None:
    tags = {"region": {"name": "eu", "zones": [1, "b"]}, "a": None, "e": [], "who": "mia"}

    assert shown(tags) == ["a=null", "e=[]", "region.name=eu", "region.zones=1", "region.zones=b", "who=mia"]
    assert all(has(tags, one) for one in shown(tags) if one != "e=[]")
    assert shown(None) == []


def test_a_path_is_the_same_however_it_is_written() -> None:
    assert entries({"a": {"b": 1}}) - entries({"a.b": 1}) == {("a", "")}


class Unlooked(list[int]):
    """An array that must not be gone through."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("it was gone through")


def test_far_too_many_values_are_refused_before_they_are_looked_at() -> None:
    with pytest.raises(ValueError, match="more than 256"):
        check({"a": {"b": Unlooked(range(257))}})
