"""Which versions meet, and in which order they are upgraded; each scenario returns what is not as it must be."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.chaos.processes import ServerProcess
from tests.history.records import Fault
from tests.history.tables import read_tables
from tests.versions.older import Version
from tests.versions.site import Site, observed, running, scope

Scenario = Callable[[Path, str, Version, Version, float, int], Awaitable[list[str]]]
"""Takes a directory, a database's URL, the older version, the newer one, seconds of load, and a seed."""


async def _together(
    directory: Path, url: str, server: Version, others: Version, seconds: float, seed: int
) -> list[str]:
    async with running(directory, url) as site:
        serving = site.add_server()
        await site.serve(server, serving)
        async with observed(site, serving):
            for n in range(2):
                site.work(others, f"worker-{n}")
            site.watch(others, "watcher")
            await site.over(site.ask(others, "client", seconds, seed))
    return await _verdict(site)


async def old_server(directory: Path, url: str, old: Version, new: Version, seconds: float, seed: int) -> list[str]:
    """An old server with new workers, clients and watchers."""
    return await _together(directory, url, old, new, seconds, seed)


async def new_server(directory: Path, url: str, old: Version, new: Version, seconds: float, seed: int) -> list[str]:
    """A new server with old workers, clients and watchers."""
    return await _together(directory, url, new, old, seconds, seed)


async def upgraded(directory: Path, url: str, old: Version, new: Version, seconds: float, seed: int) -> list[str]:
    """The server is replaced under load, at the same address, then the workers: the order that users are told."""
    async with running(directory, url) as site:
        server = site.add_server()
        await site.serve(old, server)
        workers = [site.work(old, f"worker-{n}") for n in range(2)]
        clients = [site.ask(one, f"client-{name}", seconds, seed) for name, one in (("old", old), ("new", new))]
        await site.ready(*clients)
        await asyncio.sleep(seconds / 3)
        began = time.monotonic()
        await asyncio.to_thread(server.stop)
        await site.serve(new, server)
        site.history.faults.append(Fault("upgrade", "server", began, time.monotonic()))
        async with observed(site, server):
            for n, worker in enumerate(workers):
                await asyncio.sleep(seconds / 6)
                site.work(new, f"worker-{n + 2}")
                await asyncio.to_thread(worker.stop)
            await site.over(*clients)
        refusal = await _refused(site, server, old, new)
    return await _verdict(site) + refusal


async def both(directory: Path, url: str, old: Version, new: Version, seconds: float, seed: int) -> list[str]:
    """An old and a new server at once on one PostgreSQL, with workers and clients of both."""
    async with running(directory, url) as site:
        first, second = site.add_server(), site.add_server()
        log = await site.serve(old, first)
        site.work(old, "worker-0")
        clients = [site.ask(old, "client-old", seconds, seed)]
        await site.ready(*clients)
        await asyncio.sleep(seconds / 3)
        began = time.monotonic()
        await site.serve(new, second)
        outdates = old.head != new.head
        async with observed(site, *([second] if outdates else [first, second])):
            site.work(new, "worker-1")
            clients.append(site.ask(new, "client-new", seconds, seed + 1))
            if outdates:
                # It writes no more. It ends by itself or, up to schema 0018, is stopped by whoever reads its log.
                await asyncio.sleep(seconds / 6)
                await asyncio.to_thread(first.stop)
            site.history.faults.append(Fault("upgrade", "server", began, time.monotonic()))
            await site.over(*clients)
    return await _verdict(site, outdated=log if outdates else None)


async def _verdict(site: Site, outdated: Path | None = None) -> list[str]:
    await site.gather()
    scope(site)
    rows, said = site.history.tasks, site.history.said
    print(f"  {len(rows)} tasks, {len(site.history.runs)} runs, {len(said)} requests, {len(site.history.marks)} marks")
    done = sum(row.status == "completed" for row in rows)
    found = site.judged()
    if outdated is not None:
        # What it says of a schema that it can't know is its own; that it says something is what is asked.
        found = [one for one in found if not one.startswith(outdated.name)]
        if "newer" not in await asyncio.to_thread(outdated.read_text):
            found.append("the old server did not say that a newer one has migrated its database")
    return found if done else [*found, "not one task was completed"]


async def _refused(site: Site, serving: ServerProcess, old: Version, new: Version) -> list[str]:
    """Start the old server on the new one's database: it refuses, and has changed nothing."""
    if old.head == new.head:
        return []
    await asyncio.to_thread(serving.stop)
    before = await read_tables(site.database_url)
    try:
        await site.serve(old, serving)
    except RuntimeError as error:
        print("  the old server on the new database says: " + str(error).strip().rsplit("\n", 1)[-1])
    else:
        return ["the old server started on the new one's database"]
    # Those up to schema 0018 told it with a traceback.
    site.logs.pop()
    return (
        [] if await read_tables(site.database_url) == before else ["the old server has changed the new one's database"]
    )
