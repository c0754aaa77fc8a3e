"""Numbers and lengths of time are told as they were set, and not in powers of ten; bytes in their largest unit."""

import pytest

from treadle.wire.amounts import amount, counted, in_bytes, in_seconds, percent


@pytest.mark.parametrize(
    ("number", "told"),
    [(0.1 + 0.2, "0.3"), (1_500_001, "1500001"), (1_500_001.5, "1500001.5"), (3e11, "300000000000"), (1e15, "1e+15")],
)
def test_a_number_is_told_as_it_was_set(number: float, told: str) -> None:
    assert amount(number) == told


def test_a_length_of_time_is_told_in_seconds() -> None:
    assert [in_seconds(each) for each in (60, 1.5, 2_592_000, 2_592_000.5)] == [
        "60 s",
        "1.5 s",
        "2592000 s",
        "2592000.5 s",
    ]


def test_one_is_told_as_one() -> None:
    assert [counted(n, "run") for n in (0, 1, 3_000)] == ["0 runs", "1 run", "3,000 runs"]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_950, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (20_000_000_000, "20 GB"),
        (10**16, "10000 TB"),
    ],
)
def test_bytes_are_told_in_their_largest_unit(count: int, words: str) -> None:
    assert in_bytes(count) == words


def test_only_what_is_over_is_whole() -> None:
    told = [percent(share) for share in (0, 0.004, 0.29, 0.57, 0.999, 1, 1.5, -1)]

    assert told == ["0%", "0%", "29%", "57%", "99%", "100%", "100%", "0%"]
