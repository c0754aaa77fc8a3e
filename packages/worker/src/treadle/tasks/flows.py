"""Flows: tasks that take each other's results as arguments, put together before any of them is submitted."""

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
    """Something that is added to a flow as a whole and has one result: a chain, or a group."""

    def into(self, flow: "Flow") -> R_co:
        """Add its tasks to a flow, and return what stands for its result there."""


class Node(StandIn):
    """A task of a flow, submitted or not. To a type checker it is the result of the task."""

    __slots__ = ("bound", "flow", "handle", "id", "needs")

    def __init__(self, flow: "Flow", bound: Bound[Any], needs: "Mapping[str, Node | list[Node]]") -> None:
        self.flow = flow
        self.bound = bound
        self.needs = needs
        """The tasks that it waits for, by name."""
        self.id: TaskId = TaskId((bound.options.id if bound.options else None) or new_task_id())
        """The task's id. If an open task has the same unique key, it becomes the id of that task on submit."""
        self.handle: TaskHandle[Any] | None = None

    def __repr__(self) -> str:
        return f"<Node {self.bound.task.full_name} {self.id}>"

    @property
    def waits(self) -> int:
        """How many dependencies its submit has."""
        options = self.bound.options
        named = (*self.needs.values(), *((options and options.depends_on) or {}).values())
        return sum(len(said) if isinstance(said, list) else 1 for said in named)

    def complete(self) -> Bound[Any]:
        """Return the task to submit, with the ids of the tasks that it waits for."""
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
    """Tasks that wait for each other: nodes made by `add`, submitted together, and looked at and steered as one.

    If an argument of a task is another node, or a list of nodes, the task waits for them and gets their results as that
    argument. To a type checker a node is the result that it stands for, so that it can check the argument. `name` is
    what people see. Raises `InvalidArguments` for an invalid name.
    """

    def __init__(self, name: str | None = None) -> None:
        self.id: str = new_id()
        """The flow's id, here and on the server."""
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
        """Add a task with its arguments and return its node; or add a chain or a group and return its node or nodes.

        Options go with the task: `flow.add(merge.with_options(Options(priority=5)), parts=pages)`. Nothing is sent
        before `submit`. Raises `InvalidArguments`, also for a list that mixes nodes and values.
        """
        if isinstance(task, Task | Configured):
            return self._add(task, args, kwargs)
        if not (isinstance(task, Bound) or hasattr(task, "into")):
            raise InvalidArguments(
                f"{brief(task)} is not a task: write flow.add(task, argument=…) with a function that has @task and was"
                " not called, or add task.bind(…), a chain or a group"
            )
        if args or kwargs:
            raise InvalidArguments(f"{task!r} already has its arguments")
        return self._put(task, {}) if isinstance(task, Bound) else task.into(self)

    async def submit(self, client: "Client | None" = None) -> None:
        """Submit all added tasks that have not been submitted yet, in one request, all or none.

        A flow of more than 10,000 tasks, or 100,000 dependencies, takes several requests, each all or none; submitted
        again after an error, it goes on where it stopped. `client` is by default the `current_client`. Raises as
        `Client.submit_many` does.
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
        """Submit like `submit`, but block. Raises as `submit` does, and `WouldBlock`."""
        from treadle.client.sync import SyncClient

        client = (client.client if isinstance(client, SyncClient) else client) or self._client or current_client()
        block(client, self.submit(client))

    def handle(self, node: R) -> TaskHandle[R]:
        """Return the handle of a node's task; raises `InvalidArguments` if it has not been submitted."""
        own = self._own(node)
        if own.handle is None:
            raise InvalidArguments(f"{own!r} has not been submitted yet: await flow.submit() first")
        return own.handle

    def id_of(self, node: object) -> TaskId:
        """Return the id of a node's task; raises `InvalidArguments` for anything that is not a node of this flow."""
        return self._own(node).id

    async def result(self, node: R, timeout: float | timedelta | None = None) -> R:  # noqa: ASYNC109 - as TaskHandle
        """Wait up to `timeout` (None: for ever) for a node's task to end and return its result.

        Raises as `TaskHandle.result` does, and `InvalidArguments` if it has not been submitted.
        """
        return await self.handle(node).result(timeout)

    def result_sync(self, node: R, timeout: float | timedelta | None = None) -> R:
        """Wait like `result`, but block. Raises as `result` does, and `WouldBlock`."""
        handle = self.handle(node)
        return block(handle.client, handle.result(timeout))

    async def completed(self) -> AsyncIterator[Any]:
        """Yield the nodes in the order in which their tasks end, whatever the outcome; `result` returns or raises it.

        Tasks that have ended already come first, in any order. Raises as `TaskHandle.wait` does, and `InvalidArguments`
        if one has not been submitted.
        """
        nodes = list(self._nodes)
        async with aclosing(as_they_end([self.handle(node) for node in nodes])) as ended:
            async for place in ended:
                yield nodes[place]

    def completed_sync(self) -> Iterator[Any]:
        """Yield like `completed`, but block."""
        yield from each(partial(block, self._submitted()), self.completed())

    async def get(self) -> FlowView:
        """Return the flow as the server has it; raises `FlowNotFound`."""
        return await self._submitted().flow(self.id)

    async def cancel(self) -> BulkResult:
        """Cancel its open tasks; like `Client.cancel_flow`."""
        return await self._submitted().cancel_flow(self.id)

    async def pause(self) -> BulkResult:
        """Pause its waiting and running tasks; like `Client.pause_flow`."""
        return await self._submitted().pause_flow(self.id)

    async def resume(self) -> BulkResult:
        """Let its paused tasks go on; like `Client.resume_flow`."""
        return await self._submitted().resume_flow(self.id)

    async def rerun_failed(self) -> BulkResult:
        """Rerun its failed tasks, and put back those cancelled because of them; like `Client.rerun_failed`."""
        self._forget_endings()
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
            raise InvalidArguments(
                f"{twice[0]} is both an argument and a name in depends_on: choose another name there"
            )
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
            raise InvalidArguments(f"{name} mixes tasks of the flow with values: use only tasks or only values")
        return [self._usable(one) for one in value]

    def _usable(self, node: Node) -> Node:
        if node.flow is not self and node.handle is None:
            raise InvalidArguments(f"{node!r} belongs to another flow, which has not been submitted yet")
        return node

    def _own(self, node: object) -> Node:
        if not isinstance(node, Node) or node.flow is not self:
            raise InvalidArguments(f"{node!r} is not a node of {self!r}: use what flow.add(…) returned")
        return node

    def _submitted(self) -> "Client":
        if self._client is None:
            raise InvalidArguments(f"{self!r} has not been submitted yet: await flow.submit() first")
        return self._client

    def _forget_endings(self) -> None:
        """Replace the handles, so that nothing is remembered of tasks that had ended."""
        for node in self._nodes:
            if node.handle is not None:
                node.handle = TaskHandle(node.handle.client, node.id, returns=node.bound.task.signature.returns)


def _portion(nodes: Sequence[Node]) -> Sequence[Node]:
    """Return the first nodes, as many as fit into one request by their number and by their dependencies."""
    waits = 0
    for i, node in enumerate(nodes):
        waits += node.waits
        if i == MOST_OF_REQUEST or (i and waits > MOST_DEPENDENCIES):
            return nodes[:i]
    return nodes
