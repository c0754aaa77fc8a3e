"""What the verdict says of claims that never came to their worker."""

import pytest

from tests.simulation.ledger import Ended, Ledger, Presence
from tests.simulation.verdict import _claims

KEY = "a task", 0


def found(ledger: Ledger) -> list[str]:
    return list(_claims(ledger))


@pytest.fixture
def ledger() -> Ledger:
    """A run that was claimed at 2 s for who is open as `first`, and taken back at 6 s without a word of it."""
    return Ledger(
        presences=[Presence("first", "worker-1", "server-1", since=1)],
        ended={KEY: Ended("start-timeout", claimed=2, at=6, worker="first")},
    )


def test_a_claim_that_never_came_to_who_was_there_all_the_time_is_lost(ledger) -> None:
    assert found(ledger) == ["claim: task a task run 0 never came to worker-1, and ended as start-timeout"]


def test_a_claim_for_whom_a_worker_was_before_it_died_is_not_lost_though_it_is_back_as_another(ledger) -> None:
    ledger.presences[0].until = 1.5
    ledger.presences.append(Presence("second", "worker-1", "server-1", since=1.9))

    assert found(ledger) == []


@pytest.mark.parametrize(("since", "until"), [(2.5, 9), (1, 5), (1, 1.5), (7, 9)])
def test_a_claim_is_not_lost_where_its_worker_was_not_there_all_the_time(ledger, since: float, until: float) -> None:
    ledger.presences = [Presence("first", "worker-1", "server-1", since, until)]

    assert found(ledger) == []


@pytest.mark.parametrize(("server", "is_lost"), [("server-1", False), ("server-2", True)])
def test_only_trouble_of_the_server_where_its_worker_was_excuses_a_claim(ledger, server: str, is_lost: bool) -> None:
    ledger.troubles = [(3, server)]

    assert bool(found(ledger)) is is_lost


def test_a_claim_that_came_or_was_handed_back_is_not_lost(ledger) -> None:
    ledger.ended["another", 0] = Ended("returned", claimed=2, at=6, worker="first")
    ledger.received.add(KEY)

    assert found(ledger) == []
