"""`/metrics`: what Prometheus reads is what the database has, and who may read it."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from tests.api.rooms import Room, Scoped, make_room, problem
from tests.chaos.processes import free_port
from tests.live.sockets import connected
from treadle_server.errors import StoreUnavailable
from treadle_server.services import metrics
from treadle_server.services.metrics import METRICS, OTHERS
from treadle_server.services.probe import Probe
from treadle_server.store.tables import tasks
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Samples:
    """Every sample of a page by its name and labels; fails unless a Prometheus parser takes the page."""
    families = list(text_string_to_metric_families(text))
    assert [family for family in families if family.type == "unknown" or not family.documentation] == []
    found: Samples = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


async def scraped(client: httpx.AsyncClient) -> Samples:
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(answer.text)


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def positive(samples: Samples, name: str, label: str, job: str) -> dict[str, float]:
    """The samples of a job that are not 0, by the other label."""
    found = {dict(labels)[label]: n for (one, labels), n in samples.items() if one == name and ("job", job) in labels}
    return {of: n for of, n in found.items() if n}


async def finish(room: Room, kind: str, **said: Any) -> dict[str, Any]:
    started = await room.start()
    answer = await room.client.post(f"/v1/tasks/{started['id']}/runs/{started['run_id']}/{kind}", json=said)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def test_a_database_that_stands_still_is_told_in_the_time_that_prometheus_waits(
    served: Served, lab: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each scrape's request stayed, and waited for the one before."""

    @contextlib.asynccontextmanager
    async def silent() -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(metrics, "PATIENCE", 0.01)
    monkeypatch.setattr(served.engine.store, "read", silent)

    answers = await asyncio.gather(*(lab.client.get("/metrics") for _ in range(2)))

    assert [problem(answer) for answer in answers] == ["store-unavailable"] * 2
    assert "has not answered" in answers[0].json()["detail"]


async def test_every_metric_is_there_and_is_what_happened(served: Served, lab: Room) -> None:
    await lab.client.put("/v1/rooms/lab/limits/api", json={"concurrency": 1})
    for n in range(5):
        await lab.submit(n, limits=[{"name": "api", "key": "acme"}])
    await finish(lab, "completed", result=1)
    await finish(lab, "completed", result=1)
    await finish(lab, "failed", error="no")
    await lab.start()
    async with connected(served) as socket:
        await socket.call("watch", sub="x", topic="jobs")
        samples = await scraped(lab.client)

    assert {name for name, _ in samples} == {
        name + ending
        for name, metric in METRICS.items()
        for ending in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
    }
    assert positive(samples, "treadle_tasks", "status", lab.job) == {
        "completed": 2, "failed": 1, "running": 1, "pending": 1,
    }  # fmt: skip
    assert positive(samples, "treadle_tasks_total", "outcome", lab.job) == {"completed": 2, "failed": 1}
    of_limit = {name: n for (name, labels), n in samples.items() if ("limit", "api") in labels}
    assert of_limit == {"treadle_limit_used": 1, "treadle_limit_waiting": 1, "treadle_limit_keys": 1}
    assert value(samples, "treadle_task_wait_seconds_count", job=lab.job) == 4
    assert value(samples, "treadle_task_run_seconds_count", job=lab.job) == 3
    assert value(samples, "treadle_task_run_seconds_bucket", job=lab.job, le="+Inf") == 3
    assert value(samples, "treadle_workers", state="online") == 1
    assert value(samples, "treadle_workers", state="lost") == 0
    assert value(samples, "treadle_sessions", kind="observer") == 1
    assert value(samples, "treadle_sessions", kind="worker") == 0
    assert value(samples, "treadle_commit_seconds_count") == value(samples, "treadle_batch_transitions_count") > 10
    assert value(samples, "treadle_batch_transitions_sum") >= 15
    # Before it has looked whether others are there it tells them that it is.
    assert value(samples, "treadle_notices_total", direction="sent") in {0, 1}


async def test_a_service_is_up_until_it_fails_and_again_once_it_goes_well(served: Served, lab: Room) -> None:
    """Of a disk that is full nothing told: everything that only reads goes on."""
    engine = served.engine
    before = up(await scraped(lab.client))
    engine.trouble = StoreUnavailable("the database's disk is full")
    during = up(await scraped(lab.client))
    await Probe(engine).turn()
    after = up(await scraped(lab.client))

    assert {"store", "sweeper", "promoter"} <= {service for service, is_up in before.items() if is_up}
    assert (during["store"], during["promoter"]) == (0, 1)
    assert after["store"] == 1


def up(samples: Samples) -> dict[str, float]:
    return {dict(labels)["service"]: n for (name, labels), n in samples.items() if name == "treadle_service_up"}


async def test_what_ended_stays_counted_when_it_is_rerun_resolved_or_removed(served: Served, lab: Room) -> None:
    for n in range(4):
        await lab.submit(n)
    done = await finish(lab, "completed", result=1)
    failed = await finish(lab, "failed", error="no")
    await finish(lab, "completed", result=2)
    cancelled = (await lab.claim())["task"]
    await lab.client.post(f"/v1/tasks/{cancelled['id']}/cancel")
    await lab.client.post(f"/v1/tasks/{done['id']}/rerun")
    await lab.client.post(f"/v1/tasks/{failed['id']}/resolve", json={"status": "completed", "result": 3})

    samples = await scraped(lab.client)
    assert positive(samples, "treadle_tasks_total", "outcome", lab.job) == {"completed": 3, "failed": 1, "cancelled": 1}
    standing = {"pending": 1, "completed": 2, "cancelled": 1}
    assert positive(samples, "treadle_tasks", "status", lab.job) == standing

    gone = await lab.client.post("/v1/prune", json={"older_than": 0})
    assert gone.status_code == 200, gone.text
    left = await scraped(lab.client)

    assert positive(left, "treadle_tasks_total", "outcome", lab.job) == {"completed": 3, "failed": 1, "cancelled": 1}
    async with served.engine.store.read() as connection:
        rows = await connection.execute(sa.select(tasks.c.status, sa.func.count().label("n")).group_by(tasks.c.status))
        counted = Counter({row.status: row.n for row in rows})
    assert positive(left, "treadle_tasks", "status", lab.job) == counted
    assert counted.total() < 4


async def test_only_who_holds_the_scope_reads_them(
    lab: Room, alice: httpx.AsyncClient, root: httpx.AsyncClient, scoped: Scoped
) -> None:
    holder = await scoped("queue:metrics", name="prometheus")
    reader = await scoped("queue:read:*", name="reader")

    assert (await holder.get("/metrics")).status_code == 200
    assert (await root.get("/metrics")).status_code == 200
    for refused in (await alice.get("/metrics"), await reader.get("/metrics")):
        assert problem(refused) == "forbidden"
        assert "queue:metrics" in refused.json()["detail"]
    assert problem(await holder.get("/v1/stats/none")) == "not-found"
    assert (await holder.get("/v1/tasks")).json()["items"] == []


@pytest.mark.one_database
async def test_the_jobs_that_were_registered_first_keep_their_names_and_the_others_are_one() -> None:
    async with serve(metrics_max_jobs=2, auth="none") as served, httpx.AsyncClient(base_url=served.url) as client:
        rooms = [await make_room(client, name=name) for name in ("zeta", "alpha", "beta", "gamma")]
        before = await scraped(client)
        for room in rooms:
            await room.submit()
            await finish(room, "completed", result=1)
        samples = await scraped(client)

    for page in (before, samples):
        named = {dict(labels)["job"] for name, labels in page if name == "treadle_tasks"}
        assert named == {"lab:tasks:zeta", "lab:tasks:alpha", OTHERS}
    assert value(before, "treadle_tasks_total", job=OTHERS, outcome="completed") == 0
    for name in ("treadle_task_wait_seconds_count", "treadle_task_run_seconds_count"):
        assert value(samples, name, job=OTHERS) == 2
    assert value(samples, "treadle_tasks_total", job=OTHERS, outcome="completed") == 2


@pytest.mark.one_database
async def test_a_port_of_its_own_answers_metrics_and_nothing_else_to_everybody(
    tmp_path: Path,
) -> None:
    port = free_port()
    async with serve(data_dir=tmp_path, metrics_port=port) as served:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert "treadle_sessions" in {name for name, _ in await scraped(client)}
            assert (await client.get("/v1/stats")).status_code == 404
            assert (await client.post("/metrics")).status_code == 405
            # A page whose name was rebound to this machine would read the names of all jobs.
            for name, status in (("evil.example", 403), (f"evil.example:{port}", 403), ("[", 403), ("localhost", 200)):
                assert (await client.get("/metrics", headers={"Host": name})).status_code == status, name
        async with httpx.AsyncClient(base_url=served.url) as client:
            assert (await client.get("/metrics")).status_code == 401


@pytest.mark.one_database
async def test_who_connects_to_the_port_of_metrics_may_send_little_and_keeps_nobody_out_n3(tmp_path: Path) -> None:
    """Whoever reached it could send a header without an end, which the server kept."""
    port = free_port()
    async with (
        serve(data_dir=tmp_path, metrics_port=port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nX-A: " + b"a" * 200_000)
        # What was not read when the server closes may reset the connection before its answer is.
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(30):
                assert b"431 Request Header Fields Too Large" in await reader.read()
        writer.close()
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(25)]

        assert (await client.get("/metrics")).status_code == 200
        for _, writer in idle:
            writer.close()
