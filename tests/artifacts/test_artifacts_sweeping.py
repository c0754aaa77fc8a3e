"""What expires, what is abandoned, and what a crash leaves: all of it goes, and nothing else (C10)."""

import os
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.artifacts.studio import Studio, opened, problem
from tests.conftest import FakeClock
from treadle_server.errors import StoreUnavailable
from treadle_server.services.artifacts import EVERY
from treadle_server.store.read.artifacts import announced
from treadle_server.store.tables import artifacts, tasks
from treadle_server.store.transaction.artifacts import locations_of_tasks
from treadle_server.testing import serve


def aged(path: Path, studio: Studio, hours: float) -> Path:
    """Let a file look as old as the clock of the test has it."""
    at = (studio.clock.now() - timedelta(hours=hours)).timestamp()
    os.utime(path, (at, at))
    return path


async def rows(studio: Studio) -> int:
    async with studio.served.engine.store.read() as connection:
        return int((await connection.execute(sa.select(sa.func.count()).select_from(artifacts))).scalar_one())


async def test_c10_an_expired_artifact_is_gone_at_once_and_swept_with_its_object(either: Studio) -> None:
    task = await either.started()
    await either.store(task, name="kept")
    await either.store(task, name="brief", expires_at="2026-01-01T13:00:00Z")
    await either.sweep()
    assert await either.names(task) == ["brief", "kept"]

    either.clock.advance(3600)

    gone = await either.fetch(task, "brief")
    assert (gone.status_code, problem(gone)) == (404, "artifact-not-found")
    assert await either.names(task) == ["kept"]
    assert (len(either.files), await rows(either)) == (2, 2)
    await either.sweep()
    assert (len(either.files), await rows(either)) == (1, 1)
    assert (await either.fetch(task, "kept")).content == b"hello"


async def test_c10_an_upload_that_was_never_finished_is_forgotten_after_a_day(either: Studio) -> None:
    task = await either.started(lease_seconds=1_000_000)
    upload = await either.announced(task)
    either.clock.advance(23 * 3600)
    await either.sweep()
    assert await rows(either) == 1

    either.clock.advance(2 * 3600)
    await either.sweep()

    assert await rows(either) == 0
    late = await either.put(upload)
    assert (late.status_code, problem(late)) == (404, "artifact-not-found")
    assert (await either.announce(task)).status_code == 201


async def test_c10_many_expired_ones_are_swept_in_small_steps(studio: Studio) -> None:
    task = await studio.started()
    for number in range(3):
        await studio.store(task, name=f"{number}", expires_at="2026-01-01T13:00:00Z")
    async with studio.served.engine.store.write() as tx:
        copies = [
            {**row, "id": f"00000000-0000-7000-8000-{n:012}", "name": f"n{n}", "location": f"n{n}"}
            for row in (await tx.connection.execute(sa.select(artifacts).limit(1))).mappings()
            for n in range(250)
        ]
        await tx.connection.execute(sa.insert(artifacts), copies)
    studio.clock.advance(3600)

    await studio.sweep()

    assert (await rows(studio), studio.files) == (0, [])


async def test_c10_an_object_without_a_row_is_removed_after_an_hour_and_no_other(either: Studio) -> None:
    task = await either.started()
    await either.store(task)
    [known] = either.files
    young, old = known.with_name("crash-young"), known.with_name("crash-old")
    foreign = known.parent.parent / "not-ours" / "x"
    foreign.parent.mkdir()
    for path in (young, old, foreign):
        path.write_bytes(b"x")
    for path, hours in ((known, 9), (young, 0.9), (old, 1.1), (foreign, 9)):
        aged(path, either, hours)

    await either.sweep()

    assert either.files == sorted([known, young, foreign])
    assert (await either.fetch(task)).content == b"hello"


async def test_c10_what_an_upload_left_that_was_cut_off_with_its_server_is_removed_after_an_hour(
    studio: Studio,
) -> None:
    """The store lists no file that it has not finished."""
    task = await studio.started()
    await studio.store(task)
    [known] = studio.files
    young, old = known.with_name(f"{known.name}#1"), known.with_name(f"{known.name}#12")
    foreign = known.parent.parent / "not-ours" / "x#1"
    foreign.parent.mkdir()
    for path, hours in ((young, 0.9), (old, 1.1), (foreign, 9)):
        path.write_bytes(b"half of i")
        aged(path, studio, hours)

    await studio.sweep()

    assert studio.files == sorted([known, young, foreign])


async def test_c10_an_object_that_cannot_be_removed_keeps_none_of_the_others(studio: Studio) -> None:
    """What nobody may remove, such as a directory in its place, stood before all that were to go behind it."""
    task = await studio.started()
    for name in ("a", "b", "c"):
        await studio.store(task, name=name, expires_at="2026-01-01T13:00:00Z")
    held, unfinished = studio.files[0], studio.files[0].with_name("cut-off#1")
    held.unlink()
    for path in (held, unfinished):
        (path / "within").mkdir(parents=True)
    stray, other = held.with_name("stray"), held.with_name("other#2")
    for path in (stray, other):
        path.write_bytes(b"x")
    for path in (unfinished, stray, other):
        aged(path, studio, 2)
    studio.clock.advance(3600)

    await studio.sweep()

    assert (await rows(studio), studio.files) == (0, [])
    assert held.is_dir()


async def test_c10_artifacts_go_with_their_task(either: Studio) -> None:
    task = await either.started()
    await either.store(task)
    await either.announced(task, name="halfway")
    async with either.served.engine.store.write() as tx:
        seq = (await tx.connection.execute(sa.select(tasks.c.seq))).scalar_one()
        locations = await locations_of_tasks(tx, [seq])
        await tx.connection.execute(sa.delete(tasks))
    assert await rows(either) == 0

    await either.objects.remove(locations)

    assert (len(locations), either.files) == (2, [])


async def test_c10_what_a_removed_task_leaves_is_found_by_its_age(studio: Studio) -> None:
    task = await studio.started()
    await studio.store(task)
    async with studio.served.engine.store.write() as tx:
        await tx.connection.execute(sa.delete(tasks))
    aged(studio.files[0], studio, 2)

    await studio.sweep()

    assert studio.files == []


async def test_strays_are_looked_for_once_an_hour(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    older_than = studio.objects.older_than
    monkeypatch.setattr(studio.objects, "older_than", lambda at: looks.append(at) or older_than(at))

    for seconds in (0, 30, 3000, 700):
        studio.clock.advance(seconds)
        await studio.sweep()

    assert len(looks) == 2


async def test_a_large_store_is_looked_through_a_page_a_turn_and_what_expires_meanwhile_goes(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first turn listed all of it, and until it was over the server was not ready: 9 s for 100,000 objects."""
    pages = [["x/1"], [], ["x/2"]]

    async def older_than(_: datetime) -> AsyncIterator[list[str]]:
        for page in pages:
            yield page

    monkeypatch.setattr(studio.objects, "older_than", older_than)
    task = await studio.started()

    assert await studio.sweeper.turn() == 0

    await studio.store(task, name="late", expires_at="2026-01-01T13:00:00Z")
    studio.clock.advance(timedelta(hours=2).total_seconds())
    assert [await studio.sweeper.turn() for _ in range(3)] == [0, 0, EVERY]
    assert await rows(studio) == 0


async def test_a_look_that_failed_begins_anew(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    async def older_than(_: datetime) -> AsyncIterator[list[str]]:
        looks.append(len(looks))
        yield []
        if len(looks) == 1:
            raise StoreUnavailable("the bucket is away")

    monkeypatch.setattr(studio.objects, "older_than", older_than)
    await studio.sweeper.turn()
    with pytest.raises(StoreUnavailable):
        await studio.sweeper.turn()

    await studio.sweep()

    assert len(looks) == 2


@pytest.mark.postgres
async def test_an_artifact_that_is_removed_while_it_is_looked_up_is_not_there(
    postgres_database: str, clock: FakeClock, tmp_path: Path
) -> None:
    """On PostgreSQL loose reads stand in no transaction: between two of them a task may go, with all it has."""
    async with serve(postgres_database, clock=clock, data_dir=tmp_path) as served, opened(served, clock) as studio:
        task = await studio.started()
        upload = await studio.announced(task)
        store = served.engine.store

        class Removing:
            """A connection behind whose first statement others remove tasks."""

            def __init__(self, real: AsyncConnection) -> None:
                self.dialect = real.dialect
                self._real = real

            async def execute(self, statement: sa.Executable) -> object:
                found = await self._real.execute(statement)
                async with store.write() as tx:
                    await tx.connection.execute(sa.delete(tasks))
                return found

        async with store.read_loosely() as connection:
            found = await announced(
                cast("AsyncConnection", Removing(connection)), urlsplit(upload["put_url"]).path[-36:]
            )

    assert found is None
