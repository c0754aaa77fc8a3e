"""Each target that needs no server, for a moment, and the cases that were ever found (`nox -s fuzz` has minutes)."""

import pytest

from tests.fuzz.pure import TARGETS
from tests.fuzz.target import Target, found
from tests.seed import SEED

SECONDS = 0.1
"""For each target, beside what the first example costs."""

FOUND = [(target, case) for target in TARGETS for case in found(target.name)]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_whatever_comes_is_read_or_refused_as_documented_g9(target: Target) -> None:
    assert target.fuzz(SECONDS, SEED) > 0


@pytest.mark.parametrize(("target", "case"), FOUND, ids=[f"{target.name}-{i}" for i, (target, _) in enumerate(FOUND)])
def test_what_was_found_stays_mended(target: Target, case: object) -> None:
    target.check(case)
