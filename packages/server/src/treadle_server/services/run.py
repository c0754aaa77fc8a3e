"""Runs the services beside the engine, and tells how they do."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from treadle_server.artifacts.vault import Vault
from treadle_server.engine.engine import Engine
from treadle_server.services.artifacts import ArtifactSweeper
from treadle_server.services.base import Health, Service, supervise
from treadle_server.services.folder import Folder
from treadle_server.services.poller import Poller
from treadle_server.services.promoter import Promoter
from treadle_server.services.sweeper import Sweeper


@dataclass(slots=True)
class Services:
    """The services that run, each with its health."""

    health: dict[str, Health] = field(default_factory=dict)

    @property
    def are_well(self) -> bool:
        """Return whether every service's last turn was good."""
        return all(health.is_well for health in self.health.values())


def services_of(
    engine: Engine,
    *,
    sweeper_interval: float,
    worker_timeout: float,
    vault: Vault | None = None,
    others: Sequence[Service] = (),
) -> Sequence[Service]:
    """Return the services that this store needs, and the others."""
    services: list[Service] = [
        Sweeper(engine, interval=sweeper_interval, worker_timeout=worker_timeout),
        Promoter(engine),
        Poller(engine),
        *others,
    ]
    if vault is not None:
        services.append(ArtifactSweeper(engine, vault))
    if engine.store.dialect == "postgresql":
        services.append(Folder(engine))
    return services


@asynccontextmanager
async def run_services(
    engine: Engine,
    *,
    sweeper_interval: float = 5.0,
    worker_timeout: float = 60.0,
    vault: Vault | None = None,
    others: Sequence[Service] = (),
) -> AsyncIterator[Services]:
    """Run them during the block, and the others beside them; times in seconds, `vault` where artifacts are swept."""
    services = services_of(
        engine, sweeper_interval=sweeper_interval, worker_timeout=worker_timeout, vault=vault, others=others
    )
    running = Services({service.name: Health(service.name) for service in services})
    async with asyncio.TaskGroup() as group:
        turns = [
            group.create_task(supervise(service, running.health[service.name], engine.clock), name=service.name)
            for service in services
        ]
        try:
            yield running
        finally:
            for turn in turns:
                turn.cancel()
