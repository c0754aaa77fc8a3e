"""Encrypted tasks have steps, and count against limits by keys that their clients compute."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from treadle import Client, Context, Limit, Options, TaskHandle, task
from treadle.encryption import FernetCodec, new_key
from treadle.encryption.fields import sealed_payload
from treadle.errors import InvalidArguments, InvalidPayload, ValidationFailed
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

CODEC = FernetCodec(new_key())


@task(encrypted=True, limits=[Limit("api", key="/who/customer", concurrency=1)])
async def ask(who: dict[str, Any], n: int = 0) -> int:
    """Count against the limit of a customer."""
    return n


def of(customer: object, n: int = 0) -> Any:
    return ask.bind({"customer": customer}, n)


async def blocked(client: Client, handle: TaskHandle[Any]) -> str | None:
    return (await client.get(handle.id)).blocked_by


async def test_limits_of_encrypted_tasks_are_counted_by_what_their_keys_point_to(server: Served) -> None:
    """It is told by a digest: 5 and 5.0 are one key, and nobody reads which."""
    async with Client(server.url, server.token, codec=CODEC) as keyed, Client(server.url, server.token) as reader:
        handles = [await keyed.submit(of(customer)) for customer in ("acme", "acme", "other", 5, 5.0, None, None)]
        worker = await claiming(keyed)

        held = [await blocked(keyed, handle) is not None for handle in handles]
        assert held == [False, True, False, False, True, False, True]
        assert worker == 4
        kept = (await reader.get(handles[0].id)).payload
        assert "acme" not in str(kept)
        assert [*kept] == ["treadle:encrypted", "treadle:limit_keys"]
        assert (await keyed.get(handles[0].id)).payload == {"who": {"customer": "acme"}, "n": 0}


async def claiming(client: Client) -> int:
    """Let a worker claim what it may, and return how much that is."""
    made = await client.request("POST", "/v1/workers", {"name": "w", "concurrency": 50})
    body = {"category": "tasks", "name": "ask", "worker_id": made["id"], "encrypted": True, "schema": SCHEMA}
    await client.request("PUT", "/v1/rooms/@global/jobs", body)
    answer = await client.request("POST", "/v1/tasks/claim", {"worker_id": made["id"], "tasks": 50})
    return len(answer["tasks"])


SCHEMA = ask.signature.schema


async def test_every_way_to_submit_tells_the_keys_of_an_encrypted_task(server: Served) -> None:
    """By name, in bulk, by a schedule, by an edit: each counts against the customer's own limit."""
    async with Client(server.url, server.token, codec=CODEC) as keyed:
        await keyed.register(ask)
        name, payload = ask.full_name, {"who": {"customer": "acme"}, "n": 1}
        named = await keyed.submit_raw(name, payload)
        [bulk] = await keyed.submit_many([of("acme")])
        await keyed.set_schedule("nightly", job=name, payload=payload, interval=3600)
        ticked = await keyed.run_schedule("nightly")
        edited = await keyed.submit(of("other"))
        await keyed.edit(edited.id, payload=payload)
        apart = await keyed.submit(of("apart"))

        assert await claiming(keyed) == 2

        found = [(await keyed.get(one)).blocked_by is None for one in (named.id, bulk.id, ticked.id, edited.id)]
        assert found.count(True) == 1
        assert await blocked(keyed, apart) is None


async def test_who_may_not_read_the_job_edits_an_encrypted_task_that_has_no_such_key(server: Served) -> None:
    """The edit asks for the job's limits, and what is not known of them only the server can miss."""

    @task(name="plain", encrypted=True)
    async def plain(n: int) -> int:
        return n

    async with Client(server.url, server.token, codec=CODEC) as keyed:
        handle = await keyed.submit(plain.bind(1))
        made = await keyed.create_token("editor", scopes=["queue:control-task:@global"])
        async with Client(server.url, made.token, codec=CODEC) as editor:
            await editor.edit(handle.id, payload={"n": 2})

        assert (await keyed.get(handle.id)).payload == {"n": 2}


async def test_a_sealed_payload_that_does_not_tell_its_keys_is_refused(server: Served) -> None:
    """By an older client, or one whose task has other limits: it would count against no key."""
    async with Client(server.url, server.token, codec=CODEC) as keyed:
        await keyed.register(ask)
        path = "/v1/rooms/@global/tasks/@global:tasks:ask"
        sealed = sealed_payload(keyed.sealer, {"who": {}}, None, ["/tenant"])

        for payload in (sealed, {"treadle:encrypted": sealed["treadle:encrypted"]}):
            with pytest.raises(ValidationFailed, match="lacks the key /who/customer of api: submit it with"):
                await keyed.request("POST", path, {"payload": payload})
        with pytest.raises(InvalidPayload, match="are encrypted and this payload is not"):
            plain = {**sealed, "treadle:limit_keys": {"/who/customer": "acme & sons"}}
            await keyed.request("POST", path, {"payload": plain})
        assert (await keyed.stats()).counts == {}


@pytest.mark.parametrize(
    ("customer", "why"),
    [
        (["acme"], "an object or a list"),
        ("", "a string of 0 characters; it may have 1 to 255"),
        ("x" * 256, "a string of 256 characters; it may have 1 to 255"),
        (10**255, "a string of 256 characters; it may have 1 to 255"),
    ],
)
async def test_a_key_that_the_server_would_refuse_in_plain_is_refused_before_anything_is_sent(
    server: Served, customer: object, why: str
) -> None:
    async with Client(server.url, server.token, codec=CODEC) as keyed:
        with pytest.raises(InvalidArguments, match=f"limits: the key /who/customer points to {why}"):
            await keyed.submit(of(customer))


async def test_encrypted_tasks_with_steps_keep_their_limits(server: Served, working: Any) -> None:
    """A key that the submitter gives is plain, and is counted; each step is called once though its run fails."""
    inside, most, called = Counter[str](), Counter[str](), Counter[str]()

    async def call(customer: str) -> str:
        called[customer] += 1
        inside[customer[0]] += 1
        most[customer[0]] = max(most[customer[0]], inside[customer[0]])
        for _ in range(20):
            await asyncio.sleep(0)
        inside[customer[0]] -= 1
        return customer.upper()

    @task(encrypted=True, max_retries=1, retry_base=0.0)
    async def inquire(ctx: Context, customer: str) -> str:
        said = await ctx.step("call", call, customer)
        if ctx.run_id == 0:
            raise KeyError("again")
        return said

    async with Client(server.url, server.token, codec=CODEC) as keyed:
        await keyed.set_limit("api", concurrency=1)
        handles = [
            await inquire.submit(customer=name, options=Options(limits=[Limit("api", key=name[0])]))
            for name in ("a1", "a2", "a3", "b1")
        ]
        async with working(inquire, codec=CODEC, concurrency=4):
            results = [await one.result(timeout=60) for one in handles]

    assert results == ["A1", "A2", "A3", "B1"]
    assert most == {"a": 1, "b": 1}
    assert called == {"a1": 1, "a2": 1, "a3": 1, "b1": 1}
