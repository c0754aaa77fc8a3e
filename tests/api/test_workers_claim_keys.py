"""A claim that is sent again under its `Idempotency-Key` gives the same claims (C1, G2)."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.rooms import Room, make_room, problem, until
from tests.clients import client_at
from treadle_server.engine.dispatch.http_claims import HttpClaims
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio


async def ask(lab: Room, key: str, client: httpx.AsyncClient | None = None, **options: Any) -> httpx.Response:
    body = {"worker_id": lab.worker_id, **options}
    return await (client or lab.client).post("/v1/tasks/claim", json=body, headers={"Idempotency-Key": key})


async def claimed(lab: Room, key: str, client: httpx.AsyncClient | None = None, **options: Any) -> list[Any]:
    answer = await ask(lab, key, client, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()["tasks"]  # type: ignore[no-any-return]


def runs(tasks: list[Any]) -> list[tuple[str, int]]:
    return [(task["id"], task["run_id"]) for task in tasks]


async def test_a_claim_that_was_on_its_way_when_its_worker_was_asked_to_drain_is_given_nothing(
    lab: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = HttpClaims._kept

    async def asked_meanwhile(self: HttpClaims, *given: Any) -> Any:
        assert (await lab.client.post(f"/v1/workers/{lab.worker_id}/drain")).status_code == 200
        return await kept(self, *given)

    monkeypatch.setattr(HttpClaims, "_kept", asked_meanwhile)
    await lab.submit()

    assert await claimed(lab, "a") == []


async def test_a_claim_that_is_sent_again_gives_the_same_claims_with_fresh_credentials_c1_g2(
    served: Served, lab: Room
) -> None:
    """Its payload too; another key gives others, and without one nothing is kept."""
    for n in range(4):
        await lab.submit(n)

    first = await claimed(lab, "a", tasks=2)
    again = await claimed(lab, "a", tasks=2)
    others = await claimed(lab, "b", tasks=2)

    assert runs(again) == runs(first)
    assert [task["payload"] for task in again] == [{"n": 0}, {"n": 1}]
    assert [task["payload"] for task in others] == [{"n": 2}, {"n": 3}]
    async with client_at(served.url, {"Authorization": f"Bearer {again[0]['credentials']}"}) as code:
        task_id, run_id = runs(again)[0]
        started = await code.post(f"/v1/tasks/{task_id}/runs/{run_id}/started")
    assert started.status_code == 200
    assert runs(await claimed(lab, "a", tasks=2)) == runs(first)


async def test_only_those_of_its_claims_that_are_still_held_are_given_again_g3(lab: Room) -> None:
    for n in range(2):
        await lab.submit(n)
    one, two = await claimed(lab, "a", tasks=2)
    path = f"/v1/tasks/{one['id']}/runs/{one['run_id']}"
    assert (await lab.client.post(f"{path}/started")).status_code == 200
    assert (await lab.client.post(f"{path}/completed", json={"result": 1})).status_code == 200

    again = await claimed(lab, "a", tasks=2)
    assert (await lab.client.post(f"/v1/tasks/{two['id']}/cancel")).status_code == 200
    none = await claimed(lab, "a", tasks=2)

    assert runs(again) == runs([two])
    assert none == []


async def test_another_body_under_the_key_is_a_conflict_g6(lab: Room) -> None:
    await lab.submit()
    await claimed(lab, "a", tasks=2)

    answer = await ask(lab, "a", tasks=3)

    assert (answer.status_code, problem(answer)) == (409, "task-conflict")
    assert "Idempotency-Key" in answer.json()["detail"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "\xe4"])
async def test_a_key_that_is_none_is_refused_and_claims_nothing_g9(lab: Room, key: str) -> None:
    await lab.submit()
    body = {"worker_id": lab.worker_id}

    answer = await lab.client.post("/v1/tasks/claim", json=body, headers=[("Idempotency-Key", key.encode("latin-1"))])

    assert (answer.status_code, problem(answer)) == (422, "validation-error")
    assert len((await lab.claim())["tasks"]) == 1


async def test_a_key_is_its_workers_own_g2(lab: Room) -> None:
    for n in range(2):
        await lab.submit(n)
    worker = await lab.client.post("/v1/workers", json={})
    other = Room(lab.client, lab.room, lab.job, worker.json()["id"])
    link = {"category": "tasks", "name": "add", "schema": (await _schema(lab)), "worker_id": other.worker_id}
    assert (await lab.client.put(f"/v1/rooms/{lab.room}/jobs", json=link)).status_code == 200

    mine, its = await claimed(lab, "a"), await claimed(other, "a")

    assert [task["payload"]["n"] for task in [*mine, *its]] == [0, 1]


async def _schema(lab: Room) -> Any:
    return (await lab.client.get(f"/v1/rooms/{lab.room}/jobs/{lab.job}")).json()["schema"]


async def test_who_has_gone_finds_its_claims_when_it_comes_back_c1(
    served: Served, lab: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection broke while the claim was being committed; without a key they go back."""
    from treadle_server.store.transaction import hot

    await lab.submit()
    begun, going = asyncio.Event(), asyncio.Event()
    write = hot.claim

    async def slowly(*args: Any) -> None:
        begun.set()
        await going.wait()
        await write(*args)

    monkeypatch.setattr(hot, "claim", slowly)
    asking = asyncio.ensure_future(ask(lab, "a", wait=20))
    await begun.wait()
    asking.cancel()
    await until(lambda: not served.engine.dispatcher._waiting)
    going.set()

    [found] = await claimed(lab, "a", wait=20)

    assert (found["payload"], found["run_id"]) == ({"n": 0}, 0)


async def test_of_two_that_wait_under_one_key_the_later_one_is_served_c1(served: Served, lab: Room) -> None:
    """The first one's connection is dead, though nobody knows it yet."""
    first = asyncio.ensure_future(claimed(lab, "a", wait=20))
    await until(lambda: served.engine.dispatcher._waiting)
    second = asyncio.ensure_future(claimed(lab, "a", wait=20))
    assert await first == []
    await until(lambda: served.engine.dispatcher._waiting)
    task = await lab.submit()

    assert runs(await second) == [(task["id"], 0)]
    assert runs(await claimed(lab, "a", wait=20)) == [(task["id"], 0)]


async def test_the_claims_outlive_the_server_g1(database_url: str, tmp_path: Path) -> None:
    """As they outlive the connection: they are kept in the transaction of the claim itself."""
    async with serve(database_url, data_dir=tmp_path) as served, client_at(served.url, served.headers) as client:
        lab = await make_room(client)
        for n in range(3):
            await lab.submit(n)
        first = await claimed(lab, "a", tasks=2)
    async with serve(database_url, data_dir=tmp_path) as served, client_at(served.url, served.headers) as client:
        again = await claimed(lab, "a", client, tasks=2)

    assert len(first) == 2
    assert runs(again) == runs(first)


@pytest.mark.postgres
async def test_the_claims_are_the_same_at_the_second_server_g11(postgres_database: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(2):
            served = await stack.enter_async_context(serve(postgres_database, data_dir=tmp_path))
            clients.append(await stack.enter_async_context(client_at(served.url, served.headers)))
        lab = await make_room(clients[0])
        for n in range(3):
            await lab.submit(n)

        first, again = await claimed(lab, "a", tasks=2), await claimed(lab, "a", clients[1], tasks=2)
        rest = await claimed(lab, "b", clients[1], tasks=2)

    assert runs(again) == runs(first)
    assert [task["payload"] for task in rest] == [{"n": 2}]


async def test_a_key_is_forgotten_after_a_lease(served: Served, lab: Room) -> None:
    """Then it is another request, and what was claimed under it was lost long ago."""
    from sqlalchemy import select, update

    from treadle_server.store.tables import claim_keys

    for n in range(3):
        await lab.submit(n)
    [first] = await claimed(lab, "a")
    async with served.engine.store.write() as tx:
        past = served.engine.clock.now() - timedelta(seconds=1)
        await tx.connection.execute(update(claim_keys).values(expires_at=past))

    [second] = await claimed(lab, "a")
    [third] = await claimed(lab, "b")
    async with served.engine.store.read() as connection:
        kept = [row[0] for row in await connection.execute(select(claim_keys.c.key))]

    assert len({task["id"] for task in (first, second, third)}) == 3
    assert sorted(kept) == ["a", "b"]
