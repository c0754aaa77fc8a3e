"""F2: results of the tasks that a run's task waited for, from a server through a worker to the code that uses them."""

import asyncio
from typing import Any

import pytest

from treadle import Client, Context, Options, TaskFailed, task
from treadle.errors import InvalidArguments
from treadle.ids import new_task_id
from treadle.tasks.dependencies import payload_of
from treadle.transport import http
from treadle.worker.lease import Held
from treadle.worker.results import AT_ONCE, read_results

pytestmark = pytest.mark.anyio


@task(max_retries=0)
async def makes(n: int) -> int:
    if n < 0:
        raise ValueError("below 0")
    return n


@task(max_retries=0)
async def sees(ctx: Context) -> Any:
    return ctx.results


@task(max_retries=0)
def adds(parts: list[int], more: int = 0) -> int:
    return sum(parts) + more


@task(max_retries=0, isolation="process")
def adds_in_process(parts: list[int], more: int = 0) -> int:
    return sum(parts) + more


@task(max_retries=0)
async def says(text: str) -> str:
    return text


@pytest.fixture(params=["carried", pytest.param("read", marks=pytest.mark.inside)])
def carries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that a claim carries, and those that are too large together and are read with its credential."""
    if request.param == "read":
        from treadle_server.operations import carrying

        monkeypatch.setattr(carrying, "MOST_BYTES", 0)


async def put(client: Client, *items: dict[str, Any]) -> list[str]:
    """Submit tasks of one request, and return their ids."""
    given = [{"id": new_task_id(), **item} for item in items]
    answer = await client.call("submit", {"room": "@global", "tasks": given, "brief": True})
    return [one["id"] for one in answer["tasks"]]


async def register(client: Client) -> None:
    for one in (makes, sees, adds, adds_in_process, says):
        await client.register(one)


async def test_f2_the_code_finds_results_by_name(client: Client, either: Any, carries: None) -> None:
    first, second = [await client.submit(makes.bind(n=n)) for n in (1, 2)]
    await client.register(sees)

    waits = Options(depends_on={"one": first.id, "both": [second.id, first.id]})
    handle = await client.submit(sees.bind(), options=waits)
    assert handle.submitted is not None
    assert handle.submitted.status == "blocked"

    async with either(makes, sees):
        assert await handle.result(timeout=30) == {"one": 1, "both": [2, 1]}


async def test_f2_results_become_arguments_and_a_thread_and_a_process_get_them_too(
    client: Client, either: Any, carries: None
) -> None:
    await register(client)
    items = [{"job": makes.full_name, "payload": {"n": n}, "ref": f"n{n}"} for n in (1, 2, 3)]
    total = {"payload": {"more": 10}, "depends_on": {"x": ["n1", "n2", "n3"]}, "arguments_from": {"parts": "x"}}
    in_process = {**total, "job": adds_in_process.full_name}
    of_target = {**total, "job": adds.full_name, "target": "printer"}

    *_, thread, process, target = await put(client, *items, {**total, "job": adds.full_name}, in_process, of_target)

    async with either(makes, adds, adds_in_process):
        for last in (thread, process, target):
            assert await client.handle(last).result(timeout=60) == 16


async def test_f2_a_result_that_the_argument_does_not_take_is_a_malformed_payload(client: Client, working: Any) -> None:
    await register(client)
    first = {"job": says.full_name, "payload": {"text": "a"}, "ref": "a"}
    wrong = {"job": adds.full_name, "payload": {}, "depends_on": {"x": "a"}, "arguments_from": {"parts": "x"}}

    _, last = await put(client, first, wrong)

    async with working(says, adds):
        with pytest.raises(TaskFailed, match="parts"):
            await client.handle(last).result(timeout=30)
    assert (await client.get(last)).reason == "malformed-payload"


async def test_f2_a_task_that_runs_whatever_happened_has_no_argument_of_one_that_failed(
    client: Client, working: Any
) -> None:
    await register(client)
    failing = {"job": makes.full_name, "payload": {"n": -1}, "ref": "bad"}
    after = {"depends_on": {"x": "bad"}, "on_dependency_failure": "run"}

    _, looks, wants = await put(
        client,
        failing,
        {"job": sees.full_name, **after},
        {"job": adds.full_name, "payload": {"parts": []}, "arguments_from": {"more": "x"}, **after},
    )

    async with working(makes, sees, adds):
        assert await client.handle(looks).result(timeout=30) == {"x": None}
        with pytest.raises(TaskFailed, match="is failed and has none"):
            await client.handle(wants).result(timeout=30)


@pytest.mark.inside
async def test_f2_a_run_has_started_however_long_the_results_take_to_be_read(
    client: Client, working: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 5,000 results that were read one by one the start timeout came first, in each of the task's runs."""
    from treadle_server.operations import carrying

    monkeypatch.setattr(carrying, "MOST_BYTES", 0)
    is_slow, request = asyncio.Event(), http.HttpChannel.request

    async def slow(channel: http.HttpChannel, *given: Any, **more: Any) -> Any:
        await is_slow.wait()
        return await request(channel, *given, **more)

    await register(client)
    first = {"job": makes.full_name, "payload": {"n": 1}, "ref": "n1"}
    total = {"job": adds.full_name, "payload": {"more": 10}, "depends_on": {"x": ["n1"]}}
    _, last = await put(client, first, {**total, "arguments_from": {"parts": "x"}})
    monkeypatch.setattr(http.HttpChannel, "request", slow)

    async with working(makes, adds):
        await until(lambda: is_running(client, last))
        is_slow.set()
        assert await client.handle(last).result(timeout=30) == 11


async def is_running(client: Client, task_id: str) -> bool:
    return (await client.get(task_id)).status in {"running", "completed"}


class Granted:
    """The credentials of a run whose lease ends with each time that one is asked for."""

    urls = ("http://x",)
    transport = None

    def __init__(self) -> None:
        self.given = 0

    async def of(self, held: Held) -> str:
        self.given += 1
        return str(self.given)


def held_with(count: int) -> Held:
    """Return a run whose task waited for so many, and whose claim had no room for their results."""
    claim = {"id": "t", "run_id": 0, "seconds_left": 60.0, "payload": {}, "results_left_out": True}
    listed = [{"id": str(number), "status": "completed"} for number in range(count)]
    return Held({**claim, "dependencies": {"x": listed}, "arguments_from": {"more": "x"}}, 0.0)


async def test_f2_each_result_is_read_with_the_credential_of_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease goes on while they are read, and the credential of the claim does not."""
    shown = []

    class Channel:
        def __init__(self, _: Any, credential: Any, **__: Any) -> None:
            self.credential = credential

        async def request(self, _: str, path: str) -> dict[str, Any]:
            shown.append(await self.credential())
            return {"status": "completed", "result": int(path.rpartition("/")[2])}

        async def close(self) -> None:
            pass

    monkeypatch.setattr(http, "HttpChannel", Channel)
    held = held_with(20)

    assert await read_results(Granted(), held) is None  # type: ignore[arg-type]

    assert sorted(shown, key=int) == [str(number) for number in range(1, 21)]
    assert payload_of(held.claim) == {"more": list(range(20))}


async def test_f2_of_a_run_that_is_to_stop_no_more_results_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    held, asked = held_with(2 * AT_ONCE), []

    class Channel:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        async def request(self, _: str, path: str) -> dict[str, Any]:
            asked.append(path)
            if len(asked) == AT_ONCE:
                held.stop = "shutdown"
            await asyncio.sleep(0)
            return {"status": "completed", "result": 1}

        async def close(self) -> None:
            pass

    monkeypatch.setattr(http, "HttpChannel", Channel)

    ending = await read_results(Granted(), held)  # type: ignore[arg-type]

    # What it has not read is no argument that is wrong: another run begins anew.
    assert ending is not None
    assert ending["reason"] == "worker-shutdown"
    assert len(asked) == AT_ONCE


async def test_f2_one_that_is_run_again_since_the_claim_is_no_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result is read, and there is none any more: None would be taken for it."""

    class Channel:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        async def request(self, *_: Any) -> dict[str, Any]:
            return {"id": "a", "status": "pending"}

        async def close(self) -> None:
            pass

    monkeypatch.setattr(http, "HttpChannel", Channel)
    claim = {"id": "t", "run_id": 0, "seconds_left": 60.0, "payload": {}, "results_left_out": True}
    needs = {"dependencies": {"x": {"id": "a", "status": "completed"}}, "arguments_from": {"more": "x"}}
    held = Held({**claim, **needs}, 0.0)

    assert await read_results(Granted(), held) is None  # type: ignore[arg-type]

    with pytest.raises(InvalidArguments, match="more is the result of task a, which is pending and has none"):
        payload_of(held.claim)
