"""Two servers on one PostgreSQL: what one commits reaches who waits at the other, at once (G11, Z15, Z16)."""

import asyncio
import time
from typing import Any

import asyncpg
import pytest

from tests.live.sockets import JOB, NAME, Socket, ref, submit
from tests.live.test_feeds import Mirror
from tests.servers.conftest import PATIENCE, Site, until
from treadle.wire.ids import WorkerId
from treadle_server.engine.hub import Batch
from treadle_server.services.relay import codec
from treadle_server.services.relay.relay import CHANNEL
from treadle_server.services.relay.sender import NoticeSender

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

NEVER = 3600.0
"""Seconds between two looks of every poll behind the notices: what comes at all was told, on a busy machine too."""

POLLS = (
    "services.relay.relay.LOOK",
    "services.poller.EVERY",
    "services.promoter.LONGEST_SLEEP",
    "services.scheduler.LONGEST_SLEEP",
    "live.results.POLL_SECONDS",
    "live.feeds.POLL",
    "operations.waits.POLL_SECONDS",
)


@pytest.fixture(autouse=True)
def without_polls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found by looking, unless the test is about that."""
    if "deaf" not in request.fixturenames:
        for name in POLLS:
            monkeypatch.setattr(f"treadle_server.{name}", NEVER)


Sites = tuple[Site, Site]


LONG = "wait=60"
"""What waits longer than its test does is answered by what it was told, not by the look with which its wait ends."""


async def told(waiting: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer of what waits, well before its own wait is over."""
    async with asyncio.timeout(PATIENCE):
        return await waiting


async def opened(site: Site, **worker: Any) -> tuple[Socket, str]:
    """Open a worker on the site's socket; return the socket and the worker's id."""
    socket = await site.socket()
    held = worker.pop("held", [])
    ok = await socket.call("open", worker={"concurrency": 1, **worker}, jobs=[JOB], held=held, prefetch=0)
    return socket, ok["worker"]["id"]


async def end(socket: Socket, claim: dict[str, Any]) -> None:
    """Report a claim as completed."""
    report = {**ref(claim), "kind": "completed", "starts": True, "result": claim["payload"]}
    assert await socket.call("reports", reports=[report], brief=True) == {"refused": []}


async def linked(site: Site, **worker: Any) -> str:
    """Register a worker over HTTP that serves the job."""
    made = await site.ask("POST", "/v1/workers", json={"concurrency": 1, **worker})
    job = {**{k: v for k, v in JOB.items() if k != "room"}, "schema": {}, "worker_id": made["id"]}
    await site.ask("PUT", "/v1/rooms/lab/jobs", json=job)
    return str(made["id"])


async def one_of_two_claimed(site: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let a worker with room for one claim a task of two; return the body of a claim that waits, and what it holds."""
    worker_id = await linked(site)
    await submit(await site.socket(), 2)
    claimed = await site.ask("POST", "/v1/tasks/claim", json={"worker_id": worker_id})
    return {"worker_id": worker_id, "wait": 20}, claimed["task"]


async def test_a_task_wakes_a_worker_at_the_other_server_and_its_result_comes_back_g11(sites: Sites) -> None:
    first, second = sites
    worker, _ = await opened(second)
    client = await first.socket()

    [task] = await submit(client, wait=True)
    [claim] = await worker.claims(1)
    await end(worker, claim)
    result = (await client.pushed("result"))["tasks"]

    assert (claim["id"], [one["id"] for one in result], result[0]["status"]) == (task["id"], [task["id"]], "completed")
    assert result[0]["result"] == {"n": 0}


async def test_a_job_that_is_linked_at_another_server_is_served_by_the_workers_session_g11(sites: Sites) -> None:
    first, second = sites
    worker, worker_id = await opened(second)
    link = {"category": "tasks", "name": "other", "schema": {}, "retain": True, "worker_id": worker_id}

    await first.ask("PUT", "/v1/rooms/lab/jobs", json=link)
    await first.ask("POST", "/v1/rooms/lab/tasks/lab:tasks:other", json={"payload": {"n": 7}})

    [claim] = await worker.claims(1)
    assert (claim["job_name"], claim["payload"]) == ("lab:tasks:other", {"n": 7})


async def test_a_worker_at_the_other_server_is_told_to_drain(sites: Sites) -> None:
    first, second = sites
    worker, worker_id = await opened(second)

    asked = await first.ask("POST", f"/v1/workers/{worker_id}/drain")
    await worker.pushed("drain")

    assert asked["state"] == "draining"
    await first.ask("POST", f"/v1/rooms/lab/tasks/{NAME}", json={"payload": {"n": 1}})
    assert not worker.pushes


async def test_a_long_poll_ends_when_another_server_takes_the_report_g11_z15(sites: Sites) -> None:
    first, second = sites
    worker, _ = await opened(second)
    [task] = await submit(await first.socket())
    path, wait = f"/v1/tasks/{task['id']}", {"Prefer": LONG}
    poll = asyncio.create_task(first.ask("GET", path, headers=wait))
    await until(lambda: first.served.app.state.ctx.waits._events)
    [claim] = await worker.claims(1)

    await end(worker, claim)

    assert (await told(poll))["status"] == "completed"


@pytest.mark.parametrize(("verb", "push"), [("cancel", "cancel"), ("pause", "pause")])
async def test_a_worker_is_told_at_once_what_is_asked_at_another_server_g11_l4(
    sites: Sites, verb: str, push: str
) -> None:
    first, second = sites
    worker, _ = await opened(second)
    [task] = await submit(await first.socket())
    [claim] = await worker.claims(1)
    await worker.call("reports", reports=[{**ref(claim), "kind": "started"}])

    await first.ask("POST", f"/v1/tasks/{task['id']}/{verb}")
    told = await worker.pushed(push)

    assert told["runs"] == [ref(claim)]


async def test_a_run_that_another_server_ended_gives_its_room_back_at_once_g11_e5(sites: Sites) -> None:
    """The hold of what was cancelled ends at the other server: the slot here has room again without a heartbeat."""
    first, second = sites
    worker, _ = await opened(second)
    client = await first.socket()
    [task] = await submit(client, lease_seconds=3.0)
    [claim] = await worker.claims(1)
    await worker.call("reports", reports=[{**ref(claim), "kind": "started"}])
    await submit(client)

    await first.ask("POST", f"/v1/tasks/{task['id']}/cancel")
    await worker.pushed("cancel")
    [following] = await worker.claims(1)

    assert following["id"] != task["id"]


async def test_a_lost_run_is_told_to_a_worker_at_a_server_that_does_not_lead_g11_g8(sites: Sites) -> None:
    leading = [site for site in sites if site.served.app.state.ctx.services.health["sweeper"].is_standby is False]
    [other] = [site for site in sites if site not in leading]
    worker, _ = await opened(other)
    [task] = await submit(await other.socket(), lease_seconds=0.5, max_requeues=0)
    [claim] = await worker.claims(1)

    told = await worker.pushed("gone")

    assert len(leading) == 1
    assert told["runs"] == [ref(claim)]
    assert (await other.ask("GET", f"/v1/tasks/{task['id']}"))["status"] == "failed"


async def test_a_worker_that_opens_itself_elsewhere_is_given_nothing_more_here_g11_g2(sites: Sites) -> None:
    first, second = sites
    before, worker_id = await opened(second, concurrency=5)
    client = await first.socket()
    await submit(client)
    [held] = await before.claims(1)

    after, same_id = await opened(first, id=worker_id, concurrency=5, held=[ref(held)])

    assert same_id == worker_id
    assert await before.closed() == 1001
    await submit(client, 3)
    assert len(await after.claims(3)) == 3
    # What it had not started is not returned by the server that it left.
    await end(after, held)


async def test_two_claims_at_two_servers_never_exceed_the_workers_concurrency_g11_e5(sites: Sites) -> None:
    first = sites[0]
    socket = await first.socket()
    for _ in range(8):
        worker_id = await linked(first, concurrency=3)
        await submit(socket, 6)
        body = {"worker_id": worker_id, "tasks": 3}

        claims = await asyncio.gather(*(site.ask("POST", "/v1/tasks/claim", json=body) for site in sites * 2))

        assert sum(len(claim["tasks"]) for claim in claims) == 3


async def test_a_claim_that_waits_is_answered_when_another_server_makes_room_g11_e5(sites: Sites) -> None:
    first, second = sites
    body, held = await one_of_two_claimed(first)
    waiting = asyncio.create_task(second.ask("POST", "/v1/tasks/claim", json=body))
    await until(lambda: second.engine.dispatcher._waiting)

    await first.ask("POST", f"/v1/tasks/{held['id']}/runs/0/exception", json={"reason": "returned"})

    assert (await told(waiting))["task"] is not None


async def test_a_claim_is_answered_by_what_another_server_tells_while_it_is_looked_for_g11_e5(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room was read before it was made, the notice came before the try ended: it is tried again."""
    first, second = sites
    body, held = await one_of_two_claimed(first)
    read, is_told = asyncio.Event(), asyncio.Event()
    weigh = second.engine.dispatcher._weigh

    async def weigh_slowly(*given: Any) -> None:
        await weigh(*given)
        read.set()
        await is_told.wait()

    monkeypatch.setattr(second.engine.dispatcher, "_weigh", weigh_slowly)
    waiting = asyncio.create_task(second.ask("POST", "/v1/tasks/claim", json=body))
    await read.wait()
    wake, woken = second.engine.wake, asyncio.Event()
    monkeypatch.setattr(second.engine, "wake", lambda lanes: (wake(lanes), woken.set()))
    await first.ask("POST", f"/v1/tasks/{held['id']}/runs/0/exception", json={"reason": "returned"})
    await woken.wait()
    is_told.set()

    assert (await told(waiting))["task"] is not None


async def test_a_claim_that_waits_is_answered_when_a_hold_ends_at_another_server_g11_l6(sites: Sites) -> None:
    """What was cancelled keeps its worker's room until its code has stopped, whichever server is told so."""
    first, second = sites
    body, held = await one_of_two_claimed(first)
    await first.ask("POST", f"/v1/tasks/{held['id']}/cancel")
    waiting = asyncio.create_task(second.ask("POST", "/v1/tasks/claim", json=body))
    await until(lambda: second.engine.dispatcher._waiting)

    await first.ask("POST", f"/v1/tasks/{held['id']}/runs/0/stopped")

    async with asyncio.timeout(PATIENCE):  # at its end it would look for itself
        assert (await waiting)["task"]["id"] != held["id"]


async def test_whose_hold_has_ended_is_told_to_other_servers_by_that_alone_g11_l6(sites: Sites) -> None:
    """Whatever else of the worker is told at about this time, say that it was heard of."""
    first, _ = sites
    worker_id = await linked(first)
    sender = NoticeSender(first.engine)
    sender.note_peers(are_there=True)

    assert sender.add(Batch(first.engine.clock.now(), freed={WorkerId(worker_id)}))

    [text] = sender.take()
    assert codec.read(text).workers == {worker_id}


async def test_who_owes_a_beat_here_takes_tasks_when_it_beats_at_another_server_g11(sites: Sites) -> None:
    """Its heartbeats may lead to another server than its socket does."""
    first, second = sites
    worker, worker_id = await opened(first)
    [slot] = first.engine.dispatcher.slots
    slot.presence.at -= 20  # so long ago it was heard of
    [task] = await submit(await first.socket())
    assert not first.engine.dispatcher.has_taker

    await second.ask("PATCH", f"/v1/workers/{worker_id}")

    [claim] = await worker.claims(1)
    assert claim["id"] == task["id"]


async def test_a_task_that_is_scheduled_at_one_server_starts_in_time_whoever_promotes_it_g11_e1(sites: Sites) -> None:
    for site in sites:
        worker, _ = await opened(site)
        began = time.monotonic()
        await submit(await site.socket(), delay=0.3)
        [claim] = await worker.claims(1)
        await end(worker, claim)

        assert time.monotonic() - began >= 0.3
        await worker.connection.close()


async def test_each_transition_is_told_once_by_every_server_g11_z16(sites: Sites) -> None:
    """With its status and version as they were then; whichever server committed it."""
    first, second = sites
    observers = [await site.socket() for site in sites]
    for observer in observers:
        await observer.call("every", on=True)
    await until(lambda: all(site.engine.hub.each and site.relay.sender.peers_want_each for site in sites))
    worker, _ = await opened(second, concurrency=4)

    tasks = await submit(await first.socket(), 12)
    for claim in await worker.claims(4):
        await end(worker, claim)
    for _ in range(8):
        for claim in await worker.claims(1):
            await end(worker, claim)

    ways = [(None, "pending", 1), ("pending", "claimed", 2), ("claimed", "running", 3), ("running", "completed", 4)]
    for observer in observers:
        seen: dict[str, list[tuple[str | None, str, int]]] = {task["id"]: [] for task in tasks}
        numbers: list[int] = []
        while sum(map(len, seen.values())) < 12 * len(ways):
            for event in (await observer.pushed("events"))["events"]:
                if event["type"] == "task.updated":
                    task = event["task"]
                    numbers.append(event["seq"])
                    seen[task["id"]].append((event["was"], task["status"], task["version"]))
        assert {name: sorted(steps, key=lambda step: step[2]) for name, steps in seen.items()} == {
            task["id"]: ways for task in tasks
        }
        assert numbers == sorted(set(numbers))
        # Until each server knew that both want every transition there may have been a gap.
        assert [push for push in observer.pushes if push["push"] == "reload" and push["seq"] > numbers[0]] == []


async def test_an_observer_that_comes_from_another_server_is_told_to_reload_g11_g7(sites: Sites) -> None:
    second = sites[1]
    streams = [await (await site.socket()).call("every", on=True) for site in sites]
    moved = await second.socket()

    await moved.call("every", on=True, since=streams[0])

    reload = await moved.pushed("reload")
    assert reload["stream"] == streams[1]["stream"] != streams[0]["stream"]


async def test_what_is_watched_changes_whichever_server_changed_it_g11(sites: Sites) -> None:
    first, second = sites
    observer = await first.socket()
    await opened(second)
    client = await second.socket()
    await observer.call("watch", sub="c", topic="counts")
    await observer.pushed("snapshot", sub="c")

    [task] = await submit(client)

    while True:
        rows = (await observer.pushed("delta", sub="c"))["rows"]
        if [row for row in rows if row["job"] == NAME and sum(row["counts"].values()) == 1]:
            break

    async def recent() -> Any:
        return (await first.ask("GET", "/v1/events", params={"task": task["id"]}))["items"]

    # The counts may have been read anew for what was told before, when the commit was there and not its notice.
    assert (await until(recent))[0]["task"]["id"] == task["id"]


async def test_a_job_that_is_changed_at_one_server_is_known_at_the_other_at_once_g11_z5(sites: Sites) -> None:
    first, second = sites
    await opened(second)
    await submit(await first.socket())
    wide = {**{k: v for k, v in JOB.items() if k != "room"}, "schema": {"required": ["size"]}, "replace": True}

    await second.ask("PUT", "/v1/rooms/lab/jobs", json=wide)
    await until(lambda: first.served.app.state.ctx.catalog._jobs.get(NAME).schema_version == 2)

    refused = await first.http.post(f"/v1/rooms/lab/tasks/{NAME}", json={"payload": {}})
    assert refused.status_code == 422


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """No notice arrives anywhere."""
    monkeypatch.setattr("treadle_server.services.relay.relay.Relay._on_notify", lambda *_: None)


async def test_without_any_notice_everything_goes_on_by_looking_g11(deaf: None, sites: Sites) -> None:
    """Wake-ups, results, cancels and events come later, but they come; observers are told to reload."""
    first, second = sites
    worker, _ = await opened(second)
    client, observer = await first.socket(), await first.socket()
    await observer.call("every", on=True)
    [task, other] = await submit(client, 2, wait=True)
    [claim] = await worker.claims(1)
    await worker.call("reports", reports=[{**ref(claim), "kind": "started"}])

    await first.ask("POST", f"/v1/tasks/{claim['id']}/cancel")
    assert (await worker.pushed("cancel"))["runs"] == [ref(claim)]
    await worker.call("reports", reports=[{**ref(claim), "kind": "stopped"}])
    [claim] = await worker.claims(1)
    await end(worker, claim)

    results: dict[str, str] = {}
    while len(results) < 2:
        results |= {one["id"]: one["status"] for one in (await client.pushed("result"))["tasks"]}
    assert results == {task["id"]: "cancelled", other["id"]: "completed"}
    await observer.pushed("reload")


async def test_a_server_that_hears_a_gap_in_the_numbers_reads_everything_anew_g11_g7(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sites
    observer = await first.socket()
    await observer.call("every", on=True)
    await until(lambda: second.engine.hub.each)
    await opened(second)
    read, dropped = codec.read, []

    def once(text: str) -> codec.Notice:
        found = read(text)
        if found.server == second.engine.hub.stream and not dropped:
            dropped.append(found)
            return codec.Notice(first.engine.hub.stream, 0)
        return found

    monkeypatch.setattr(codec, "read", once)
    client = await second.socket()

    async def has_lost_one() -> bool:
        await submit(client)
        return bool(dropped)

    await until(has_lost_one)
    observer.pushes.clear()
    await submit(client)

    reload = await observer.pushed("reload")

    assert reload["stream"] == first.engine.hub.stream


async def test_what_was_committed_while_nobody_listened_is_read_anew_as_soon_as_somebody_does_g11_z15(
    sites: Sites, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection on which the others are heard broke; what was read anew then is older than the new connection."""
    first, second = sites
    worker, _ = await opened(second)
    [task] = await submit(await first.socket())
    [claim] = await worker.claims(1)
    dedicated, is_back = first.relay._connection, asyncio.Event()
    reopen = dedicated.open

    async def later() -> Any:
        await is_back.wait()
        return await reopen()

    monkeypatch.setattr(dedicated, "open", later)
    poll = asyncio.create_task(first.ask("GET", f"/v1/tasks/{task['id']}", headers={"Prefer": LONG}))
    await until(lambda: first.served.app.state.ctx.waits._events)
    assert dedicated._connection is not None
    dedicated._connection.terminate()
    await until(lambda: dedicated._connection is None and not first.relay.inbox._has_gap)
    await first.ask("GET", f"/v1/tasks/{task['id']}")
    bystander, passed = await asyncpg.connect(postgres_database), asyncio.Event()
    await bystander.add_listener(CHANNEL, lambda *_: passed.set())
    await end(worker, claim)
    async with asyncio.timeout(PATIENCE):
        await passed.wait()
    await bystander.close()

    is_back.set()

    assert (await told(poll))["status"] == "completed"


async def test_after_a_gap_everybody_has_what_was_lost_in_it_g11_g7(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end that is waited for, a pause, the end of a hold, tasks to be claimed, and one that is due."""
    first, second = sites
    client = await first.socket()
    holding, _ = await opened(first)
    [held] = await submit(client)
    await holding.call("reports", reports=[{**ref((await holding.claims(1))[0]), "kind": "started"}])
    await first.ask("POST", f"/v1/tasks/{held['id']}/cancel")
    pausing, _ = await opened(first)
    [paused] = await submit(client)
    await pausing.call("reports", reports=[{**ref((await pausing.claims(1))[0]), "kind": "started"}])
    far, near = await linked(second), await linked(first)
    [ended] = await submit(client, wait=True)
    path = f"/v1/tasks/{ended['id']}"
    await second.ask("POST", "/v1/tasks/claim", json={"worker_id": far, "wait": 20})
    await second.ask("POST", f"{path}/runs/0/started", json={})
    poll = asyncio.create_task(first.ask("GET", path, headers={"Prefer": LONG}))
    claim = asyncio.create_task(first.ask("POST", "/v1/tasks/claim", json={"worker_id": near, "wait": 20}))
    await until(lambda: first.served.app.state.ctx.waits._events and first.engine.dispatcher._waiting)

    with monkeypatch.context() as patch:
        patch.setattr(first.relay.inbox, "add", lambda _: None)
        said = second.relay.sender.sent
        await second.ask("POST", f"{path}/runs/0/completed", json={})
        await second.ask("POST", f"/v1/tasks/{paused['id']}/pause")
        await second.ask("POST", f"/v1/tasks/{held['id']}/runs/0/stopped", json={})
        waiting = await submit(await second.socket(), 2)
        await until(lambda: second.relay.sender.sent > said and not second.relay.sender.has_news)
    # Who polls may be told all the same: a notice of the start, which came before, may be read only now.
    assert not claim.done()
    first.relay.inbox.lose()

    assert (await told(poll))["status"] == "completed"
    assert [one["id"] for one in (await client.pushed("result"))["tasks"]] == [ended["id"]]
    assert (await pausing.pushed("pause"))["runs"] == [{"task_id": paused["id"], "run_id": 0}]
    claimed = {(await told(claim))["task"]["id"], (await holding.claims(1))[0]["id"]}
    assert claimed == {task["id"] for task in waiting}


async def test_a_schedule_that_is_set_at_another_server_is_known_and_ticks_at_once_g11_e10(sites: Sites) -> None:
    """Whichever of them leads."""
    for site, other in (sites, sites[::-1]):
        worker, _ = await opened(site)
        observer = await site.socket()
        await observer.call("every", on=True)
        body = {"job": NAME, "interval": 1}

        await other.ask("PUT", "/v1/rooms/lab/schedules/often", json=body)

        while True:
            kinds = [event["type"] for event in (await observer.pushed("events"))["events"]]
            if "schedule.updated" in kinds:
                break
        await worker.claims(1)
        await other.ask("DELETE", "/v1/rooms/lab/schedules/often")
        await worker.connection.close()


async def test_at_most_fifty_notices_a_second_are_sent_however_much_happens_g11(sites: Sites) -> None:
    first, second = sites
    await opened(second, concurrency=50)
    client = await first.socket()
    said, began = first.relay.sender.sent, time.monotonic()

    for _ in range(100):
        await submit(client)
    passed = time.monotonic() - began

    assert 1 <= first.relay.sender.sent - said <= 50 * passed + 2


async def test_a_broken_socket_is_told_at_every_server_at_once_and_that_the_worker_is_back(sites: Sites):
    first, second = sites
    mirror = await Mirror(await second.socket(), "w").watch("workers")
    worker = await first.socket()
    opened = await worker.call("open", worker={"name": "w", "concurrency": 1})
    key = opened["worker"]["id"]
    await mirror.until(lambda seen: key in seen.rows)

    await worker.connection.close()

    await mirror.until(lambda seen: seen.rows[key]["away_since"])
    assert mirror.rows[key]["state"] == "online"
    [shown] = (await second.ask("GET", "/v1/workers"))["items"]
    assert shown["away_since"] is not None
    again = await first.socket()
    await again.call("open", worker={"id": key, "name": "w", "concurrency": 1}, links=[])
    await mirror.until(lambda seen: seen.rows[key]["away_since"] is None)
