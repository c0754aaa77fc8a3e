"""Limits of open files that are too small."""

import resource

import pytest

from treadle_server.checkup import descriptors


@pytest.mark.parametrize(
    ("hard", "grade"),
    [
        (100, "fail"),
        (1024, "warn"),
        (10_127, "warn"),
        (10_128, "ok"),
        (1_000_000, "ok"),
        (resource.RLIM_INFINITY, "ok"),
    ],
)
def test_a_limit_of_files_that_is_too_small_is_found(hard: int, grade: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, hard))

    [finding] = descriptors.look(10_000)

    assert finding.grade == grade  # type: ignore[union-attr]
