"""When a simulated worker is there, so that what it is given must come to it."""

import asyncio
import random
from types import SimpleNamespace

from tests.simulation.fate import Fate
from tests.simulation.journal import Journal
from tests.simulation.ledger import Ledger
from tests.simulation.workers import Worker


def test_who_is_open_is_there_again_behind_the_last_of_the_faults_that_befell_it() -> None:
    async def befall(ledger: Ledger) -> None:
        now = asyncio.get_running_loop().time
        worker = Worker(1, [], Fate(1, now), ledger, Journal(now), random.Random(1))
        with worker.troubled():
            pass
        assert ledger.presences == [], "it was never open"
        worker._id, worker._talk = "first", SimpleNamespace(wire=SimpleNamespace(server_name="server-1"))

        with worker.troubled():
            with worker.troubled():
                pass
            assert ledger.presences == [], "one lasts"
        worker.trouble()

    asyncio.run(befall(ledger := Ledger()))

    [one] = ledger.presences
    assert (one.id, one.worker, one.server) == ("first", "worker-1", "server-1")
    assert one.since <= one.until < one.since + 60, "until something befell it again"
