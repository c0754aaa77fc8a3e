"""Each target that asks a server, for a moment, and the cases that were ever found (`nox -s fuzz` has minutes)."""

from collections.abc import Iterator

import pytest

from tests.fuzz.house import House, house
from tests.fuzz.served import NAMES_OF_TARGETS, Asked, targets
from tests.fuzz.target import Target, found
from tests.seed import SEED

SECONDS = 0.2
"""For each target, beside what the first example costs."""

FOUND = [(name, case) for name in NAMES_OF_TARGETS for case in found(name)]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("fuzz")) as here:
        yield here


@pytest.fixture(scope="module")
def named(here: House) -> Iterator[dict[str, Target]]:
    asked = Asked(here)
    yield {target.name: target for target in targets(asked)}
    asked.close()


@pytest.mark.parametrize("name", NAMES_OF_TARGETS)
def test_whatever_is_asked_is_done_or_refused_and_the_server_goes_on_g9(
    here: House, named: dict[str, Target], name: str
) -> None:
    assert named[name].fuzz(SECONDS, SEED) > 0
    here.works()


@pytest.mark.parametrize(("name", "case"), FOUND, ids=[f"{name}-{i}" for i, (name, _) in enumerate(FOUND)])
def test_what_was_found_stays_mended(here: House, named: dict[str, Target], name: str, case: object) -> None:
    named[name].check(case)
    here.works()


def test_a_failure_of_the_servers_own_is_found(here: House) -> None:
    problem = b'{"type":"/v1/problems/internal-server-error","title":"x","status":500,"detail":"it failed"}'
    with pytest.raises(AssertionError):
        here.told(500, "application/problem+json", problem)
    with pytest.raises(AssertionError):
        here.told(422, "application/problem+json", problem.replace(b"500", b"422").replace(b"it failed", b""))
