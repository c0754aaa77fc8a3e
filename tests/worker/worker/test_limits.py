"""`@task(limits=…)`: registered with the job, kept over all workers, and compared with what is there."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.waiting import until
from treadle import Client, Limit, Options, errors, task

pytestmark = pytest.mark.anyio

Working = Callable[..., Any]

LIVE: set[str] = set()
MOST: list[int] = []


@task(limits=[Limit("openai", key="/customer", concurrency=2, rate=(1000, 1))])
async def ask(customer: str, n: int) -> int:
    LIVE.add(f"{customer}{n}")
    MOST.append(sum(one.startswith(customer) for one in LIVE))
    await asyncio.sleep(0)
    LIVE.discard(f"{customer}{n}")
    return n


async def test_a_tasks_limits_are_made_and_kept_over_two_workers(client: Client, working: Working) -> None:
    handles = await client.submit_many([ask.bind("ab"[n % 2], n) for n in range(12)])

    async with working(ask, concurrency=6), working(ask, concurrency=6):
        assert [await handle.result(timeout=60) for handle in handles] == list(range(12))

    limit = await client.limit("openai")
    assert (limit.concurrency, limit.rate and limit.rate.count, limit.used, limit.waiting) == (2, 1000, 0, 0)
    assert max(MOST) <= 2


async def test_a_worker_warns_of_a_limit_that_allows_something_else_and_leaves_it(
    client: Client, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    await client.set_limit("openai", concurrency=7, on_full="reject")
    handle = await ask.submit("c", 1)

    with caplog.at_level(logging.WARNING, "treadle.worker"):
        async with working(ask):
            assert await handle.result(timeout=60) == 1
            await until(lambda: caplog.records, pause=0)

    assert (await client.limit("openai")).concurrency == 7
    [said] = [record.getMessage() for record in caplog.records if "openai" in record.getMessage()]
    assert said == (
        "the limit openai of @global allows 7 at once, but @global:tasks:ask declares 2 at once and"
        " 1000 in 1 s, 1000 together: the first applies; `treadle limits set` changes it"
    )


@task(limits=[Limit("plain", concurrency=2), Limit("patient", concurrency=2, on_full="wait")])
async def hold_on() -> None: ...


async def test_a_worker_warns_of_what_a_full_limit_does_only_where_its_code_says_something_of_it(
    client: Client, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    await client.set_limit("plain", concurrency=2, on_full="newest")
    await client.set_limit("patient", concurrency=2, on_full="newest")

    with caplog.at_level(logging.WARNING, "treadle.worker"):
        async with working(hold_on):
            await until(lambda: "patient" in caplog.text, pause=0)

    [said] = [record.getMessage() for record in caplog.records if "the limit" in record.getMessage()]
    assert said == (
        "the limit patient of @global allows 2 at once and on_full: newest, but @global:tasks:hold_on declares 2 at"
        " once and on_full: wait: the first applies; `treadle limits set` changes it"
    )


@task(limits=[Limit("monthly", rate=(1, 2_592_000))])
async def bill() -> None: ...


async def test_a_worker_warns_of_a_rate_that_is_another_by_a_second(
    client: Client, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    await client.set_limit("monthly", rate=(1, 2_592_001))

    with caplog.at_level(logging.WARNING, "treadle.worker"):
        async with working(bill):
            await until(lambda: caplog.records, pause=0)

    assert (
        "allows 1 in 2592001 s, 1 together, but @global:tasks:bill declares 1 in 2592000 s, 1 together" in caplog.text
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "nul\0", "\ud800"])
async def test_what_no_limit_is_called_is_refused_before_anything_is_sent(client: Client, name: str) -> None:
    with pytest.raises(errors.InvalidArguments, match="a limit's name has 1 to 255 characters"):
        await client.set_limit(name, concurrency=1)


async def test_a_submit_names_limits_and_does_not_set_them(client: Client) -> None:
    await client.set_limit("gpu", concurrency=1)

    handle = await ask.submit("c", 1, options=Options(limits=[Limit("gpu", key="a")]))

    told = (await client.get(handle.id)).counts_against or ()
    assert {(one.name, one.key, one.weight) for one in told} == {("openai", "c", 1), ("gpu", "a", 1)}
    with pytest.raises(errors.InvalidArguments, match="can only name 'gpu', not set it"):
        Options(limits=[Limit("gpu", concurrency=1)])


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("openai", "is not a list of Limit"),
        ([{"name": "openai"}], "is not a list of Limit"),
        ([Limit(str(n)) for n in range(5)], "at most 4"),
    ],
)
def test_limits_that_can_not_be_are_refused_where_they_are_written(limits, said) -> None:
    with pytest.raises(errors.DefinitionError, match=said):

        @task("refused", limits=limits)
        def refused() -> None: ...


def test_a_rate_that_is_none_is_refused_where_it_is_written() -> None:
    with pytest.raises(errors.InvalidArguments, match="is not a pair"):
        Limit("a", rate=5)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArguments, match="give rate"):
        Limit("a", concurrency=1, burst=3)
    with pytest.raises(errors.InvalidArguments, match="give concurrency or rate"):
        Limit("a", on_full="reject")


@task(limits=[Limit("scarce", concurrency=2, on_full="reject")])
async def take() -> None: ...


async def test_a_submit_into_a_full_limit_that_rejects_raises_limit_full_and_a_bulk_puts_nothing_in(
    client: Client,
) -> None:
    await take.submit()

    with pytest.raises(errors.LimitFull, match="'scarce' of room @global is full"):
        await client.submit_many([take.bind(), take.bind()])
    await take.submit()
    with pytest.raises(errors.LimitFull, match="concurrency is 2"):
        await take.submit()

    assert (await client.limit("scarce")).waiting == 2
