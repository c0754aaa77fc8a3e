"""Jobs: registered, linked, deleted when nobody needs them, and revived (Z5, Z6)."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from tests.promises.over_socket import SocketUser, asked
from tests.promises.problems import Problem, refused, told
from tests.promises.rig import Rig, over_http, over_socket
from tests.promises.words import JOB, User
from treadle_server.engine.commands import DeleteOrphans, MissDeadlines
from treadle_server.store.read.jobs import possible_orphans
from treadle_server.testing import serve

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SAME = {"required": ["n"], "properties": {"n": {"type": "integer"}}, "type": "object"}
OTHER = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}


async def put(user: User, schema: dict[str, Any], name: str = "add", **details: Any) -> httpx.Response:
    """Register over HTTP, where the status tells whether the job is new."""
    body = {"category": "tasks", "name": name, "schema": schema, **details}
    return await user.http.put("/v1/rooms/lab/jobs", json=body)


async def is_deleted(rig: Rig, name: str = JOB) -> bool:
    room = name.partition(":")[0]
    answer = await rig.root.http.get(f"/v1/rooms/{room}/jobs/{name}")
    assert answer.status_code in {200, 404}
    return answer.status_code == 404


async def test_z5_another_schema_is_a_conflict_and_changes_nothing(rig: Rig):
    first = await rig.root.register_job(schema=SCHEMA)
    alice = await rig.user("alice")

    with refused("schema-conflict", 409):
        await alice.register_job(schema=OTHER)

    assert (await rig.root.job())["schema"] == SCHEMA
    assert (await rig.root.job())["schema_version"] == first["schema_version"] == 1


@over_http
async def test_z5_an_equal_schema_links_the_worker_whatever_the_order_of_its_members(rig: Rig):
    first = await put(rig.root, SCHEMA)
    second = await put(rig.root, SAME)

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    workers = {first.json()["worker_id"], second.json()["worker_id"]}
    assert len(workers) == 2
    assert set((await rig.root.job())["workers"]) == workers


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"const": 1}, {"const": True}),
        ({"const": 0}, {"const": False}),
        ({"enum": [1, 2]}, {"enum": [2, 1]}),
        ({}, {"title": "x"}),
        ({"const": None}, {}),
    ],
)
async def test_z5_equality_is_that_of_json_values(rig: Rig, one: dict[str, Any], other: dict[str, Any]):
    await rig.root.register_job(schema=one)

    with refused("schema-conflict", 409):
        await rig.root.register_job(schema=other)


async def test_z5_numbers_that_json_holds_equal_are_equal(rig: Rig):
    first = await rig.root.register_job(schema={"minimum": 1})

    assert (await rig.root.register_job(schema={"minimum": 1.0}))["id"] == first["id"]


async def test_z5_the_same_name_in_another_room_or_category_may_differ(rig: Rig):
    jobs = [
        await rig.root.register_job(schema=SCHEMA),
        await rig.root.register_job(schema=OTHER, room="den"),
        await rig.root.register_job(schema={}, category="analysis"),
    ]

    assert len({job["id"] for job in jobs}) == 3
    assert [job["schema"] for job in jobs] == [SCHEMA, OTHER, {}]


@over_http
async def test_z5_of_two_first_registrations_with_two_schemas_one_wins(rig: Rig):
    """One 201, one 409, never 500: many rounds, in both orders."""
    alice = await rig.user("alice")
    for n in range(15):
        pair = [put(rig.root, SCHEMA, f"job{n}"), put(alice, OTHER, f"job{n}")]
        answers = await asyncio.gather(*(pair if n % 2 else reversed(pair)))

        assert sorted(answer.status_code for answer in answers) == [201, 409]
        [winner] = [answer for answer in answers if answer.status_code == 201]
        job = await rig.root.job(f"lab:tasks:job{n}")
        assert (job["schema"], job["workers"]) == (winner.json()["schema"], [winner.json()["worker_id"]])


@over_http
async def test_z5_of_two_first_registrations_with_equal_schemas_both_are_served(rig: Rig):
    """One 201, one 200, and both workers linked."""
    alice = await rig.user("alice")
    for n in range(15):
        answers = await asyncio.gather(put(rig.root, SCHEMA, f"job{n}"), put(alice, SAME, f"job{n}"))

        assert sorted(answer.status_code for answer in answers) == [200, 201]
        assert {answer.json()["id"] for answer in answers} == {(await rig.root.job(f"lab:tasks:job{n}"))["id"]}
        assert len((await rig.root.job(f"lab:tasks:job{n}"))["workers"]) == 2


@over_socket
async def test_z5_first_registrations_at_once_on_two_sockets_never_fail(rig: Rig):
    alice = await rig.user("alice")
    for n in range(15):
        outcomes = await asyncio.gather(
            rig.root.register_job(f"job{n}", schema=SCHEMA),
            alice.register_job(f"job{n}", schema=OTHER),
            return_exceptions=True,
        )

        refusals = [outcome for outcome in outcomes if isinstance(outcome, Problem)]
        assert [problem.type for problem in refusals] == ["schema-conflict"]


@over_socket
async def test_z5_a_worker_that_opens_itself_links_to_an_equal_job(rig: Rig):
    await rig.root.register_job(schema=SCHEMA)
    assert isinstance(rig.root, SocketUser)
    one, two = await rig.root.connect(), await rig.root.connect()
    job = {"room": "lab", "category": "tasks", "name": "add"}

    made = await asked(one, "open", jobs=[{**job, "schema": SAME}])
    with refused("schema-conflict", 409):
        await asked(two, "open", jobs=[{**job, "schema": OTHER}])

    assert (await rig.root.job())["workers"] == [made["worker"]["id"]]


async def test_z5_a_registration_is_answered_with_the_function_that_was_registered_first(rig: Rig):
    """Whoever is another one of its name can tell; clients that know nothing of it are answered as ever."""
    first = await rig.root.register_job(schema=SCHEMA, origin="pictures:shrink")
    second = await rig.root.register_job(schema=SCHEMA, origin="videos:shrink")
    third = await rig.root.register_job(schema=SCHEMA)
    for wrong in ("", "a" * 1001, "a\x00", 5):
        with refused("validation-error", 422):
            await rig.root.register_job("other", origin=wrong)

    assert [job["origin"] for job in (first, second, third)] == ["pictures:shrink"] * 3
    assert (await rig.root.job())["origin"] == "pictures:shrink"


async def test_z5_replacing_makes_a_new_version_and_pending_tasks_keep_theirs(rig: Rig):
    await rig.root.register_job(schema=SCHEMA)
    old = await rig.root.submit(payload={"n": 1})

    job = await rig.root.register_job(schema=OTHER, replace=True)

    assert (job["schema"], job["schema_version"]) == (OTHER, 2)
    assert (await rig.root.submit(payload={"n": 1.5}))["status"] == "pending"
    with refused("invalid-payload", 422):
        await rig.root.edit(old, payload={"n": 1.5})


@over_socket
async def test_z6_a_job_without_workers_and_tasks_is_deleted_by_the_sweeper(rig: Rig):
    await rig.root.register_job(retain=False)
    kept = await rig.root.register_job("kept", retain=True)
    assert not await is_deleted(rig)

    await rig.sweep()

    assert await is_deleted(rig)
    assert (await rig.root.job(kept["full_name"]))["id"] == kept["id"]
    with refused("job-not-found", 404):
        await rig.root.submit()


@pytest.mark.parametrize("state", ["scheduled", "pending", "claimed", "running", "paused"])
async def test_z6_a_job_with_an_open_task_is_never_deleted(rig: Rig, state: str):
    worker = await rig.root.found_job()
    await worker_leaves_with_a_task_left(rig, worker, state)

    await rig.sweep()

    assert not await is_deleted(rig)
    assert (await rig.root.job())["counts"][state] == 1


async def worker_leaves_with_a_task_left(rig: Rig, worker: Any, state: str) -> None:
    task = await rig.root.submit(delay=60 if state == "scheduled" else 0)
    other = await rig.root.register_worker(JOB)
    if state == "paused":
        await rig.root.pause(task)
    if state == "claimed":
        await other.take()
    if state == "running":
        await other.begin()
    await worker.leave()
    if state not in {"claimed", "running"}:
        await other.leave()


@pytest.mark.parametrize("ending", ["cancel", "resolve", "deadline"])
async def test_z6_the_end_of_the_last_task_deletes_a_job_that_nobody_serves(rig: Rig, ending: str):
    worker = await rig.root.found_job()
    task = await rig.root.submit(deadline=(rig.clock.now() + timedelta(seconds=30)).isoformat())
    await rig.root.pause(task)
    await worker.leave()
    assert not await is_deleted(rig)

    if ending == "deadline":
        rig.advance(31)
        await rig.engine.run(MissDeadlines())
    else:
        await rig.root.act(ending, task)

    assert await is_deleted(rig)
    with refused("job-not-found", 404):
        await rig.root.submit()


async def test_z6_the_last_workers_removal_deletes_the_job_with_what_it_held_failed(rig: Rig):
    one = await rig.root.found_job()
    two = await rig.root.register_worker(JOB)
    task = await rig.root.submit()
    await one.begin()

    await two.leave()
    assert not await is_deleted(rig)
    await one.leave()

    assert await is_deleted(rig)
    left = await rig.root.get(task)
    assert (left["status"], left["error"], left["worker_id"]) == ("failed", "Worker disconnected", one.id)


async def test_z6_the_sweep_of_the_last_stale_worker_deletes_the_job(rig: Rig):
    await rig.root.found_job()
    rig.advance(61)

    await rig.sweep()

    assert await is_deleted(rig)


async def test_z6_a_job_of_the_internal_room_is_never_deleted(rig: Rig):
    worker = await rig.root.found_job(room="@internal")

    await worker.leave()
    await rig.sweep()

    assert not await is_deleted(rig, "@internal:tasks:add")


async def test_z6_a_deleted_job_keeps_its_history_and_what_reads_it(rig: Rig):
    worker = await rig.root.found_job()
    task = await rig.root.submit(payload={"n": 1})
    await worker.complete(await worker.begin(), 7)

    await worker.leave()

    assert await is_deleted(rig)
    kept = await rig.root.get(task)
    assert (kept["status"], kept["result"], kept["job_name"], kept["worker_id"]) == ("completed", 7, JOB, worker.id)
    assert [run["status"] for run in await rig.root.runs(task)] == ["completed"]
    listed = told(await rig.root.http.get("/v1/rooms/lab/tasks"))
    assert [item["id"] for item in listed["items"]] == [task["id"]]


@pytest.mark.parametrize("verb", ["rerun", "resume"])
async def test_z6_no_verb_makes_a_task_of_a_deleted_job_pending(rig: Rig, verb: str):
    worker = await rig.root.found_job()
    task = await rig.root.submit()
    await worker.fail(await worker.begin())
    await worker.leave()
    assert await is_deleted(rig)

    with refused("invalid-task-transition", 409) as problems:
        await rig.root.act(verb, task)

    assert "deleted" in problems[0].detail
    assert await pending_on_deleted_jobs(rig) == 0


@over_http
async def test_z6_registering_again_revives_the_job_and_replaces_its_schema(rig: Rig):
    first = (await put(rig.root, SCHEMA)).json()
    told(await rig.root.http.delete(f"/v1/workers/{first['worker_id']}"))
    assert await is_deleted(rig)

    again = await put(rig.root, OTHER)

    assert again.status_code == 201
    revived = await rig.root.job()
    assert (revived["id"], revived["schema"], revived["schema_version"]) == (first["id"], OTHER, 2)
    assert (await rig.root.submit(payload={"n": 1.5}))["status"] == "pending"
    with refused("invalid-payload", 422):
        await rig.root.submit(payload={"n": "x"})


async def pending_on_deleted_jobs(rig: Rig) -> int:
    query = (
        "SELECT count(*) FROM tasks JOIN jobs ON tasks.job_num = jobs.num WHERE jobs.deleted_at IS NOT NULL"
        " AND tasks.status IN ('scheduled', 'pending', 'claimed', 'running', 'paused')"
    )
    async with rig.engine.store.read() as connection:
        return int((await connection.execute(text(query))).scalar_one())


@pytest.mark.parametrize("submit_first", [True, False])
@pytest.mark.parametrize("leaving", ["worker", "sweeper", "last task"])
async def test_z6_a_submit_that_meets_the_end_of_its_job_is_taken_or_refused(
    rig: Rig, leaving: str, submit_first: bool
):
    """Never a pending task on a deleted job: the race is run many times, both ways round."""
    alice = await rig.user("alice")
    for n in range(12):
        name = f"lab:tasks:job{n}"
        end = await ending_of(rig, f"job{n}", leaving)
        race = [alice.submit(name), end()] if submit_first else [end(), alice.submit(name)]

        outcomes = await asyncio.gather(*race, return_exceptions=True)

        submitted = outcomes[0 if submit_first else 1]
        if isinstance(submitted, Problem):
            assert (submitted.status, submitted.type) == (404, "job-not-found")
            assert await is_deleted(rig, name)
        else:
            assert (await rig.root.get(submitted))["status"] == "pending"
            assert not await is_deleted(rig, name)
        assert await pending_on_deleted_jobs(rig) == 0


async def ending_of(rig: Rig, name: str, leaving: str) -> Callable[[], Awaitable[Any]]:
    """Found the job, and return what takes away the last thing that keeps it."""
    worker = await rig.root.found_job(name)
    if leaving == "worker":
        return worker.leave
    if leaving == "sweeper":
        rig.advance(61)
        return rig.sweep
    task = await rig.root.submit(f"lab:tasks:{name}")
    await worker.leave()
    return lambda: rig.root.cancel(task)


@over_socket
async def test_z6_the_sweeper_looks_again_before_it_deletes(rig: Rig):
    """What it found without need a moment ago may have been submitted to since."""
    await rig.root.register_job(retain=False)
    async with rig.engine.store.read() as connection:
        found = await possible_orphans(connection)
    assert len(found) == 1
    await rig.root.submit()

    await rig.engine.run(DeleteOrphans(found))

    assert not await is_deleted(rig)


@over_http
@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_z6_two_servers_agree_on_a_job_that_ends_while_one_is_submitted_to(rig: Rig, tmp_path: Path):
    """G11: the worker leaves through one server, and the task comes in through the other."""
    async with (
        serve(rig.served.settings.database_url, clock=rig.clock, data_dir=tmp_path / "data") as second,
        httpx.AsyncClient(base_url=second.url, headers=second.headers, timeout=30) as other,
    ):
        for n in range(12):
            name = f"lab:tasks:job{n}"
            worker = await rig.root.found_job(f"job{n}")
            race = [other.post(f"/v1/rooms/lab/tasks/{name}"), worker.leave()]

            outcomes = await asyncio.gather(*(race if n % 2 else reversed(race)))

            [answer] = [outcome for outcome in outcomes if outcome is not None]
            assert answer.status_code in {202, 404}
            assert await is_deleted(rig, name) == (answer.status_code == 404)
            assert await pending_on_deleted_jobs(rig) == 0
