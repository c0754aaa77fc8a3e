"""Runs the services beside the engine, and reports their health."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from treadle_server.artifacts.objects import Objects
from treadle_server.engine.engine import Engine
from treadle_server.services.artifacts import ArtifactSweeper
from treadle_server.services.base import Health, Service, supervise
from treadle_server.services.dependants import Dependants
from treadle_server.services.folder import Folder
from treadle_server.services.leader import Leader
from treadle_server.services.poller import Poller
from treadle_server.services.probe import Probe
from treadle_server.services.promoter import Promoter
from treadle_server.services.relay.relay import Inbox, Relay
from treadle_server.services.scheduler import Scheduler
from treadle_server.services.sweeper import Sweeper


@dataclass(slots=True)
class Services:
    """The running services, by their health."""

    health: dict[str, Health] = field(default_factory=dict)
    leader: Leader | None = None
    """Knows whether this server leads; None where there is only one server."""

    def add(self, name: str) -> Health:
        """Add a service that is run elsewhere, and return its health."""
        health = self.health[name] = Health(name)
        return health


def services_of(
    engine: Engine,
    *,
    sweeper_interval: float,
    worker_timeout: float,
    objects: Objects | None = None,
    others: Sequence[Service] = (),
) -> Sequence[Service]:
    """Return the services that this store needs, and the others; intervals and timeouts are in seconds.

    With `objects`, artifacts are swept too.
    """
    services: list[Service] = [
        Sweeper(engine, interval=sweeper_interval, worker_timeout=worker_timeout),
        Promoter(engine),
        Dependants(engine),
        Scheduler(engine),
        Poller(engine),
        Probe(engine),
        *others,
    ]
    if objects is not None:
        services.append(ArtifactSweeper(engine, objects))
    if engine.store.dialect == "postgresql":
        services.append(Folder(engine))
    return services


@asynccontextmanager
async def run_services(
    engine: Engine,
    *,
    sweeper_interval: float = 5.0,
    worker_timeout: float = 60.0,
    relay: Relay | None = None,
    leader: Leader | None = None,
    objects: Objects | None = None,
    others: Sequence[Service] = (),
) -> AsyncIterator[Services]:
    """Run the services and the `others` during the block; times are in seconds. With `objects`, artifacts are swept.

    With a `leader` they run while this server leads, except those that run everywhere. It is closed at the end, as is
    the `relay`. Without a `relay` this is the only server.
    """
    found = services_of(
        engine, sweeper_interval=sweeper_interval, worker_timeout=worker_timeout, objects=objects, others=others
    )
    services = [*found, *(_of_one_server(engine) if relay is None else relay.services)]
    services += [] if leader is None else [leader]
    running = Services({service.name: Health(service.name) for service in services}, leader)
    async with AsyncExitStack() as stack:
        for part in (relay, leader):
            if part is not None:
                stack.push_async_callback(part.close)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        turns = [
            group.create_task(supervise(service, running.health[service.name], engine.clock, leader), name=service.name)
            for service in services
        ]
        try:
            yield running
        finally:
            for turn in turns:
                turn.cancel()


def _of_one_server(engine: Engine) -> list[Service]:
    """Return the service that makes a single server read everything again after a commit without an answer."""
    inbox = Inbox(engine)
    engine.unconfirmed.listen(inbox.lose)
    return [inbox]
