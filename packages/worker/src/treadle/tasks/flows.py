"""A flow: tasks that take each other's results as arguments, put together before any of them is submitted."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from treadle.client.blocking import block, each
from treadle.client.bound import Bound
from treadle.client.completed import as_they_end
from treadle.client.current import current_client
from treadle.client.handle import TaskHandle
from treadle.client.items import common_room
from treadle.client.options import Options
from treadle.errors import InvalidArguments
from treadle.ids import new_id, new_task_id
from treadle.tasks.definition import Configured, Task
from treadle.tasks.signature import StandIn
from treadle.values import brief
from treadle.wire.amounts import counted
from treadle.wire.bulk import BulkResult
from treadle.wire.fields import MOST_OF_REQUEST
from treadle.wire.flows import MOST_DEPENDENCIES, FlowView
from treadle.wire.ids import TaskId

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.client.sync import SyncClient

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Part(Protocol[R_co]):
    """What is put into a flow as one, and gives one result: a chain, or a group."""

    def into(self, flow: "Flow") -> R_co:
        """Put its tasks into a flow, and return what stands for its result there."""


class Node(StandIn):
    """A task of a flow, which was submitted or is to be. A type checker takes it for what the task returns."""

    __slots__ = ("bound", "flow", "handle", "id", "needs")

    def __init__(self, flow: "Flow", bound: Bound[Any], needs: "Mapping[str, Node | list[Node]]") -> None:
        self.flow = flow
        self.bound = bound
        self.needs = needs
        """The tasks that it waits for, by name."""
        self.id: TaskId = TaskId((bound.options.id if bound.options else None) or new_task_id())
        """Its task's id, unless an open task has its unique key: then it is that one, once it was submitted."""
        self.handle: TaskHandle[Any] | None = None

    def __repr__(self) -> str:
        return f"<Node {self.bound.task.full_name} {self.id}>"

    @property
    def waits(self) -> int:
        """How many dependencies its submit names."""
        options = self.bound.options
        named = (*self.needs.values(), *((options and options.depends_on) or {}).values())
        return sum(len(said) if isinstance(said, list) else 1 for said in named)

    def complete(self) -> Bound[Any]:
        """Return what is submitted, with the ids of what it waits for."""
        given = self.bound.options or Options()
        waits: dict[str, str | list[str]] = {
            name: [str(node.id) for node in needs] if isinstance(needs, list) else str(needs.id)
            for name, needs in self.needs.items()
        }
        own = Options(id=self.id, flow_id=self.flow.id, flow_name=self.flow.name)
        if waits:
            own = Options(depends_on={**(given.depends_on or {}), **waits}).over(own)
        return Bound(self.bound.task, self.bound.payload, own.over(given), self.bound.arguments_from)


class Flow:
    """Tasks that wait for each other, made of nodes by `add`, submitted together, looked at and steered as one.

    A node that is an argument of another task, or a list of nodes, makes that one wait, and its argument is what they
    return. So that a type checker sees whether it fits, it takes a node for the result that it stands for. `name` is
    what people see; `InvalidArguments` is raised for one that can't be kept.
    """

    def __init__(self, name: str | None = None) -> None:
        self.id: str = new_id()
        """The flow's id, at the server too."""
        self.name: str | None = Options(flow_name=name).flow_name
        self._nodes: list[Node] = []
        self._client: Client | None = None

    def __repr__(self) -> str:
        return f"<Flow {self.name or self.id} of {counted(len(self._nodes), 'task')}>"

    @overload
    def add(self, task: "Part[R]", /) -> R: ...
    @overload
    def add(self, task: Bound[R], /) -> R: ...
    @overload
    def add(self, task: "Task[P, R] | Configured[P, R]", /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def add(self, task: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Put a task with its arguments into the flow and return its node; or a chain or group, and what it returns.

        Options go with the task: `flow.add(merge.with_options(Options(priority=5)), parts=pages)`. Nothing is sent
        before `submit`. Raises `InvalidArguments`, also for a list that mixes nodes and values.
        """
        if isinstance(task, Task | Configured):
            return self._add(task, args, kwargs)
        if not (isinstance(task, Bound) or hasattr(task, "into")):
            raise InvalidArguments(
                f"{brief(task)} is no task: write flow.add(task, argument=…) with a function that has @task and was not"
                " called, or add task.bind(…), a chain or a group"
            )
        if args or kwargs:
            raise InvalidArguments(f"{task!r} has its arguments already")
        return self._put(task, {}) if isinstance(task, Bound) else task.into(self)

    async def submit(self, client: "Client | None" = None) -> None:
        """Submit what was added and not submitted yet, in one request, all of it or none.

        A flow of more than 10,000 tasks, or 100,000 dependencies, goes in by several requests, each all or none;
        submitted again after an error it goes on where it was. `client` is the `current_client` unless it is given.
        Raises as `Client.submit_many`.
        """
        self._client = client = client or self._client or current_client()
        room = client.room or (common_room([node.bound for node in self._nodes]) if self._nodes else None)
        new = [node for node in self._nodes if node.handle is None]
        while portion := _portion(new):
            new = new[len(portion) :]
            handles = await client.submit_many([node.complete() for node in portion], room=room)
            for node, handle in zip(portion, handles, strict=True):
                node.handle, node.id = handle, handle.id

    def submit_sync(self, client: "SyncClient | Client | None" = None) -> None:
        """Do as `submit`, and block. Raises as `submit`, and `WouldBlock`."""
        from treadle.client.sync import SyncClient

        client = (client.client if isinstance(client, SyncClient) else client) or self._client or current_client()
        block(client, self.submit(client))

    def handle(self, node: R) -> TaskHandle[R]:
        """Return the handle of a node's task; raises `InvalidArguments` when it was not submitted."""
        own = self._own(node)
        if own.handle is None:
            raise InvalidArguments(f"{own!r} was not submitted yet: await flow.submit() first")
        return own.handle

    def id_of(self, node: object) -> TaskId:
        """Return the id of a node's task; raises `InvalidArguments` for what is no node of this flow."""
        return self._own(node).id

    async def result(self, node: R, timeout: float | timedelta | None = None) -> R:  # noqa: ASYNC109 - as TaskHandle
        """Wait up to `timeout` (None: for ever) for a node's end and return its result.

        Raises as `TaskHandle.result`, and `InvalidArguments` when it was not submitted.
        """
        return await self.handle(node).result(timeout)

    def result_sync(self, node: R, timeout: float | timedelta | None = None) -> R:
        """Do as `result`, and block for up to `timeout` (None: for ever). Raises as it, and `WouldBlock`."""
        handle = self.handle(node)
        return block(handle.client, handle.result(timeout))

    async def completed(self) -> AsyncIterator[Any]:
        """Go through the nodes as their tasks end, however they end; `result` gives or raises what each came to.

        Those that have ended already come first, in any order. Raises as `TaskHandle.wait`, and
        `InvalidArguments` when one was not submitted.
        """
        nodes = list(self._nodes)
        async with aclosing(as_they_end([self.handle(node) for node in nodes])) as ended:
            async for place in ended:
                yield nodes[place]

    def completed_sync(self) -> Iterator[Any]:
        """Do as `completed`, and block."""
        yield from each(partial(block, self._submitted()), self.completed())

    async def get(self) -> FlowView:
        """Return the flow as the server has it; raises `FlowNotFound`."""
        return await self._submitted().flow(self.id)

    async def cancel(self) -> BulkResult:
        """Cancel its open tasks; as `Client.cancel_flow`."""
        return await self._submitted().cancel_flow(self.id)

    async def pause(self) -> BulkResult:
        """Pause its tasks that wait or run; as `Client.pause_flow`."""
        return await self._submitted().pause_flow(self.id)

    async def resume(self) -> BulkResult:
        """Let its paused tasks go on; as `Client.resume_flow`."""
        return await self._submitted().resume_flow(self.id)

    async def rerun_failed(self) -> BulkResult:
        """Run its failed tasks again, and put back what was cancelled because of them; as `Client.rerun_failed`."""
        self._wait_anew()
        return await self._submitted().rerun_failed(self.id)

    def _add(
        self, task: "Task[Any, Any] | Configured[Any, Any]", args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        own, options = (task.task, task.options) if isinstance(task, Configured) else (task, None)
        given = own.signature.named(tuple(args), kwargs)
        needs = {name: found for name, value in given.items() if (found := self._nodes_in(name, value)) is not None}
        if unknown := sorted(needs.keys() - set(own.signature.names)):
            raise InvalidArguments(
                f"{own.full_name} has no argument {unknown[0]}; it has {', '.join(own.signature.names)}"
            )
        if twice := sorted(needs.keys() & (options.depends_on if options and options.depends_on else {}).keys()):
            raise InvalidArguments(f"{twice[0]} is an argument, and a name in depends_on too: call that otherwise")
        rest = {name: value for name, value in given.items() if name not in needs}
        payload = own.signature.payload((), rest, without=frozenset(needs))
        return self._put(Bound(own, payload, options, {name: name for name in needs} or None), needs)

    def _put(self, bound: Bound[Any], needs: "Mapping[str, Node | list[Node]]") -> Node:
        node = Node(self, bound, needs)
        self._nodes.append(node)
        return node

    def _nodes_in(self, name: str, value: object) -> "Node | list[Node] | None":
        if isinstance(value, Node):
            return self._usable(value)
        if not isinstance(value, list | tuple) or not any(isinstance(one, Node) for one in value):
            return None
        if not all(isinstance(one, Node) for one in value):
            raise InvalidArguments(
                f"{name} mixes tasks of the flow with values: make it all of the one or of the other"
            )
        return [self._usable(one) for one in value]

    def _usable(self, node: Node) -> Node:
        if node.flow is not self and node.handle is None:
            raise InvalidArguments(f"{node!r} is of another flow, which was not submitted yet")
        return node

    def _own(self, node: object) -> Node:
        if not isinstance(node, Node) or node.flow is not self:
            raise InvalidArguments(f"{node!r} is no node of {self!r}: take what flow.add(…) returned")
        return node

    def _submitted(self) -> "Client":
        if self._client is None:
            raise InvalidArguments(f"{self!r} was not submitted yet: await flow.submit() first")
        return self._client

    def _wait_anew(self) -> None:
        """Forget which tasks are known to have ended."""
        for node in self._nodes:
            if node.handle is not None:
                node.handle = TaskHandle(node.handle.client, node.id, returns=node.bound.task.signature.returns)


def _portion(nodes: Sequence[Node]) -> Sequence[Node]:
    """Return the first of the nodes, as many as go into one request: by number, and by what they wait for."""
    waits = 0
    for i, node in enumerate(nodes):
        waits += node.waits
        if i == MOST_OF_REQUEST or (i and waits > MOST_DEPENDENCIES):
            return nodes[:i]
    return nodes
