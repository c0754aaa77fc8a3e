"""Faults that were once there, put back: what simulations must find."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from unittest import mock

from tests.simulation.servers import Server, settings
from treadle.wire.ids import WorkerId
from treadle_server.app import rules_of
from treadle_server.domain.tasks import Task
from treadle_server.engine.engine import Engine
from treadle_server.engine.unconfirmed import Unconfirmed


def _by_own_clock(server: Server) -> Engine:
    return Engine(server.store, rules_of(settings()), clock=server.clock)


def _forget(unconfirmed: Unconfirmed, worker_id: WorkerId, tasks: list[Task]) -> None:
    """Leave the claims to their leases."""


PLANTED: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "": nullcontext,
    # Two servers whose clocks differ judge each other's leases.
    "own-clock": lambda: mock.patch.object(Server, "_make", _by_own_clock),
    # Claims of a commit of which nobody knows whether it was done are left to their leases.
    "unknown-commit": lambda: mock.patch.object(Unconfirmed, "note", _forget),
}
"""How each is put in, by its name; the empty one is none."""
