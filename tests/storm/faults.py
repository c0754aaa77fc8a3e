"""What befalls a site: each fault has a kind, a thing that it happens to, and an end at which that thing is whole."""

import asyncio
import os
import random
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import asyncpg

from tests.chaos.processes import Process, ServerProcess
from tests.chaos.wires import Fault as WireFault
from tests.chaos.wires import Wire
from tests.history.records import Fault
from tests.servers.postgres import OwnPostgres
from tests.storm.site import Site
from tests.storm.wires import DatabaseWire

Act = Callable[[random.Random], Awaitable[None]]

REST = 5.0
"""Seconds that a thing, and the database with all lines to it, is left alone after a fault: what never has a good
moment shows nothing but that."""

SPARE = 64 * 1024
"""Bytes that are left on a disk that is full."""

REST_WRITTEN = 4 * 1024 * 1024
"""Bytes of a disk that are filled by writing, while the database writes too."""


@dataclass
class Weather:
    """Brings faults upon a site, several at once but never two on one thing, and writes them down."""

    site: Site
    chance: random.Random
    faults: list[Fault] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    """What no fault may bring about, such as a process that ended by itself."""
    _busy: set[str] = field(default_factory=set)

    async def rage(self, until: float, pause: float, on_end: Callable[[Fault], None]) -> None:
        """Bring faults, one each `pause` seconds or so, until the instant, and wait for the end of each."""
        menu = _menu(self.site)
        async with asyncio.TaskGroup() as group:
            while (left := until - time.monotonic()) > 0:
                await asyncio.sleep(min(left, self.chance.uniform(0, 2 * pause)))
                # First what happens, then to whom: a fault with many things to happen to is no likelier.
                kind = self.chance.choice(sorted({kind for kind, _, _ in menu}))
                thing, act = self.chance.choice([(thing, act) for one, thing, act in menu if one == kind])
                if self._is_whole(thing) and time.monotonic() < until:
                    group.create_task(self._happen(kind, thing, act, on_end))

    def _is_whole(self, thing: str) -> bool:
        now, kin = time.monotonic(), _kin(thing)
        busy = thing in self._busy or any(_kin(other) == kin == "database" for other in self._busy)
        return not busy and not any(_kin(one.on) == kin and now < one.ended + REST for one in self.faults[-50:])

    async def guard(self) -> None:
        """Notice processes that end by themselves, and start them again, for ever."""
        while True:
            await asyncio.sleep(0.5)
            for name, process in self.site.processes.items():
                if name not in self._busy and process.has_died:
                    self._busy.add(name)
                    self.troubles.append(f"{name} ended by itself: {process.log.read_text()[-1500:]}")
                    await begin(process)
                    self._busy.discard(name)

    async def _happen(self, kind: str, thing: str, act: Act, on_end: Callable[[Fault], None]) -> None:
        self._busy.add(thing)
        began = time.monotonic()
        try:
            await act(self.chance)
        except (OSError, asyncpg.PostgresError):
            # The database that was to be asked is away already.
            return
        except RuntimeError as error:
            self.troubles.append(f"{kind} of {thing}: {error}")
        finally:
            self._busy.discard(thing)
        self.faults.append(Fault(kind, thing, began, time.monotonic()))
        on_end(self.faults[-1])


def _kin(thing: str) -> str:
    """Return what a thing rests with."""
    return "database" if thing.startswith("database") else thing


def _menu(site: Site) -> list[tuple[str, str, Act]]:
    menu: list[tuple[str, str, Act]] = []
    for name, process in site.processes.items():
        menu += [
            ("kill", name, _killing(process)),
            ("end", name, _ending(process)),
            ("freeze", name, _freezing(process)),
        ]
    for name, wire in site.wires.items():
        menu += [(kind, name, _wiring(wire, kind)) for kind in get_args(WireFault)]
    for name, wire in site.database_wires.items():
        kinds = ("reset", "refuse", "half-close", "delay", "blackhole", "torn")
        menu += [(f"database {kind}", name, _wiring(wire, kind)) for kind in kinds]
        menu.append(("database mute", name, _muting(wire)))
    if site.postgres is not None:
        menu += [("database dies", "database", _restarting(site)), ("sessions end", "database", _terminating(site))]
        menu.append(("database clock", "database", _shifting(site)))
    menu += [("clock", f"clock-{name}", _stepping(site, name)) for name in site.servers]
    if site.disk is not None:
        menu.append(("disk full", "disk" if site.postgres is None else "database", _filling(site)))
    return menu


def _killing(process: Process) -> Act:
    async def kill(chance: random.Random) -> None:
        process.kill()
        await asyncio.sleep(chance.choice((0, 0, 0.5, 3)))
        await begin(process)

    return kill


def _ending(process: Process) -> Act:
    async def end(chance: random.Random) -> None:
        process.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(45):
                await process.ended()
        except TimeoutError:
            process.kill()
            await begin(process)
            raise RuntimeError("it did not end within 45 s of SIGTERM") from None
        await begin(process)

    return end


async def begin(process: Process) -> None:
    """Start it, again if need be: a server that finds no database in time says so and ends."""
    async with asyncio.timeout(120):
        while True:
            try:
                await asyncio.to_thread(process.start)
            except RuntimeError:
                if isinstance(process, ServerProcess) and process.has_ended:
                    await asyncio.sleep(0.5)
                    continue
                raise
            return


def _freezing(process: Process) -> Act:
    async def freeze(chance: random.Random) -> None:
        process.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(chance.choice((0.3, 2, 5, 9)))
        finally:
            process.signal(signal.SIGCONT)

    return freeze


def _wiring(wire: Wire, kind: WireFault) -> Act:
    async def break_(chance: random.Random) -> None:
        await wire.begin(kind)
        await asyncio.sleep(chance.choice((0.2, 0.5, 1, 4)))
        await wire.restore()

    return break_


def _muting(wire: DatabaseWire) -> Act:
    async def mute(chance: random.Random) -> None:
        wire.is_mute = True
        await asyncio.sleep(chance.uniform(0.1, 1))
        wire.is_mute = False

    return mute


def _restarting(site: Site) -> Act:
    async def restart(chance: random.Random) -> None:
        assert site.postgres is not None
        await asyncio.to_thread(site.postgres.stop, "immediate")
        await asyncio.sleep(chance.choice((0, 1, 4)))
        await asyncio.to_thread(site.postgres.start)

    return restart


def _terminating(site: Site) -> Act:
    async def terminate(chance: random.Random) -> None:
        async with _asked(site) as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    return terminate


async def set_clocks_forward(site: Site) -> None:
    """Have every clock show the latest time that it ever showed: what was put in then falls due."""
    for name in site.servers:
        most = site.most_ahead(name)
        site.clock_file(name).write_text(f"{most:+.0f}")
        site.steps.setdefault(name, []).append((time.monotonic(), most))
    if site.postgres is not None:
        async with _asked(site) as connection:
            most = site.most_ahead("database")
            await connection.execute("UPDATE shifted.by SET seconds = $1", most)
            site.steps.setdefault("database", []).append((time.monotonic(), most))


STEPS = (3_600.0, 60.0, 8.0, -8.0, -60.0, -3_600.0)
"""Seconds by which a clock is set."""


def _shifting(site: Site) -> Act:
    async def shift(chance: random.Random) -> None:
        await set_clock(site, chance.choice(STEPS))

    return shift


async def set_clock(site: Site, seconds: float) -> None:
    """Set the database's clock forward by so much, or back."""
    async with _asked(site) as connection:
        shown = await connection.fetchval("UPDATE shifted.by SET seconds = seconds + $1 RETURNING seconds", seconds)
        site.steps.setdefault("database", []).append((time.monotonic(), shown))


@asynccontextmanager
async def _asked(site: Site) -> AsyncIterator[asyncpg.Connection]:
    assert site.postgres is not None
    connection = await asyncpg.connect(site.postgres.url, timeout=30)
    try:
        yield connection
    finally:
        with suppress(asyncpg.PostgresError, OSError):
            await connection.close(timeout=5)


def _stepping(site: Site, name: str) -> Act:
    async def step(chance: random.Random) -> None:
        file = site.clock_file(name)
        off = float(file.read_text()) + chance.choice(STEPS)
        file.write_text(f"{off:+.0f}")
        site.steps.setdefault(name, []).append((time.monotonic(), off))

    return step


def _filling(site: Site) -> Act:
    async def fill(chance: random.Random) -> None:
        assert site.disk is not None
        ballast = site.disk / "ballast"
        try:
            await asyncio.to_thread(_fill, ballast, chance.choice((0, SPARE)))
            await asyncio.sleep(chance.choice((0.5, 2, 5)))
        finally:
            # To give a gigabyte back takes as long.
            await asyncio.to_thread(ballast.unlink, missing_ok=True)
        if site.postgres is not None:
            await _is_back(site, site.postgres)

    return fill


async def _is_back(site: Site, postgres: OwnPostgres) -> None:
    """Wait for the database: it ends by itself when it can't write its log, and whoever runs it starts it again."""
    async with asyncio.timeout(120):
        while True:
            await asyncio.to_thread(postgres.start_again)
            with suppress(OSError, asyncpg.PostgresError):
                async with _asked(site):
                    return
            await asyncio.sleep(0.2)


def _fill(ballast: Path, spare: int) -> None:
    """Leave so many bytes: most is reserved at once, for writing a gigabyte takes a busy machine twenty seconds."""
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(ballast.parent).free - REST_WRITTEN)
        file.seek(0, os.SEEK_END)
        while (left := shutil.disk_usage(ballast.parent).free - spare) > 0:
            file.write(bytes(min(left, 1 << 16)))
