"""How a number of bytes is told."""

import pytest

from treadle.wire.sizes import amount


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
    assert amount(count) == words
