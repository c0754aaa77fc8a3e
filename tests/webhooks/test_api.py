"""Webhooks over HTTP and on the command line: set, shown, deleted, their dead deliveries redelivered (E12)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import sqlalchemy as sa

from tests.api.conftest import alice, bob, lab, root, user
from tests.api.rooms import Room, problem
from tests.waiting import until
from tests.webhooks.conftest import THEN, outbox
from tests.webhooks.receiver import Receiver, says
from treadle_server.api import webhooks as api
from treadle_server.store import tables
from treadle_server.store.transaction import webhooks as stored
from treadle_server.testing import Served, serve

__all__ = ["alice", "bob", "lab", "root", "user"]

pytestmark = pytest.mark.anyio

HOOK = "/v1/rooms/lab/webhooks/ci"
DEAD = sa.text("SELECT count(*) FROM webhook_deliveries WHERE dead_at IS NOT NULL")


@pytest.fixture
async def served(database_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(
        database_url, data_dir=tmp_path / "data", webhook_allowed_networks=("127.0.0.0/8",), webhook_attempts=1
    ) as served:
        yield served
    assert served.engine.store.connections_checked_out() == 0  # type: ignore[attr-defined]


async def cancelled(lab: Room) -> str:
    task_id = (await lab.submit())["id"]
    assert (await lab.client.post(f"/v1/tasks/{task_id}/cancel")).status_code == 200
    return task_id


async def test_a_webhook_is_set_told_and_shown_and_its_secret_is_shown_once_e12(
    root: httpx.AsyncClient, lab: Room, receiver: Receiver
) -> None:
    made = await root.put(HOOK, json={"url": receiver.url, "jobs": [lab.job], "statuses": ["cancelled", "failed"]})
    secret = made.json()["secret"]
    assert (made.status_code, secret[:6], len(secret)) == (201, "whsec_", 50)

    task_id = await cancelled(lab)
    [got] = await receiver.until(1)
    assert got.is_signed_with(secret)
    assert got.said["data"]["id"] == task_id

    shown = (await root.get(HOOK)).json()
    assert (shown["name"], shown["jobs"], shown["statuses"]) == ("ci", [lab.job], ["cancelled", "failed"])
    assert (shown["owner"], shown["secret"]) == ("admin", None)
    changed = await root.put(HOOK, json={"url": f"{receiver.url}?v=2"})
    assert (changed.status_code, changed.json()["secret"], changed.json()["id"]) == (200, None, shown["id"])
    assert (changed.json()["jobs"], changed.json()["statuses"]) == (None, ["cancelled", "completed", "failed"])
    rotated = (await root.put(HOOK, json={"url": receiver.url, "rotate": True})).json()["secret"]
    assert rotated not in {None, secret}
    await cancelled(lab)
    assert (await receiver.until(2))[1].is_signed_with(rotated)
    [listed] = (await root.get("/v1/rooms/lab/webhooks")).json()["items"]
    assert (listed["id"], listed["secret"]) == (shown["id"], None)

    assert (await root.delete(HOOK)).status_code == 204
    assert problem(await root.get(HOOK)) == "webhook-not-found"
    assert problem(await root.delete(HOOK)) == "webhook-not-found"


async def until_dead(root: httpx.AsyncClient, count: int) -> None:
    await until(lambda: root.get(HOOK), lambda answer: answer.json()["dead"] >= count)


async def test_dead_deliveries_are_listed_and_redelivered_e12(
    root: httpx.AsyncClient, lab: Room, receiver: Receiver, served: Served
) -> None:
    await root.put(HOOK, json={"url": receiver.url})
    receiver.answers = [says(503)] * 3
    tasks = [await cancelled(lab) for _ in range(3)]
    await receiver.until(3)
    await until_dead(root, 3)

    page = (await root.get(f"{HOOK}/deliveries")).json()
    assert (page["total"], [item["task_id"] for item in page["items"]]) == (3, tasks[::-1])
    item = page["items"][0]
    assert (item["status"], item["attempts"], item["answered"], item["error"]) == (
        "cancelled",
        1,
        503,
        "answered 503",
    )
    assert (await root.get(f"{HOOK}/deliveries", params={"state": "waiting"})).json()["total"] == 0
    assert (await root.get(f"{HOOK}/deliveries", params={"limit": 1, "offset": 1})).json()["items"][0][
        "task_id"
    ] == tasks[1]

    nobody = "0199aaaa-0000-7000-8000-000000000000"
    refused = await root.post(f"{HOOK}/redeliver", json={"ids": [item["id"], nobody]})
    assert (problem(refused), nobody in refused.json()["detail"]) == ("validation-error", True)
    assert (await root.get(HOOK)).json()["dead"] == 3
    assert (await root.post(f"{HOOK}/redeliver", json={"ids": [item["id"]]})).json() == {"redelivered": 1}
    assert (await receiver.until(4))[3].id == item["id"]
    assert (await root.post(f"{HOOK}/redeliver")).json() == {"redelivered": 2}
    await receiver.until(5)
    await until(lambda: outbox(served.engine), lambda left: not left)


async def dead_deliveries(served: Served, webhook_id: str, count: int) -> None:
    """Put dead deliveries of one task into the outbox."""
    async with served.engine.store.write() as tx:
        seq = (await tx.connection.execute(sa.select(tables.tasks.c.seq))).scalar_one()
        row = {"webhook_id": webhook_id, "task_seq": seq, "status": "cancelled", "body": "{}", "created_at": THEN}
        row |= {"attempts": 1, "dead_at": THEN}
        rows = [{"id": str(uuid4()), **row} for _ in range(count)]
        await tx.connection.execute(sa.insert(tables.webhook_deliveries), rows)


@pytest.mark.parametrize("verb", ["redeliver", "delete"])
async def test_many_deliveries_are_redelivered_or_deleted_in_portions_e12(
    root: httpx.AsyncClient, lab: Room, receiver: Receiver, served: Served, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """50,000 in one transaction held the loop for 0.7 s, and every other writer for longer."""
    monkeypatch.setattr(api, "AT_ONCE", 2)
    await cancelled(lab)
    shown = (await root.put(HOOK, json={"url": receiver.url})).json()
    await dead_deliveries(served, shown["id"], 5)
    left: list[int] = []
    name = "revive" if verb == "redeliver" else "empty"
    step = getattr(stored, name)

    async def counted(tx: Any, *given: Any) -> Any:
        done = await step(tx, *given)
        left.append((await tx.connection.execute(DEAD)).scalar_one())
        return done

    monkeypatch.setattr(stored, name, counted)

    if verb == "redeliver":
        assert (await root.post(f"{HOOK}/redeliver")).json() == {"redelivered": 5}
    else:
        assert (await root.delete(HOOK)).status_code == 204

    assert left == [3, 1, 0]
    await until(lambda: outbox(served.engine), lambda rows: not rows)


REFUSED = (
    ({}, "url"),
    ({"url": "ftp://example.org"}, "write a URL such as https://"),
    ({"url": "https://"}, "write a URL such as https://"),
    ({"url": "https://me:secret@example.org/"}, "contains a user or a password"),
    ({"url": "https://example.org/a b"}, "contains a space"),
    ({"url": "https://example.org:99999/"}, "url"),
    ({"url": "http://169.254.169.254/latest"}, "169.254.169.254 is not a public address"),
    ({"url": "http://[::1]:80/"}, "::1 is not a public address"),
    ({"url": "https://example.org", "jobs": ["nonsense"]}, "write room:category:name"),
    ({"url": "https://example.org", "jobs": []}, "jobs"),
    ({"url": "https://example.org", "statuses": ["running"]}, "not an outcome"),
    ({"url": "https://example.org", "statuses": []}, "statuses"),
    ({"url": "https://example.org", "secret": "mine"}, "secret"),
)


async def test_a_webhook_that_could_tell_nobody_anything_is_refused_e12_g9(root: httpx.AsyncClient) -> None:
    for body, word in REFUSED:
        answer = await root.put(HOOK, json=body)
        assert (answer.status_code, problem(answer)) == (422, "validation-error"), body
        assert word in answer.json()["detail"], body

    assert problem(await root.get(HOOK)) == "webhook-not-found"


async def test_a_name_or_room_that_is_none_is_refused_e12_z2(root: httpx.AsyncClient) -> None:
    url = {"url": "https://example.org"}

    assert problem(await root.put("/v1/rooms/lab/webhooks/a%20b", json=url)) == "validation-error"
    assert problem(await root.put(f"/v1/rooms/lab/webhooks/{'x' * 65}", json=url)) == "validation-error"
    assert problem(await root.put("/v1/rooms/a:b/webhooks/x", json=url)) == "invalid-room-id"
    assert problem(await root.get("/v1/rooms/lab/webhooks/none/deliveries")) == "webhook-not-found"
    assert problem(await root.get(f"{HOOK}/deliveries", params={"state": "odd"})) == "validation-error"


async def test_a_webhook_is_its_owners_and_those_of_shared_rooms_are_superusers_e12_g10(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    url = {"url": "https://example.org/secret-path"}
    assert (await alice.put(HOOK, json=url)).status_code == 201

    assert (await bob.get("/v1/rooms/lab/webhooks")).json()["items"] == []
    assert [item["owner"] for item in (await alice.get("/v1/rooms/lab/webhooks")).json()["items"]] == ["alice"]
    for answer in (await bob.get(HOOK), await bob.delete(HOOK), await bob.get(f"{HOOK}/deliveries")):
        assert problem(answer) == "webhook-not-found"
    assert problem(await bob.post(f"{HOOK}/redeliver")) == "webhook-not-found"
    assert problem(await bob.put(HOOK, json=url)) == "forbidden"
    assert (await root.get(HOOK)).json()["owner"] == "alice"
    for room in ("@global", "@internal"):
        assert problem(await alice.put(f"/v1/rooms/{room}/webhooks/x", json=url)) == "forbidden"
        assert problem(await alice.get(f"/v1/rooms/{room}/webhooks")) == "forbidden"
    assert (await root.put("/v1/rooms/@global/webhooks/x", json=url)).status_code == 201


async def test_two_who_set_the_same_webhook_at_once_make_one_e12(root: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(root.put(HOOK, json={"url": "https://example.org"}) for _ in range(6)))

    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
    assert (await root.get("/v1/rooms/lab/webhooks")).json()["total"] == 1


async def test_a_room_has_a_hundred_webhooks_at_most_e12(root: httpx.AsyncClient) -> None:
    for n in range(100):
        assert (await root.put(f"/v1/rooms/lab/webhooks/n{n}", json={"url": "https://example.org"})).status_code == 201

    refused = await root.put(HOOK, json={"url": "https://example.org"})

    assert (problem(refused), "100 webhooks already" in refused.json()["detail"]) == ("validation-error", True)
    assert (await root.put("/v1/rooms/lab/webhooks/n1", json={"url": "https://example.com"})).status_code == 200


async def test_a_webhook_that_is_deleted_is_told_nothing_more_e12(
    root: httpx.AsyncClient, lab: Room, receiver: Receiver, served: Served
) -> None:
    await receiver.stop()
    await root.put(HOOK, json={"url": receiver.url})
    await cancelled(lab)
    await until_dead(root, 1)  # a try that is under way may still arrive
    await root.delete(HOOK)
    await receiver.start()

    await root.put("/v1/rooms/lab/webhooks/other", json={"url": f"{receiver.url}/other"})
    await cancelled(lab)
    [got] = await receiver.until(1)

    assert got.path == "/hook/other"
