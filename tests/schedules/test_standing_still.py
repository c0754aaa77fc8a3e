"""A user without a valid token acts through nothing: his schedules and webhooks stand still, and say why."""

from dataclasses import replace
from datetime import timedelta

import httpx
import pytest
import sqlalchemy as sa
from uuid_utils import uuid7

from tests.api.rooms import make_room
from tests.conftest import FakeClock
from tests.live.sockets import connected
from tests.live.test_feeds import Mirror
from tests.retention.conftest import ended
from tests.schedules.conftest import Ticker
from tests.webhooks.conftest import LOOPBACK, hook, mailing, outbox
from tests.webhooks.receiver import receiving
from treadle.wire.status import Status
from treadle_server.engine.engine import Engine
from treadle_server.live.views import SchedulesView
from treadle_server.store.tables import tokens
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio

__all__ = ["LOOPBACK"]


async def token(engine: Engine, *, user: str = "admin", lasts: float | None = None) -> None:
    """Make a token of the user, and let the engine ask for one."""
    engine.rules = replace(engine.rules, needs_tokens=True)
    now = engine.clock.now()
    expires_at = None if lasts is None else now + timedelta(seconds=lasts)
    values = {"id": str(uuid7()), "name": user, "user": user, "digest": uuid7().bytes, "superuser": False}
    async with engine.store.write() as tx:
        await tx.connection.execute(
            sa.insert(tokens).values(scopes="[]", created_at=now, expires_at=expires_at, **values)
        )


async def revoke(engine: Engine) -> None:
    async with engine.store.write() as tx:
        await tx.connection.execute(sa.update(tokens).values(revoked_at=engine.clock.now()))


@pytest.mark.parametrize("missed", ["late", "skip"])
async def test_a_schedule_makes_nothing_without_a_token_of_its_owner_and_goes_on_with_a_new_one_g10(
    ticker: Ticker, clock: FakeClock, missed: str
) -> None:
    engine = ticker.shop.engine
    await token(engine, lasts=70)
    await token(engine, user="eve")
    await ticker.set(missed=missed)
    await ticker.pass_time(60)
    assert len(await ticker.tasks()) == 1
    await ticker.finish()

    await ticker.pass_time(150)
    assert len(await ticker.tasks()) == 1, "the token has expired"
    assert await ticker.scheduler.turn() > 0.5, "it waits, and does not look again and again"
    await token(engine)
    await ticker.turn()

    made = await ticker.tasks()
    assert len(made) == (2 if missed == "late" else 1)
    if missed == "late":
        await ticker.finish()
    await ticker.pass_time(60)
    assert len(await ticker.tasks()) == len(made) + 1


async def test_the_end_of_a_task_puts_in_no_other_when_its_owner_has_no_token_g10(ticker: Ticker) -> None:
    """The tick came while it was open; the task itself goes on to its end."""
    await token(ticker.shop.engine)
    await ticker.set()
    await ticker.pass_time(60)
    await ticker.pass_time(60)
    await revoke(ticker.shop.engine)

    await ticker.finish()
    await ticker.turn()

    assert [task.status for task in await ticker.tasks()] == [Status.COMPLETED]
    await token(ticker.shop.engine)
    await ticker.turn()
    assert len(await ticker.tasks()) == 2


async def test_a_webhook_is_sent_nothing_without_a_token_of_its_owner_and_what_waited_with_a_new_one_g10(shop) -> None:
    await token(shop.engine)
    async with receiving() as receiver, mailing(shop.engine) as mail:
        await hook(shop.engine, receiver.url)
        await revoke(shop.engine)
        task = await ended(shop)
        await mail.go()
        assert receiver.got == []
        assert len(await outbox(shop.engine)) == 1

        await token(shop.engine)
        await mail.go()

        assert [got.said["data"]["id"] for got in receiver.got] == [task.id]
        assert await outbox(shop.engine) == []


async def test_what_stands_still_says_why_and_without_tokens_nothing_does_g10(tmp_path) -> None:
    paths = ("/v1/rooms/lab/schedules/nightly", "/v1/rooms/lab/webhooks/hook")

    async with (
        serve(data_dir=tmp_path) as served,
        httpx.AsyncClient(base_url=served.url, headers=served.headers) as root,
    ):
        await make_room(root)
        made = (await root.post("/v1/tokens", json={"name": "bob"})).json()
        async with httpx.AsyncClient(base_url=served.url, headers={"Authorization": f"Bearer {made['token']}"}) as bob:
            await bob.put(paths[0], json={"job": "lab:tasks:add", "payload": {"n": 1}, "interval": 3600})
            await bob.put(paths[1], json={"url": "https://hooks.example/"})
        before = [(await root.get(path)).json()["stands_still"] for path in paths]
        assert (await root.delete(f"/v1/tokens/{made['id']}")).status_code == 204
        revoked = [(await root.get(path)).json()["stands_still"] for path in paths]
        listed = (await root.get("/v1/rooms/lab/schedules")).json()["items"][0]["stands_still"]
        await root.post("/v1/tokens", json={"name": "bob"})
        again = [(await root.get(path)).json()["stands_still"] for path in paths]
        await root.delete(f"/v1/tokens/{(await root.get('/v1/tokens')).json()['items'][0]['id']}")

    assert before == again == [None, None]
    assert revoked == ["'bob' has no valid token: it goes on when a token is made for them"] * 2
    assert listed == revoked[0]
    async with serve(data_dir=tmp_path, auth="none") as served, httpx.AsyncClient(base_url=served.url) as anybody:
        assert [(await anybody.get(path)).json()["stands_still"] for path in paths] == [None, None]


async def test_a_dashboard_is_shown_what_stands_still_though_nothing_else_has_changed_g10(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(SchedulesView, "again_in", 0.05)

    async with (
        serve(data_dir=tmp_path) as served,
        httpx.AsyncClient(base_url=served.url, headers=served.headers) as root,
        connected(served) as socket,
    ):
        await make_room(root)
        made = (await root.post("/v1/tokens", json={"name": "bob"})).json()
        bob = {"Authorization": f"Bearer {made['token']}"}
        hourly = {"job": "lab:tasks:add", "payload": {"n": 1}, "interval": 3600}
        await root.put("/v1/rooms/lab/schedules/hourly", json=hourly, headers=bob)
        mirror = await Mirror(socket, "schedules").watch("schedules")

        await root.delete(f"/v1/tokens/{made['id']}")
        await mirror.until(lambda m: [row["stands_still"] is None for row in m.rows.values()] == [False])
        await root.post("/v1/tokens", json={"name": "bob"})
        await mirror.until(lambda m: [row["stands_still"] is None for row in m.rows.values()] == [True])
