"""`@task(schedule=…)` and the client's part (E10)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests import waiting
from tests.worker.conftest import Working, client, until, working, working_at
from treadle import Client, Cron, Every, Options, Worker, errors, task
from treadle.encryption import Sealer
from treadle.tasks.registrations import registration
from treadle_server.testing import Served, serve

PLAIN = Sealer(None)
"""Of tasks that are not encrypted."""

SOMEDAY = datetime(2999, 1, 1, tzinfo=UTC)

__all__ = ["client", "until", "working"]

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serve() as served:
        yield served


def made(schedule: Any, *, name: str = "tidy", **options: Any) -> Any:
    @task(name=name, schedule=schedule, **options)
    async def tidy(days: int = 3, *, deep: bool = False) -> int:
        return days

    return tidy


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Cron("* * *"), "has neither five fields"),
        (lambda: Every(0.5), "shorter than one second"),
        (lambda: Every(5, missed="never"), "'late' or 'skip'"),  # type: ignore[arg-type]
        (lambda: Every(5, jitter=-1), "0 or more"),
        (lambda: Every(5, name="x/y"), "no '/'"),
        (lambda: Every(5, name=""), "1 to 255 characters"),
        (lambda: made(30), "neither Cron"),
        (lambda: Every(5, options=Options(delay=3)), "delay: not possible for a schedule"),
        (lambda: Every(5, options=Options(deadline=SOMEDAY)), "in seconds from the tick"),
        (lambda: Cron("* * * * *", deadline=0), "more than 0"),
        (lambda: Cron("* * * * *", "Mars"), "tz='Mars' is not a time zone that this machine knows"),
        (lambda: Cron("* * * * *", "../etc/passwd"), "not a time zone that this machine knows"),
    ],
)
def test_what_can_not_be_a_schedule_is_an_error_at_import_t1(make: Any, said: str) -> None:
    with pytest.raises(errors.DefinitionError, match=said):
        make()


def test_a_machine_without_time_zones_leaves_them_to_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.available_timezones", set)

    assert Cron("* * * * *", "Mars").tz == "Mars"


def test_a_registration_says_the_same_for_the_same_code_and_something_else_for_another() -> None:
    one = made(Every(timedelta(minutes=5), arguments={"days": 1}))
    name, body = registration(one, PLAIN)

    assert (name, body["interval"], body["payload"]) == ("tasks:tidy", 300.0, {"days": 1})
    assert registration(made(Every(300, arguments={"days": 1})), PLAIN) == (name, body)
    assert registration(made(Every(300, arguments={"days": 2})), PLAIN)[1]["content_hash"] != body["content_hash"]
    with pytest.raises(errors.InvalidArguments, match="days"):
        registration(made(Every(300, arguments={"days": "x"})), PLAIN)


def test_a_registration_says_how_each_task_is_run() -> None:
    options = Options(scopes=["queue:read:lab"], unique_key="k", retry_base=timedelta(seconds=1))
    _, body = registration(made(Every(300, options=options, deadline=timedelta(minutes=1))), PLAIN)

    assert {part: body[part] for part in ("scopes", "unique_key", "retry_base", "deadline")} == {
        "scopes": ["queue:read:lab"], "unique_key": "k", "retry_base": 1.0, "deadline": 60.0,
    }  # fmt: skip
    assert body["content_hash"] != registration(made(Every(300)), PLAIN)[1]["content_hash"]


async def test_a_client_sets_every_option_of_the_tasks(client: Client) -> None:
    await client.request("PUT", "/v1/rooms/@global/jobs", {"category": "tasks", "name": "tidy", "retain": True})
    options = Options(scopes=["queue:read:lab"], unique_key="k", tags={"a": "b"}, budget=3, flow_name="etl")

    item = await client.set_schedule("s", job="@global:tasks:tidy", interval=60, options=options, deadline=30)

    assert item.options == {
        "scopes": ["queue:read:lab"], "unique_key": "k", "tags": {"a": "b"}, "budget": 3.0, "deadline": 30.0,
        "flow_name": "etl",
    }  # fmt: skip
    with pytest.raises(errors.InvalidArguments, match="scheduled_at"):
        await client.set_schedule("s", job="@global:tasks:tidy", interval=60, options=Options(scheduled_at=SOMEDAY))


async def test_a_worker_tells_its_schedules_and_runs_what_they_put_in_e10(
    client: Client, working: Working, until: Any
) -> None:
    async with working(made(Every(1, arguments={"days": 9}))):

        async def has_ended() -> bool:
            found = (await client.schedules()).items
            return bool(found) and found[0].last_status == "completed"

        await until(has_ended)

    [task_item, *_] = (await client.list(tag="schedule=tasks:tidy")).items
    assert (task_item.payload, task_item.result in {9, None}) == ({"days": 9}, True)


async def test_a_worker_tells_how_each_task_is_run_e10(client: Client, working: Working) -> None:
    options = Options(priority=5, unique_key="k", retry_base=timedelta(seconds=1))

    async with working(made(Every(3600, options=options, deadline=timedelta(minutes=1)))):
        told = await seen(client)

    assert told.options == {"priority": 5, "unique_key": "k", "retry_base": 1.0, "deadline": 60.0}


async def seen(client: Client, name: str = "tasks:tidy") -> Any:
    """Wait until the worker has told its schedule, and return it."""

    async def told() -> Any:
        try:
            return await client.schedule(name)
        except errors.ScheduleNotFound:
            return None

    return await waiting.until(told)


async def test_two_workers_with_the_same_code_do_not_fight_and_changes_of_people_stay_e10(
    client: Client, working: Working, until: Any
) -> None:
    async with working(made(Cron("0 3 * * *", "Europe/Berlin"))):
        first = await seen(client)
        await client.pause_schedule("tasks:tidy")
        other = made(Cron("0 3 * * *", "Europe/Berlin"))
        async with working(other, made(Every(3600), name="mark")):
            await seen(client, "tasks:mark")  # told after the other one

    now = await client.schedule("tasks:tidy")
    assert (now.version, now.paused, now.content_hash) == (2, True, first.content_hash)


async def test_the_last_one_to_start_wins_and_one_that_connects_anew_undoes_nothing_e10(
    client: Client, server: Served, working: Working, until: Any
) -> None:
    async with working(made(Every(3600))) as old:
        await seen(client)
        async with working(made(Every(7200))):

            async def is_new() -> bool:
                return (await client.schedule("tasks:tidy")).interval == 7200

            await until(is_new)
            live = server.app.state.live
            session = live._workers[old.id]
            await session.close(1001, "as after an outage")

            async def is_back() -> bool:
                return live._workers.get(old.id) not in {None, session}

            await until(is_back)
            assert (await client.schedule("tasks:tidy")).version == 2


async def test_a_worker_goes_on_whose_schedule_is_another_users_that_it_does_not_see_e10(
    client: Client, server: Served, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    tidy = made(Every(3600), room="lab")
    await client.register(tidy)
    name, body = registration(tidy, PLAIN)
    await client.request("PUT", f"/v1/rooms/lab/schedules/{name}", body)
    scopes = ["queue:register-job:lab", "queue:create-task:lab/*", "queue:worker-id:*", "queue:claim-work:*"]
    token = (await client.request("POST", "/v1/tokens", {"name": "other", "scopes": scopes}))["token"]

    async with working_at(server.url, token, tidy) as worker:
        await waiting.until(lambda: "the schedule of lab:tasks:tidy is left unchanged" in caplog.text)
        handle = await client.submit(tidy.bind(days=4))
        assert await handle.result(timeout=20) == 4

    assert worker.id is not None


async def test_a_schedule_with_arguments_that_its_task_does_not_take_is_refused_before_the_worker_connects() -> None:
    """It was told as a refusal of the server's, and not of which schedule."""
    worker = Worker([made(Every(60, arguments={"dayz": 1}))], url="http://127.0.0.1:1", token="any")

    said = r"the schedule of @global:tasks:tidy: .* can't be called like this: dayz"
    with pytest.raises(errors.InvalidArguments, match=said):
        await asyncio.wait_for(worker.run_async(), 20)


async def test_a_bad_expression_ends_the_worker_with_what_is_wrong_g9_e10(server: Served) -> None:
    from treadle import Worker

    worker = Worker([made(Cron("61 3 * * *"))], url=server.url, token=server.token, drain_grace=0)

    with pytest.raises(errors.ValidationFailed, match=r"'61' of '61 3 \* \* \*' is not a valid minute"):
        async with asyncio.timeout(20):
            await worker.run_async()


async def test_the_client_sets_lists_pauses_runs_and_deletes_e10(client: Client) -> None:
    await client.register(made(None))
    job = "@global:tasks:tidy"
    one = await client.set_schedule("nightly", job=job, cron="0 3 * * *", zone="Europe/Berlin", payload={"days": 1})
    assert (one.name, one.zone, one.next_at is not None) == ("nightly", "Europe/Berlin", True)
    assert (await client.pause_schedule("nightly")).paused
    assert not (await client.resume_schedule("nightly")).paused
    ran = await client.run_schedule("nightly")
    assert (ran.status, ran.payload) == ("pending", {"days": 1})
    with pytest.raises(errors.TaskConflict):
        await client.run_schedule("nightly")
    assert [item.name for item in (await client.schedules()).items] == ["nightly"]
    await client.delete_schedule("nightly")
    with pytest.raises(errors.ScheduleNotFound):
        await client.schedule("nightly")
