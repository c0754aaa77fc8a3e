"""What is owed arrives: at least once, signed, later if the receiver is not there, by one server at a time (E12)."""

import asyncio

import pytest
from sqlalchemy import Executable, delete, update

from tests.engine.conftest import two_shops
from tests.retention.conftest import ended
from tests.waiting import until
from tests.webhooks.conftest import hook, mailing, outbox
from tests.webhooks.receiver import receiving, says
from treadle.wire.status import Status
from treadle_server.domain.webhooks import LONGEST_DELAY, Answer
from treadle_server.store import tables
from treadle_server.store.transaction import webhooks
from treadle_server.webhooks import room
from treadle_server.webhooks import sender as sender_module

pytestmark = pytest.mark.anyio

PATIENT = 90.0
"""Seconds that a sender waits where receivers are to keep it waiting for as long as the test takes."""


async def test_an_outcome_arrives_signed_as_standard_webhooks_says_and_is_forgotten_e12(
    shop, clock, mail, receiver
) -> None:
    one = await hook(shop.engine, receiver.url)
    task = await ended(shop, Status.FAILED)

    await mail.go()

    [got] = receiver.got
    assert got.path == "/hook"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["webhook-timestamp"] == str(int(clock.now().timestamp()))
    assert got.is_signed_with(one["secret"])
    assert not got.is_signed_with("whsec_" + "A" * 43 + "=")
    assert (got.said["type"], got.said["data"]["id"], got.said["data"]["error"]) == ("task.failed", task.id, "boom")
    assert await outbox(shop.engine) == []


async def test_a_receiver_that_is_gone_gets_it_when_it_is_back_with_the_same_id_and_growing_pauses_e12(
    shop, clock, mail, receiver
) -> None:
    one = await hook(shop.engine, receiver.url)
    await ended(shop)
    await receiver.stop()
    began, pauses = clock.now(), []
    for _ in range(2):
        await mail.go()
        [row] = await outbox(shop.engine)
        pauses.append((row.next_at - clock.now()).total_seconds())
        clock.advance(pauses[-1] - 0.001)
        await mail.go()
        assert (await outbox(shop.engine)) == [row], "not before its time"
        clock.advance(0.001)

    await receiver.start()
    await mail.go()

    [got] = receiver.got
    assert (got.id, got.is_signed_with(one["secret"])) == (row.id, True)
    assert int(got.headers["webhook-timestamp"]) > began.timestamp()
    assert 3.75 <= pauses[0] <= 6.25
    assert 15 <= pauses[1] <= 25
    assert "ConnectError" in row.error
    assert await outbox(shop.engine) == []


async def test_after_its_tries_a_delivery_is_dead_and_redelivered_on_request_with_the_same_id_e12(
    shop, clock, mail, receiver
) -> None:
    await hook(shop.engine, receiver.url)
    await ended(shop)
    receiver.answers = [says(500, body=b"no\x00 <b>room</b>")] * 3
    for _ in range(5):
        await mail.go()
        clock.advance(100)

    assert len(receiver.got) == 3
    [dead] = await outbox(shop.engine)
    assert (dead.attempts, dead.answered, dead.next_at) == (3, 500, None)
    assert dead.dead_at is not None
    assert dead.error == "answered 500: no <b>room</b>"

    from treadle_server.store.transaction.webhooks import revive

    async with shop.engine.store.write() as tx:
        assert await revive(tx, dead.webhook_id, [dead.id], clock.now(), 1) == {dead.id}
    await mail.go()

    assert [got.id for got in receiver.got] == [dead.id] * 4
    assert await outbox(shop.engine) == []


@pytest.mark.parametrize(
    ("answer", "error", "is_dead"),
    [
        (says(302, "location: http://127.0.0.1:1/"), "answered 302: redirects are not followed", False),
        (says(410, body=b"gone"), "answered 410: gone", True),
        (says(404), "answered 404", False),
        (b"nonsense\r\n\r\n", "RemoteProtocolError", False),
        (b"", "RemoteProtocolError", False),
    ],
)
async def test_an_answer_that_is_no_success_is_noted_and_a_gone_receiver_is_left_alone_e12(
    shop, mail, receiver, answer, error, is_dead, caplog
) -> None:
    name = (await hook(shop.engine, receiver.url))["name"]
    await ended(shop)
    receiver.answers = [answer]

    await mail.go()

    [row] = await outbox(shop.engine)
    assert row.error.startswith(error)
    assert (row.dead_at is not None) is is_dead
    # Not what the receiver said: it may have repeated the body.
    dead = (
        f"a delivery of the webhook {name} of @global is dead after 1 attempt: answered 410;"
        f" see `treadle webhooks deliveries {name} --room @global`"
    )
    assert [one.message for one in caplog.records if one.levelname == "WARNING"] == [dead] * is_dead
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (("retry-after: 900",), 900),
        (("date: Sun, 25 Oct 2026 00:59:00 GMT", "retry-after: Sun, 25 Oct 2026 01:14:00 GMT"), 900),
        (("retry-after: 99999999999999999999",), LONGEST_DELAY),
    ],
)
async def test_a_receiver_that_asks_for_a_pause_gets_it_e12(shop, clock, mail, receiver, asked, seconds) -> None:
    await hook(shop.engine, receiver.url)
    await ended(shop)
    receiver.answers = [says(429, *asked)]

    await mail.go()

    [row] = await outbox(shop.engine)
    assert (row.next_at - clock.now()).total_seconds() == seconds


@pytest.mark.parametrize(
    "asked",
    [
        ("retry-after: -5",),
        ("retry-after: soon",),
        ("retry-after: Sun, 25 Oct 2026 01:14:00 GMT",),
        ("retry-after: Sun, 25 Oct 99999999999999999999 01:14:00 GMT",),
        ("date: Sun, 25 Oct 2026 00:59:00 GMT", "retry-after: Sun, 25 Oct 2026 00:14:00 GMT"),
        ("date: Sun, 25 Oct 2026 00:59:00 -0000", "retry-after: Sun, 25 Oct 2026 01:14:00 GMT"),
    ],
)
async def test_what_says_no_pause_is_not_heeded_e12(shop, clock, mail, receiver, asked) -> None:
    await hook(shop.engine, receiver.url)
    await ended(shop)
    receiver.answers = [says(503, *asked)]

    await mail.go()

    [row] = await outbox(shop.engine)
    assert row.error == "answered 503"
    assert 3.75 <= (row.next_at - clock.now()).total_seconds() <= 6.25


async def test_a_status_counts_though_what_is_said_beside_it_never_comes_e12(shop, receiver) -> None:
    async def never_ends(writer: asyncio.StreamWriter) -> None:
        writer.write(says(200, body=b"half")[:-2])
        await writer.drain()
        await asyncio.Event().wait()

    await hook(shop.engine, receiver.url)
    async with mailing(shop.engine, patience=2.0) as mail:
        for answer in (never_ends, says(410, body=b"half")[:-2]):
            await ended(shop)
            receiver.answers = [answer]
            await mail.go()

    [row] = await outbox(shop.engine)
    assert (row.answered, row.error, row.dead_at is not None) == (410, "answered 410: ha", True)


async def test_a_server_that_dies_between_sending_and_noting_it_sends_it_again_with_the_same_id_e12_g4(
    shop, clock, receiver
) -> None:
    await hook(shop.engine, receiver.url)
    await ended(shop)
    async with mailing(shop.engine) as doomed:
        await doomed.turn()
        await receiver.until(1)
        # It never makes another turn, and says no good-bye.
        doomed.sender._leave = _nothing

    async with mailing(shop.engine) as mail:
        await mail.go()
        assert len(receiver.got) == 1, "the claim of the other has not ended"
        clock.advance(15)
        await mail.go()

    first, second = receiver.got
    assert (first.id, first.body) == (second.id, second.body)
    assert await outbox(shop.engine) == []


async def _nothing() -> None:
    """As if the process had been killed."""


async def test_a_server_that_is_stopped_leaves_what_it_was_at_to_others_at_once_e12(shop, clock, receiver) -> None:
    await hook(shop.engine, receiver.url)
    await ended(shop)
    release = asyncio.Event()
    receiver.answers = [lambda _writer: release.wait()]
    async with mailing(shop.engine) as stopped:
        await stopped.turn()
        await receiver.until(1)

    async with mailing(shop.engine) as mail:
        await mail.go()

    release.set()
    assert [got.id for got in receiver.got] == [receiver.got[0].id] * 2
    assert await outbox(shop.engine) == []


async def test_a_slow_receiver_keeps_no_other_waiting_e12(shop, receiver) -> None:
    async with receiving() as slow, mailing(shop.engine, patience=PATIENT) as mail:
        release = asyncio.Event()
        slow.answers = [lambda _writer: release.wait() for _ in range(50)]
        await hook(shop.engine, slow.url)
        await hook(shop.engine, receiver.url)
        for task in await shop.submit(20):
            await shop.steer(task, "cancel")

        await until(mail.turn, lambda _: len(receiver.got) >= 20 and len(slow.got) >= room.AT_ONCE_EACH)

        assert len(slow.got) == room.AT_ONCE_EACH
        release.set()


async def test_receivers_that_answer_no_more_keep_no_other_waiting_e12(shop, clock, receiver) -> None:
    """All room is theirs at first; it is known soon that they are slow, and have room of their own."""
    async with receiving() as dead, mailing(shop.engine, patience=PATIENT) as mail:
        release = asyncio.Event()
        dead.answers = [lambda _writer: release.wait() for _ in range(200)]
        for _ in range(room.AT_ONCE // room.AT_ONCE_EACH + 2):
            await hook(shop.engine, dead.url)
        for task in await shop.submit(room.AT_ONCE_EACH + 1):
            await shop.steer(task, "cancel")
        await until(mail.turn, lambda _: len(dead.got) == room.AT_ONCE)
        await hook(shop.engine, receiver.url)
        await ended(shop)

        assert await mail.turn() == room.SOON
        assert receiver.got == []
        clock.advance(room.SOON)
        await mail.turn()

        await receiver.until(1)
        await mail.turn()
        assert len(mail.sender._flying) <= room.MOST
        release.set()


async def test_more_receivers_that_hang_than_there_is_room_for_keep_none_waiting_that_answers_soon_e12(
    shop, clock, receiver
) -> None:
    """A hundred took all the room before it was known of each that it hangs: the other got 8 of 3,200 deliveries."""
    async with receiving() as dead, mailing(shop.engine, patience=PATIENT) as mail:
        release = asyncio.Event()
        dead.answers = [lambda _writer: release.wait() for _ in range(1000)]
        await hook(shop.engine, receiver.url)
        await ended(shop)
        await mail.go()
        for _ in range(room.MOST + 10):
            await hook(shop.engine, dead.url)
        for task in await shop.submit(room.AT_ONCE_EACH):
            await shop.steer(task, "cancel")

        for _ in range(2 * room.MOST // room.AT_ONCE):
            await mail.turn()
            clock.advance(room.SOON)
        await receiver.until(1 + room.AT_ONCE_EACH)

        assert len(mail.sender._flying) <= room.MOST
        release.set()


async def test_webhooks_that_were_not_tried_yet_share_what_room_there_is_e12(shop, receiver, monkeypatch) -> None:
    """What is owed to one never waits behind all that is owed to others, whose receivers may hang."""
    async with receiving() as dead, mailing(shop.engine, patience=PATIENT) as mail:
        release = asyncio.Event()
        dead.answers = [lambda _writer: release.wait() for _ in range(1000)]
        for _ in range(room.AT_ONCE // room.AT_ONCE_EACH):
            await hook(shop.engine, dead.url)
        last = (await hook(shop.engine, receiver.url))["id"]
        monkeypatch.setattr(sender_module.random, "shuffle", lambda due: due.sort(key=last.__eq__))
        for task in await shop.submit(room.AT_ONCE_EACH):
            await shop.steer(task, "cancel")

        await until(mail.turn, lambda _: len(receiver.got) == room.AT_ONCE_EACH)

        release.set()


async def test_a_receiver_that_never_answers_is_given_up_after_the_timeout_e12(shop, receiver) -> None:
    await hook(shop.engine, receiver.url)
    await ended(shop)
    release = asyncio.Event()
    receiver.answers = [lambda _writer: release.wait()]

    async with mailing(shop.engine, patience=1.0) as mail:
        await mail.go()
        [row] = await outbox(shop.engine)

    release.set()
    assert (row.error, row.answered) == ("no answer within 1 s", None)


async def test_of_an_answer_without_an_end_only_the_beginning_is_read_e12(shop, receiver) -> None:
    written = 0

    async def endless(writer) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()
            written += 0x10000

    await hook(shop.engine, receiver.url)
    await ended(shop)
    receiver.answers = [endless]
    async with mailing(shop.engine) as mail:
        await mail.go()

    [row] = await outbox(shop.engine)
    assert row.error.startswith("answered 500: xxx")
    assert len(row.error) < 300
    assert written < 50_000_000


async def test_a_try_that_meets_a_defect_counts_as_one_that_failed_and_others_go_on_e12(shop, caplog) -> None:
    class Broken:
        tried = 0

        async def send(self, url, body, headers) -> Answer:
            self.tried += 1
            if self.tried == 1:
                raise RuntimeError("a defect")
            return Answer(200, None)

        async def close(self) -> None:
            """Nothing is open."""

    await hook(shop.engine, "http://x")
    tasks = await shop.submit(2)
    for task in tasks:
        await shop.steer(task, "cancel")

    async with mailing(shop.engine, post=Broken()) as mail:
        await mail.go()

    [row] = await outbox(shop.engine)
    assert row.error == "RuntimeError: a defect"
    assert "could not be attempted" in caplog.text


async def test_a_secret_that_is_none_fails_its_own_tries_and_ends_no_server_e12(shop, receiver, caplog) -> None:
    """Written into the table by hand it ended the whole server, and each one that was started after it."""
    await hook(shop.engine, receiver.url, secret="whsec_x")
    await hook(shop.engine, receiver.url)
    [task] = await shop.submit()
    await shop.steer(task, "cancel")

    async with mailing(shop.engine) as mail:
        await mail.go()

    assert len(receiver.got) == 1
    [row] = await outbox(shop.engine)
    assert "base64" in row.error
    assert "could not be attempted" in caplog.text


async def test_an_outcome_wakes_the_sender_which_otherwise_sleeps_e12(shop, receiver) -> None:
    await hook(shop.engine, receiver.url)
    async with mailing(shop.engine) as mail:
        assert await mail.turn() == sender_module.EVERY
        sleeping = asyncio.ensure_future(mail.sender.wait(60))
        await ended(shop)
        async with asyncio.timeout(20):
            await sleeping
        await mail.go()
    assert len(receiver.got) == 1


@pytest.mark.postgres
async def test_of_two_servers_on_one_postgresql_one_sends_each_delivery_e12_g11(
    postgres_database, clock, receiver
) -> None:
    async with (
        two_shops(postgres_database, clock) as (shop, other),
        mailing(shop.engine) as first,
        mailing(other.engine) as second,
    ):
        await hook(shop.engine, receiver.url)
        for task in await shop.submit(60):
            await shop.steer(task, "cancel")

        for _ in range(60):
            await asyncio.gather(first.go(), second.go())

        assert await outbox(shop.engine) == []
    assert (len(receiver.got), len({got.id for got in receiver.got})) == (60, 60)


async def test_the_webhooks_are_not_read_in_each_turn(shop, clock, mail, receiver, monkeypatch) -> None:
    """With 10,000 of them each turn took 0.1 s, and there is one for each attempt that ends."""
    await hook(shop.engine, receiver.url)
    asked = []
    refresh = shop.engine.hooks.refresh
    monkeypatch.setattr(shop.engine.hooks, "refresh", lambda store, **how: asked.append(store) or refresh(store, **how))

    for _ in range(3):
        await mail.turn()
    often = len(asked)
    clock.advance(sender_module.EVERY)
    await mail.turn()

    assert (often, len(asked)) == (1, 2)


async def test_the_webhooks_are_read_again_when_another_server_has_changed_them(
    shop, clock, mail, receiver, monkeypatch
) -> None:
    """10,000 were read every other second, which took 5 % of a core."""
    await hook(shop.engine, receiver.url)
    table, read, asked = tables.webhooks, webhooks.hooks, list[int]()
    monkeypatch.setattr(webhooks, "hooks", lambda connection: asked.append(1) or read(connection))

    async def reads_after(seconds: float, change: Executable | None = None) -> int:
        if change is not None:
            async with shop.engine.store.write() as tx:
                await tx.connection.execute(change)
        asked.clear()
        clock.advance(seconds)
        await mail.turn()
        return len(asked)

    assert await reads_after(sender_module.EVERY) == 1
    assert await reads_after(sender_module.EVERY) == 0
    changed = update(table).values(updated_at=clock.now())
    assert await reads_after(sender_module.EVERY, changed) == 1
    assert await reads_after(sender_module.EVERY) == 0
    assert await reads_after(sender_module.EVERY, delete(table)) == 1
    assert not shop.engine.hooks
    assert await reads_after(sender_module.SURELY) == 1  # whatever the clock says
