"""Two servers on one PostgreSQL: what one commits reaches who waits at the other, at once (G11, Z15, Z16)."""

import asyncio
import time
from typing import Any

import pytest

from tests.live.sockets import JOB, NAME, Socket, ref, submit
from tests.servers.conftest import Site, until
from treadle_server.services import notices

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

AT_ONCE = 9
"""Seconds that a busy machine may take: less than every poll behind the notices, which here look once in 30."""

POLLS = (
    "services.relay.LOOK",
    "services.poller.EVERY",
    "services.promoter.LONGEST_SLEEP",
    "live.results.POLL_SECONDS",
    "live.feeds.POLL",
    "api.waits.POLL_SECONDS",
)


@pytest.fixture(autouse=True)
def without_polls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found by looking, unless the test is about that."""
    if "deaf" not in request.fixturenames:
        for name in POLLS:
            monkeypatch.setattr(f"treadle_server.{name}", 30.0)


Sites = tuple[Site, Site]


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


async def test_a_task_wakes_a_worker_at_the_other_server_and_its_result_comes_back_g11(sites: Sites) -> None:
    first, second = sites
    worker, _ = await opened(second)
    client = await first.socket()
    began = time.monotonic()

    [task] = await submit(client, wait=True)
    [claim] = await worker.claims(1)
    await end(worker, claim)
    result = (await client.pushed("result"))["tasks"]

    assert (claim["id"], [one["id"] for one in result], result[0]["status"]) == (task["id"], [task["id"]], "completed")
    assert result[0]["result"] == {"n": 0}
    assert time.monotonic() - began < AT_ONCE


async def test_a_long_poll_ends_when_another_server_takes_the_report_g11_z15(sites: Sites) -> None:
    first, second = sites
    worker, _ = await opened(second)
    [task] = await submit(await first.socket())
    path, wait = f"/v1/tasks/{task['id']}", {"Prefer": "wait=20"}
    poll = asyncio.create_task(first.ask("GET", path, headers=wait))
    await until(lambda: first.served.app.state.api.waits._events)
    [claim] = await worker.claims(1)
    began = time.monotonic()

    await end(worker, claim)

    assert (await poll)["status"] == "completed"
    assert time.monotonic() - began < AT_ONCE


@pytest.mark.parametrize(("verb", "push"), [("cancel", "cancel"), ("pause", "pause")])
async def test_a_worker_is_told_at_once_what_is_asked_at_another_server_g11_l4(
    sites: Sites, verb: str, push: str
) -> None:
    first, second = sites
    worker, _ = await opened(second)
    [task] = await submit(await first.socket())
    [claim] = await worker.claims(1)
    await worker.call("reports", reports=[{**ref(claim), "kind": "started"}])
    began = time.monotonic()

    await first.ask("POST", f"/v1/tasks/{task['id']}/{verb}")
    told = await worker.pushed(push)

    assert told["runs"] == [ref(claim)]
    assert time.monotonic() - began < AT_ONCE


async def test_a_run_that_another_server_ended_gives_its_room_back_at_once_g11_e5(sites: Sites) -> None:
    """The hold of what was cancelled ends at the other server: the seat here has room again without a heartbeat."""
    first, second = sites
    worker, _ = await opened(second)
    client = await first.socket()
    [task] = await submit(client, lease_seconds=1.5)
    [claim] = await worker.claims(1)
    await worker.call("reports", reports=[{**ref(claim), "kind": "started"}])
    await submit(client)

    await first.ask("POST", f"/v1/tasks/{task['id']}/cancel")
    began = time.monotonic()
    await worker.pushed("cancel")
    [following] = await worker.claims(1)

    assert following["id"] != task["id"]
    # The hold lasts as long as its lease; the sweeper of whoever leads ends it.
    assert time.monotonic() - began < 1.5 + 0.2 + AT_ONCE


async def test_a_lost_run_is_told_to_a_worker_at_a_server_that_does_not_lead_g11_g8(sites: Sites) -> None:
    leading = [site for site in sites if site.served.app.state.api.services.health["sweeper"].is_standby is False]
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
    await first.ask("PUT", "/v1/rooms/lab/jobs", json={**{k: v for k, v in JOB.items() if k != "room"}, "schema": {}})
    socket = await first.socket()
    for _ in range(8):
        worker = await first.ask("POST", "/v1/workers", json={"concurrency": 3})
        linked = {**{k: v for k, v in JOB.items() if k != "room"}, "schema": {}, "worker_id": worker["id"]}
        await first.ask("PUT", "/v1/rooms/lab/jobs", json=linked)
        await submit(socket, 6)
        body = {"worker_id": worker["id"], "tasks": 3}

        claims = await asyncio.gather(*(site.ask("POST", "/v1/tasks/claim", json=body) for site in sites * 2))

        assert sum(len(claim["tasks"]) for claim in claims) == 3


async def test_a_claim_that_waits_is_answered_when_another_server_makes_room_g11_e5(sites: Sites) -> None:
    first, second = sites
    worker = await first.ask("POST", "/v1/workers", json={"concurrency": 1})
    job = {**{k: v for k, v in JOB.items() if k != "room"}, "schema": {}, "worker_id": worker["id"]}
    await first.ask("PUT", "/v1/rooms/lab/jobs", json=job)
    await submit(await first.socket(), 2)
    body = {"worker_id": worker["id"], "wait": 15}
    held = (await first.ask("POST", "/v1/tasks/claim", json=body))["task"]
    waiting = asyncio.create_task(second.ask("POST", "/v1/tasks/claim", json=body))
    await until(lambda: second.engine.desk._waiting)
    began = time.monotonic()

    await first.ask("POST", f"/v1/tasks/{held['id']}/runs/0/exception", json={"reason": "returned"})

    assert (await waiting)["task"] is not None
    assert time.monotonic() - began < AT_ONCE


async def test_a_task_that_is_scheduled_at_one_server_starts_in_time_whoever_promotes_it_g11_e1(sites: Sites) -> None:
    for site in sites:
        worker, _ = await opened(site)
        began = time.monotonic()
        await submit(await site.socket(), delay=0.3)
        [claim] = await worker.claims(1)
        await end(worker, claim)

        assert 0.3 <= time.monotonic() - began < 0.3 + AT_ONCE
        await worker.connection.close()


async def test_each_transition_is_told_once_by_every_server_g11_z16(sites: Sites) -> None:
    """With its status and version as they were then; whichever server committed it."""
    first, second = sites
    observers = [await site.socket() for site in sites]
    for observer in observers:
        await observer.call("every", on=True)
    await until(lambda: all(site.engine.hub.each and site.relay.teller.peers_want_each for site in sites))
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
    began = time.monotonic()

    [task] = await submit(client)

    while True:
        rows = (await observer.pushed("delta", sub="c"))["rows"]
        if [row for row in rows if row["job"] == NAME and sum(row["counts"].values()) == 1]:
            break
    assert time.monotonic() - began < AT_ONCE
    recent = await first.ask("GET", "/v1/events", params={"task": task["id"]})
    assert recent["items"][0]["task"]["id"] == task["id"]


async def test_a_job_that_is_changed_at_one_server_is_known_at_the_other_at_once_g11_z5(sites: Sites) -> None:
    first, second = sites
    await opened(second)
    await submit(await first.socket())
    wide = {**{k: v for k, v in JOB.items() if k != "room"}, "schema": {"required": ["size"]}, "replace": True}

    await second.ask("PUT", "/v1/rooms/lab/jobs", json=wide)
    await until(lambda: first.served.app.state.api.catalog._jobs[NAME].schema_version == 2)

    refused = await first.http.post(f"/v1/rooms/lab/tasks/{NAME}", json={"payload": {}})
    assert refused.status_code == 422


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """No notice arrives anywhere."""
    monkeypatch.setattr("treadle_server.services.relay.Relay._hear", lambda *_: None)


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
    read, dropped = notices.read, []

    def once(text: str) -> notices.Notice:
        found = read(text)
        if found.server == second.engine.hub.stream and not dropped:
            dropped.append(found)
            return notices.Notice(first.engine.hub.stream, 0)
        return found

    monkeypatch.setattr(notices, "read", once)
    client = await second.socket()
    while not dropped:
        await submit(client)
        await asyncio.sleep(0.05)
    observer.pushes.clear()
    await submit(client)

    reload = await observer.pushed("reload")

    assert reload["stream"] == first.engine.hub.stream


async def test_at_most_fifty_notices_a_second_are_sent_however_much_happens_g11(sites: Sites) -> None:
    first, second = sites
    await opened(second, concurrency=50)
    client = await first.socket()
    said, began = first.relay.teller.said, time.monotonic()

    for _ in range(100):
        await submit(client)
    passed = time.monotonic() - began

    assert 1 <= first.relay.teller.said - said <= 50 * passed + 2
