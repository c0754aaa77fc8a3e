"""Chains and groups: flows of the two most usual shapes, written without a `Flow`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, overload

from treadle.client.bound import Bound
from treadle.client.handle import TaskHandle
from treadle.errors import InvalidArguments
from treadle.tasks.definition import Configured, Task
from treadle.tasks.flows import Flow, Part
from treadle.values import brief

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.client.sync import SyncClient, SyncHandle

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
T_contra = TypeVar("T_contra", contravariant=True)


class _Takes(Protocol[T_contra, R_co]):
    def __call__(self, taken: T_contra, /) -> Bound[R_co]: ...


class Stage(Protocol[T_contra, R_co]):
    """A task, with or without options, that can be called with one argument: the result of the one before it."""

    @property
    def bind(self) -> _Takes[T_contra, R_co]:
        """Binds its argument."""


class Group(Generic[R_co]):
    """Tasks side by side, whose results are a list; submit it, begin a chain with it, or add it to a flow."""

    def __init__(self, members: "Sequence[Bound[R_co] | Chain[R_co]]") -> None:
        self.members = members

    def into(self, flow: Flow) -> list[R_co]:
        """Add its tasks to a flow and return their nodes."""
        return [flow.add(member) for member in self.members]

    async def submit(self, client: "Client | None" = None) -> list[TaskHandle[R_co]]:
        """Submit its tasks as one flow and return their handles; raises as `Flow.submit` does."""
        flow = Flow()
        nodes = self.into(flow)
        await flow.submit(client)
        return [flow.handle(node) for node in nodes]

    def submit_sync(self, client: "SyncClient | Client | None" = None) -> "list[SyncHandle[R_co]]":
        """Submit like `submit`, but block."""
        from treadle.client.sync import SyncHandle

        flow = Flow()
        nodes = self.into(flow)
        flow.submit_sync(client)
        return [SyncHandle(flow.handle(node)) for node in nodes]


class Chain(Generic[R_co]):
    """Tasks each of which takes the result of the one before; submit it, or add it to a flow."""

    def __init__(self, first: "_First[Any]", then: "Sequence[Task[Any, Any] | Configured[Any, Any]]") -> None:
        self.first = first
        self.then = then

    def into(self, flow: Flow) -> R_co:
        """Add its tasks to a flow and return the last one's node."""
        node: Any = flow.add(self.first)
        for task in self.then:
            node = flow.add(task, node)
        return node  # type: ignore[no-any-return]  # it stands for the result

    async def submit(self, client: "Client | None" = None) -> TaskHandle[R_co]:
        """Submit its tasks as one flow and return the last one's handle; raises as `Flow.submit` does."""
        flow = Flow()
        node = self.into(flow)
        await flow.submit(client)
        return flow.handle(node)

    def submit_sync(self, client: "SyncClient | Client | None" = None) -> "SyncHandle[R_co]":
        """Submit like `submit`, but block."""
        from treadle.client.sync import SyncHandle

        flow = Flow()
        node = self.into(flow)
        flow.submit_sync(client)
        return SyncHandle(flow.handle(node))


_First: TypeAlias = "Bound[R] | Chain[R]"


def group(*members: "Bound[R] | Chain[R]") -> Group[R]:
    """Return tasks side by side, each `task.bind(…)` or a chain: `group(*[fetch.bind(url=url) for url in urls])`.

    Raises `InvalidArguments` without any, and for anything else.
    """
    if not members:
        raise InvalidArguments("a group needs at least one task")
    for member in members:
        _check_first(member, "a group is of", Chain)
    return Group(members)


@overload
def chain(first: "Bound[A] | Part[A]", second: Stage[A, B], /) -> Chain[B]: ...
@overload
def chain(first: "Bound[A] | Part[A]", second: Stage[A, B], third: Stage[B, C], /) -> Chain[C]: ...
@overload
def chain(first: "Bound[A] | Part[A]", second: Stage[A, B], third: Stage[B, C], fourth: Stage[C, D], /) -> Chain[D]: ...
@overload
def chain(
    first: "Bound[A] | Part[A]", second: Stage[A, B], third: Stage[B, C], fourth: Stage[C, D], fifth: Stage[D, E], /
) -> Chain[E]: ...
@overload
def chain(
    first: "Bound[A] | Part[A]", second: Stage[A, B], third: Stage[B, C], fourth: Stage[C, D], fifth: Stage[D, E],
    sixth: Stage[E, Any], /, *then: Stage[Any, Any],
) -> Chain[Any]: ...  # fmt: skip
def chain(first: Any, /, *then: Any) -> Chain[Any]:
    """Return tasks each of which takes the result of the one before as its first argument.

    The first is `task.bind(…)`, a chain, or a group, whose results are a list; the others are tasks, or
    `task.with_options(…)`: `chain(fetch.bind(url=url), clean, count)`. Raises `InvalidArguments` for anything else.
    """
    _check_first(first, "a chain begins with", Chain, Group)
    for one in then:
        if not isinstance(one, Task | Configured):
            raise InvalidArguments(f"a chain continues with tasks, or task.with_options(…), not {brief(one)}")
    return Chain(first, then)


def _check_first(first: object, what: str, *kinds: type) -> None:
    if not isinstance(first, (Bound, *kinds)):
        wanted = "task.bind(…), a chain or a group" if Group in kinds else "task.bind(…) or a chain"
        several = (
            "" if isinstance(first, str) or not isinstance(first, Iterable) else "; write * before several of them"
        )
        raise InvalidArguments(f"{what} {wanted}, not {brief(first)}{several}")
