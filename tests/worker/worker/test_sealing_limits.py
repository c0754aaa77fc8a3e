"""Encrypted tasks have steps and count against limits; no key of a limit is looked for in what is sealed."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from treadle import Client, Context, Limit, Options, task
from treadle.encryption import FernetCodec, new_key
from treadle.errors import DefinitionError, JobNotFound, ValidationFailed
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

CODEC = FernetCodec(new_key())


def test_the_limits_of_an_encrypted_task_have_no_key_in_its_arguments() -> None:
    with pytest.raises(DefinitionError, match="the server reads no arguments of an encrypted task: /customer"):

        @task(encrypted=True, limits=[Limit("api", key="/customer", concurrency=1)])
        async def ask(customer: str) -> None: ...


async def test_an_encrypted_job_whose_limits_point_into_its_payload_is_refused(client: Client) -> None:
    limits = [{"name": "api", "key": "/customer", "concurrency": 1}]
    wanted = {"category": "tasks", "name": "ask", "schema": {}, "encrypted": True, "limits": limits}

    with pytest.raises(ValidationFailed, match="limits: the payload of an encrypted job is not read here"):
        await client.request("PUT", "/v1/rooms/@global/jobs", wanted)
    with pytest.raises(JobNotFound):
        await client.job("@global:tasks:ask")


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
    async def ask(ctx: Context, customer: str) -> str:
        said = await ctx.step("call", call, customer)
        if ctx.run_id == 0:
            raise KeyError("again")
        return said

    async with Client(server.url, server.token, codec=CODEC) as keyed:
        await keyed.set_limit("api", concurrency=1)
        handles = [
            await ask.submit(customer=name, options=Options(limits=[Limit("api", key=name[0])]))
            for name in ("a1", "a2", "a3", "b1")
        ]
        async with working(ask, codec=CODEC, concurrency=4):
            results = [await one.result(timeout=60) for one in handles]

    assert results == ["A1", "A2", "A3", "B1"]
    assert most == {"a": 1, "b": 1}
    assert called == {"a1": 1, "a2": 1, "a3": 1, "b1": 1}
