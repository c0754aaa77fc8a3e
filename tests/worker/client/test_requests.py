"""Lists: a page when awaited, everything when gone through; so with the blocking client. What is not there is told."""

import asyncio
import inspect
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from treadle import Client, Options, SyncClient, errors, task
from treadle.client.requests import Listing
from treadle.errors import ConnectionLost, InvalidArguments, TreadleError
from treadle.wire.pages import Page
from treadle_server.testing import Served


@task
def first(n: int) -> int:
    return n


@task
def second(n: int) -> int:
    return n


@task
def third(n: int) -> int:
    return n


@pytest.fixture
def submitted(treadle_server: Any) -> list[str]:
    """Five tasks of three jobs, the newest first."""
    with SyncClient(treadle_server.url, treadle_server.token) as client:
        handles = [client.submit(kind.bind(1)) for kind in (first, first, first, second, third)]
    return [handle.id for handle in handles][::-1]


def test_lists_are_gone_through_page_by_page(treadle_server: Any, submitted: list[str]) -> None:
    async def read() -> None:
        async with Client(treadle_server.url, treadle_server.token) as client:
            page = await client.list(limit=2)
            assert ([item.id for item in page], len(page), page.total) == (submitted[:2], 2, 5)
            assert [item.id async for item in client.list(limit=2)] == submitted
            assert [item.id async for item in client.list(limit=2, offset=1)] == submitted[1:]
            assert [item.id async for item in client.list()] == submitted
            assert [item.id async for item in client.list(limit=0)] == []
            # By offset, as all lists but that of tasks.
            assert len([job async for job in client.jobs(limit=2)]) == 3
            assert [item async for item in client.targets()] == []

    asyncio.run(read())


def test_a_blocking_client_goes_through_them_too(treadle_server: Any, submitted: list[str]) -> None:
    with SyncClient(treadle_server.url, treadle_server.token) as client:
        page = client.list(limit=2)
        assert ([item.id for item in page.items], page.total) == (submitted[:2], 5)
        assert [item.id for item in page] == submitted
        assert len(list(client.jobs(limit=1))) == 3
        assert list(client.workers()) == []


@pytest.mark.parametrize("name", [".", "..", "a b", "a?b", "%2e"])
def test_what_is_called_like_a_way_through_folders_is_asked_for_by_its_name(treadle_server: Any, name: str) -> None:
    """A path's `..` would lead to another route, which answered with what was not asked for."""
    with SyncClient(treadle_server.url, treadle_server.token, room=name) as client:
        handle = client.submit(first.bind(1), options=Options(target=name))
        client.set_schedule(name, job=first.full_name, interval=3600, payload={"n": 1})

        assert client.target(name, room=handle.get().room_id).name == name
        assert [found.name for found in client.schedules()] == [name]
        client.delete_schedule(name)
        assert list(client.schedules()) == []


def test_durations_of_schedules_and_of_what_is_removed_are_timedeltas_too(treadle_client: SyncClient) -> None:
    """As in `Every` and `Options`; the server said of a timedelta that it was no valid number."""
    treadle_client.submit(first.bind(1))

    made = treadle_client.set_schedule(
        "daily", job=first.full_name, interval=timedelta(days=1), jitter=timedelta(minutes=1), payload={"n": 1}
    )
    removed = treadle_client.prune(older_than=timedelta(days=30), status="failed", dry_run=True)

    assert (made.interval, made.jitter) == (86_400, 60)
    assert removed.done


@pytest.mark.inside  # the server is told to give little at once
def test_a_page_is_filled_where_the_server_has_looked_through_enough_for_one_request(
    treadle_server: Any, submitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle_server.store.read import walks

    monkeypatch.setattr(walks, "LOOKED_THROUGH", 2)
    firsts = submitted[2:]

    with SyncClient(treadle_server.url, treadle_server.token) as client:
        page = client.list("first", limit=2)
        whole = client.list("first", limit=50)
        assert [one.id for one in page.items] == firsts[:2]
        assert [one.id for one in page] == firsts
        assert [one.id for one in whole.items] == firsts
        assert (whole.total, whole.total_is_capped, whole.is_partial, whole.next_cursor) == (3, False, False, None)


NOBODY = "01990000-0000-7000-8000-000000000000"

ASKED: dict[str, dict[str, Any]] = {
    "get cancel pause resume rerun runs logs steps artifacts": {"task_id": NOBODY},
    "download": {"task_id": NOBODY, "name": "x", "to": "."},
    "send": {"task_id": NOBODY, "name": "x"},
    "resolve": {"task_id": NOBODY, "status": "completed"},
    "edit": {"task_id": NOBODY, "priority": 1},
    "flow cancel_flow pause_flow resume_flow rerun_failed": {"flow_id": NOBODY},
    "job pause_queue resume_queue": {"full_name": "@global:tasks:none"},
    "submit_raw": {"job": "@global:tasks:none", "payload": {}},
    "worker": {"worker_id": NOBODY},
    "revoke_token": {"token_id": NOBODY},
    "set_schedule": {"name": "none", "job": "@global:tasks:none", "interval": 9},
    "schedule pause_schedule resume_schedule run_schedule delete_schedule": {"name": "none"},
    "limit delete_limit target webhook delete_webhook deliveries redeliver": {"name": "none"},
}
"""What methods are asked for that the server does not have."""


def told_by(name: str) -> str:
    """Return a method's docstring, with those to which it refers."""
    said = " ".join((inspect.getdoc(getattr(Client, name)) or "").split())
    return said + "".join(told_by(other) for other in re.findall(r"aises as `(?:Client\.)?(\w+)`", said))


@pytest.mark.parametrize(("name", "asked"), [(name, asked) for names, asked in ASKED.items() for name in names.split()])
async def test_a_method_tells_what_it_raises_for_what_is_not_there(
    client: Client, name: str, asked: dict[str, Any]
) -> None:
    parameters = list(inspect.signature(getattr(Client, name)).parameters.values())[1:]
    first = {one.name: asked[one.name] for one in parameters if one.kind is not one.KEYWORD_ONLY and one.name in asked}
    named = {key: value for key, value in asked.items() if key not in first}

    with pytest.raises(TreadleError) as refusal:
        await getattr(client, name)(*first.values(), **named)

    assert f"`{type(refusal.value).__name__}`" in told_by(name)


@pytest.mark.parametrize("given", ["abc", "a/b", "", None])
@pytest.mark.parametrize("way", ["socket", "http"])
async def test_what_is_no_id_is_no_tasks_whichever_way_is_asked(server: Served, way: str, given: Any) -> None:
    """Over the socket it was a `ValidationFailed`, over HTTP one with a `/` a `RouteNotFound`."""

    async def token() -> str:
        return server.token

    async with Client(server.url, server.token if way == "socket" else token) as client:
        handle = client.handle(given)
        asked = [
            *(getattr(client, name)(given) for name in ("get", "cancel", "pause", "resume", "rerun", "runs", "logs")),
            *(getattr(client, name)(given) for name in ("steps", "artifacts", "resolve")),
            *(client.download(given, "x", "."), client.send(given, "x"), client.edit(given, priority=1)),
            *(handle.get(), handle.result(5), handle.wait(5), client.expect(given).result(5)),
        ]
        for one in asked:
            with pytest.raises(errors.TaskNotFound, match=f"'{str(given).lower()}' is not a task id: write a UUID"):
                await one


async def test_what_is_no_task_is_not_registered(client: Client) -> None:
    with pytest.raises(errors.InvalidArguments, match="is not a task: decorate its function with @task"):
        await client.register(len)  # type: ignore[arg-type]


@pytest.mark.parametrize("by_cursor", [False, True])
@pytest.mark.parametrize("items", [[1, 2], []])
async def test_a_list_whose_server_repeats_a_page_has_an_end(items: list[int], by_cursor: bool) -> None:
    """It was gone through for ever, as was a page that the server was asked to fill."""
    told = {"items": items, "total": 9, "limit": 4, "next_cursor": "c" if by_cursor else None, "is_partial": by_cursor}

    async def read(where: Mapping[str, Any]) -> Page[Any]:
        return Page[Any].model_validate(told)

    listing = Listing(read, limit=None, offset=0, by_cursor=by_cursor)

    if not items and not by_cursor:
        assert [item async for item in listing] == []
        return
    with pytest.raises(ConnectionLost, match="comes again"):
        _ = [item async for item in listing]
    if by_cursor:
        with pytest.raises(ConnectionLost, match="comes again"):
            await listing


async def test_a_status_that_there_is_not_is_told_before_anything_is_sent(client: Client) -> None:
    asked = [
        lambda: client.list(status="faild"),  # type: ignore[arg-type]
        lambda: client.list(status=["failed", ""]),  # type: ignore[list-item]
        lambda: client.prune(status="faild"),  # type: ignore[arg-type]
        lambda: client.set_webhook("done", "https://hooks.example", statuses=["faild"]),  # type: ignore[list-item]
    ]
    await client.close()

    for ask in asked:
        with pytest.raises(
            InvalidArguments, match=r"status: '(faild)?' is not a valid Status: write one of scheduled, b"
        ):
            await ask()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda client: client.list(status=[]), "status: no status is chosen: name one of scheduled, blocked"),
        (lambda client: client.list(status=""), "status: '' is not a valid Status"),
        (lambda client: client.list(room=""), "a room, name or id in the request is empty"),
        (lambda client: client.list(tag={"user": "ann"}), "tag: write a text, such as user=ann, not {'user': 'ann'}"),
        (lambda client: client.list(tag=["a", 1]), "tag: write a text, such as user=ann, not 1"),
        (lambda client: client.list(job=first), "job: write a text, not <Task @global:tasks:first>"),
        (lambda client: client.list({"status": "failed"}), "list takes a filter as a text, or conditions by name"),
        (lambda client: client.prune(status=[]), "status: no status is chosen"),
        (lambda client: client.list(tag=[]), "tag: is empty; give a value, or leave it out"),
        (lambda client: client.act("cancel", filter={"tag": []}), "tag: is empty; give a value, or leave it out"),
        (lambda client: client.act("cancel", filter={"not_job": ()}), "not_job: is empty; give a value, or leave it o"),
        (lambda client: client.act("cancel", filter={"not_tag": [""]}), "not_tag: is empty; give a value, or leave"),
        (lambda client: client.act("cancel", filter={"status": set()}), "status: is empty; give a value, or leave it"),
    ],
    ids=[
        *("status", "empty text", "room", "tags", "a tag", "job", "filter", "prune"),
        *("no tags", "act on no tags", "act on no excluded jobs", "act on an empty tag", "act on no statuses"),
    ],
)
async def test_a_condition_that_says_nothing_finds_neither_all_tasks_nor_none(
    client: Client, ask: Any, said: str
) -> None:
    with pytest.raises(InvalidArguments) as raised:
        await ask(client)

    assert str(raised.value).startswith(said)
