"""F2: flows as programs write them: nodes as arguments, chains and groups, on a real server with a real worker."""

import asyncio
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle import Client, Context, Flow, Options, SyncClient, TaskCancelled, TaskFailed, chain, group, task
from treadle.encryption import FernetCodec, new_key
from treadle.errors import FlowNotFound, InvalidArguments
from treadle.tasks import flows
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


@task(max_retries=0)
async def says(text: str) -> str:
    if not text:
        raise ValueError("nothing to say")
    return text


@task(max_retries=0)
def joined(parts: list[str], between: str = "+") -> str:
    return between.join(parts)


@task(max_retries=0)
async def size(text: str) -> int:
    return len(text)


@task(max_retries=0)
async def looks(ctx: Context, n: int = 0) -> Any:
    return {**ctx.results, "n": n}


@task(max_retries=0, encrypted=True)
async def whispers(text: str, more: str = "") -> str:
    return text + more


ALL = (says, joined, size, looks)


async def test_f2_nodes_are_arguments_and_lists_of_them_too(client: Client, either: Any) -> None:
    flow = Flow("report")
    words = [flow.add(says, text=text) for text in ("a", "bc")]
    whole = flow.add(joined, words, between="-")
    length = flow.add(size.with_options(Options(priority=3)), whole)

    await flow.submit()

    shown = await flow.get()
    assert (shown.name, shown.total, shown.counts) == ("report", 4, {"pending": 2, "blocked": 2})
    assert [(edge.needs_id, edge.names) for edge in shown.edges if edge.task_id == flow.id_of(length)] == [
        (flow.id_of(whole), ["text"])
    ]
    assert [item.id async for item in client.list(f"flow:{flow.id}")] == [
        flow.id_of(node) for node in (length, whole, *reversed(words))
    ]
    async with either(*ALL):
        assert await flow.result(length, timeout=30) == 4
        assert await flow.result(whole) == "a-bc"
    assert (await flow.handle(length).get()).priority == 3


async def test_f2_nodes_are_gone_through_as_they_end_and_tell_how(client: Client, working: Any) -> None:
    flow = Flow()
    bad = flow.add(says, "")
    after = flow.add(size, bad)
    good = flow.add(says, "x")
    await flow.submit()

    async with working(*ALL):
        ended = [node async for node in flow.completed()]

    assert {*ended} == {bad, after, good}
    assert len(ended) == 3
    with pytest.raises(TaskFailed, match="nothing to say"):
        await flow.result(bad)
    with pytest.raises(TaskCancelled, match="which is failed"):
        await flow.result(after)
    assert await flow.result(good) == "x"


async def test_f2_what_failed_runs_again_and_what_waits_for_it_is_put_back(client: Client, working: Any) -> None:
    flow = Flow()
    first = flow.add(says, "")
    then = flow.add(size, first)
    await flow.submit()
    async with working(*ALL):
        with pytest.raises(TaskCancelled):
            await flow.result(then, timeout=30)

    assert (await flow.rerun_failed()).changed == 2
    assert (await flow.handle(then).get()).status == "blocked"
    assert (await flow.pause()).changed == 2
    assert (await flow.resume()).changed == 2
    await flow.handle(first).edit(payload={"text": "abc"})

    async with working(*ALL):
        assert await flow.result(then, timeout=30) == 3


async def test_f2_a_cancelled_flow_is_over(client: Client) -> None:
    flow = Flow()
    flow.add(size, flow.add(says, "a"))
    await flow.submit()

    assert (await flow.cancel()).changed == 2

    assert (await flow.get()).progress == 1


async def test_f2_a_flow_grows_after_it_was_submitted_and_goes_in_by_portions(
    client: Client, working: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "MOST_OF_REQUEST", 2)
    flow = Flow()
    parts = [flow.add(says.with_options(Options(unique_key=key)), text=key) for key in ("a", "b", "a")]
    whole = flow.add(joined, parts)

    await flow.submit()
    last = flow.add(size, whole)
    other = Flow()
    far = other.add(size, whole)
    await flow.submit()
    await other.submit()

    assert flow.id_of(parts[2]) == flow.id_of(parts[0])
    async with working(*ALL):
        assert await flow.result(last, timeout=30) == len("a+b+a")
        assert await other.result(far, timeout=30) == len("a+b+a")


class Taker:
    """A client that takes whatever is submitted, and notes how many tasks came in each request."""

    room = "lab"

    def __init__(self) -> None:
        self.requests: list[int] = []

    async def submit_many(self, bounds: list[Any], *, room: str) -> list[Any]:
        self.requests.append(len(bounds))
        return [SimpleNamespace(id=bound.options.id) for bound in bounds]


async def test_f2_a_request_names_no_more_dependencies_than_one_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MOST_DEPENDENCIES", 5)
    flow, taker = Flow(), Taker()
    parts = [flow.add(says, text=key) for key in ("a", "b", "c")]
    for _ in range(3):
        flow.add(joined, parts)
    flow.add(looks.with_options(Options(depends_on={"x": [flow.id_of(part) for part in parts], "y": "z"})))

    await flow.submit(cast("Client", taker))

    assert taker.requests == [4, 1, 1, 1]


async def test_f2_a_chain_hands_on_and_a_group_is_a_list(client: Client, working: Any) -> None:
    both = group(says.bind("a"), chain(says.bind("bc"), says))

    last = await chain(both, joined, size).submit()
    beside = await both.submit()

    async with working(*ALL):
        assert await last.result(timeout=30) == 4
        assert [await handle.result(timeout=30) for handle in beside] == ["a", "bc"]


async def test_f2_an_option_names_what_is_no_argument(client: Client, working: Any) -> None:
    flow = Flow()
    number = flow.add(size, "abc")
    page = flow.add(says.bind("a"))
    waits = Options(depends_on={"page": flow.id_of(page)})
    seen = flow.add(looks.with_options(waits), n=number)
    await flow.submit()

    async with working(*ALL):
        assert await flow.result(seen, timeout=30) == {"page": "a", "n": 3}


async def test_f2_a_blocking_program_has_flows_too(server: Served, working: Any) -> None:
    def use() -> Any:
        with SyncClient(server.url, server.token) as client:
            flow = Flow("blocking")
            length = flow.add(size, flow.add(says, "abc"))
            flow.submit_sync()
            ended = list(flow.completed_sync())
            last = chain(says.bind("de"), size).submit_sync()
            beside = group(size.bind("f")).submit_sync()
            shown = client.flow(flow.id)
            names = [item.name for item in client.flows(limit=1)]
            return (
                length in ended,
                flow.result_sync(length),
                last.result(timeout=30),
                [one.result(timeout=30) for one in beside],
                shown.counts,
                "blocking" in names,
            )

    async with working(*ALL):
        assert await asyncio.to_thread(use) == (True, 3, 2, [1], {"completed": 2}, True)


async def test_f2_a_flow_is_submitted_by_the_blocking_client_that_is_given(server: Served) -> None:
    def use() -> list[Any]:
        with SyncClient(server.url, server.token, default=False) as client:
            flow = Flow()
            node = flow.add(says, "abc")
            flow.submit_sync(client)
            last = chain(says.bind("de"), size).submit_sync(client)
            [beside] = group(size.bind("f")).submit_sync(client)
            return [client.get(one).job_name for one in (flow.id_of(node), last.id, beside.id)]

    assert await asyncio.to_thread(use) == [says.full_name, size.full_name, size.full_name]


MIXED: Any = ["a"]


@task
async def untyped(takes: Any) -> None: ...


WRONG: dict[str, Callable[[Flow, Any], object]] = {
    "parts mixes tasks of the flow with values": lambda flow, node: flow.add(joined, [node, *MIXED]),
    "has no argument txt; it has text": lambda flow, node: cast("Any", flow).add(size, txt=node),
    "text: Field required": lambda flow, _: cast("Any", flow).add(size),
    "takes 1 arguments, but 2 were given": lambda flow, node: flow.add(size, *[*MIXED, node]),
    "between: Input should be a valid string": lambda flow, node: flow.add(joined, node, between=cast("Any", 3)),
    "already has its arguments": lambda flow, node: cast("Any", flow).add(size.bind("a"), node),
    "text has a task of a flow in it": lambda flow, node: flow.add(size.bind(node)),
    "write flow.add(joined, parts=…) instead of bind": lambda _, node: joined.bind([node]),
    "or a list of such tasks, as the whole of": lambda flow, node: flow.add(joined, cast("Any", [[node]])),
    "takes has a task of a flow in it": lambda flow, node: flow.add(untyped, {"a": {"b": (node,)}}),
    "is not a task: write flow.add(task, argument=…)": lambda flow, _: cast("Any", flow).add(size.function, "a"),
    "belongs to another flow, which has not been submitted yet": lambda _, node: Flow().add(size, node),
    "has not been submitted yet: await flow.submit": lambda flow, node: flow.handle(node),
    "is not a node of": lambda flow, _: flow.id_of("a"),
    "a name in depends_on": lambda flow, node: flow.add(looks.with_options(Options(depends_on={"n": "x"})), n=node),
    "flow_name: write at most 255 characters, not 'xxx": lambda _, __: Flow("x" * 256),
    "a group needs at least one task": lambda _, __: group(),
    "a group is of task.bind": lambda _, __: group(cast("Any", size)),
    "a chain begins with task.bind": lambda _, __: chain(cast("Any", size), size),
    "a chain continues with tasks": lambda _, __: chain(size.bind("a"), cast("Any", size.bind("a"))),
}


@pytest.mark.parametrize("why", WRONG)
def test_f2_what_is_no_flow_is_refused_where_it_stands(why: str) -> None:
    flow = Flow()

    with pytest.raises(InvalidArguments, match=re.escape(why)):
        WRONG[why](flow, flow.add(says, "a"))

    assert repr(flow).endswith("of 1 task>")


async def test_f2_encrypted_tasks_hand_on_what_the_server_does_not_read(server: Served, working: Any) -> None:
    codec = FernetCodec(new_key())
    flow = Flow()
    first = flow.add(whispers, "a")
    last = flow.add(joined, [flow.add(whispers, first, more="b"), first])

    async with Client(server.url, server.token, codec=codec) as client:
        await flow.submit()
        async with working(whispers, joined, codec=codec):
            assert await flow.result(last, timeout=30) == "ab+a"
        assert (await client.handle(flow.id_of(first)).get()).encrypted


async def test_f2_a_flow_is_shown_with_its_errors_as_plain_as_its_tasks(server: Served, working: Any) -> None:
    @task(max_retries=0, encrypted=True)
    async def fails(text: str) -> str:
        raise ValueError(text)

    codec = FernetCodec(new_key())
    flow = Flow()
    node = flow.add(fails, "a secret")
    async with Client(server.url, server.token, codec=codec):
        await flow.submit()
        async with working(fails, codec=codec):
            await flow.handle(node).wait(timeout=30)
        [opened] = (await flow.get()).tasks
    async with Client(server.url, server.token) as keyless:
        [sealed] = (await keyless.flow(flow.id)).tasks

    assert opened.error == "ValueError: a secret"
    assert "secret" not in (sealed.error or "")


async def test_f2_what_no_key_opens_is_no_result_and_who_only_waits_for_its_end_runs(
    server: Served, working: Any
) -> None:
    codec = FernetCodec(new_key())
    flow = Flow()
    secret = flow.add(whispers, "a")
    after = flow.add(says.with_options(Options(depends_on={"x": flow.id_of(secret)})), text="done")
    taken, looked = flow.add(size, secret), flow.add(looks.with_options(Options(depends_on={"x": flow.id_of(secret)})))

    async with Client(server.url, server.token, codec=codec) as client:
        await flow.submit()
        async with working(whispers, codec=codec):
            assert await flow.result(secret, timeout=30) == "a"
        async with working(says, size, looks):
            assert await flow.result(after, timeout=30) == "done"
            for node in (taken, looked):
                with pytest.raises(TaskFailed, match="is encrypted, and none of the keys here can decrypt it"):
                    await flow.result(node, timeout=30)
        assert (await client.handle(flow.id_of(taken)).get()).reason == "error"


async def test_f2_a_flow_that_is_not_there(client: Client) -> None:
    flow = Flow()
    with pytest.raises(InvalidArguments, match="has not been submitted yet"):
        await flow.get()
    await flow.submit(client)

    with pytest.raises(FlowNotFound):
        await flow.get()
    with pytest.raises(FlowNotFound):
        await client.cancel_flow("no-such")


def test_f2_an_argument_that_holds_itself_is_refused_as_it_is_without_a_flow() -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(InvalidArguments, match="untyped can't be called like this: takes"):
        untyped.bind(circle)
