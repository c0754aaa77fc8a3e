"""What a batch knows and changes of tasks that wait for tasks, and of flows."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter

from treadle.wire.ids import TaskId
from treadle_server.domain.flows import Flow
from treadle_server.domain.tasks import Task
from treadle_server.store.transaction.dependencies import Edge, EdgeStatus, Ended, Needed, Waiter


@dataclass(slots=True)
class Dependencies:
    """Edges between tasks: those that were read, and what is to be written of them."""

    needed: dict[TaskId, Needed] = field(default_factory=dict)
    """Tasks that new ones are to wait for, as they were when the batch began."""
    stands: dict[int, list[EdgeStatus]] = field(default_factory=dict)
    """What tasks wait for that are to run again, by their numbers."""
    flows: dict[str, Flow] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    """Tasks of which others are to be told where they are."""
    waiters: dict[int, list[Waiter]] = field(default_factory=dict)
    """Some of those others, by the number of the task that they wait for."""
    most_waiters: int = 0
    """How many of each were read at most."""
    free: set[int] = field(default_factory=set)
    """Those of the others that no other server is at."""
    by_seq: dict[int, Task] = field(default_factory=dict)
    """Those of these that may wait."""

    new_edges: list[Edge] = field(default_factory=list)
    others: dict[int, Task | Needed] = field(default_factory=dict)
    """What new tasks wait for, by number."""
    met: dict[tuple[int, int], bool] = field(default_factory=dict)
    """Edges that were changed, by (task, what it waits for)."""
    new_flows: list[Flow] = field(default_factory=list)
    watched: dict[int, TaskId] = field(default_factory=dict)
    """Open tasks that new ones wait for, where their rows were not read whole."""
    over: set[int] = field(default_factory=set)
    """Ended ones likewise."""
    told: dict[int, int] = field(default_factory=dict)
    """How far the others were told, by the number of the task that they wait for."""
    lanes: set[int] = field(default_factory=set)
    """Lanes in which what is remembered of a watched task does not say that it is."""

    def stands_of(self, seq: int) -> list[EdgeStatus]:
        """Return what a task waits for that is to run again, or to think otherwise of their failures.

        Of one that this batch has put in nothing was read.
        """
        if (known := self.stands.get(seq)) is None:
            # Tasks are put in by ascending numbers, and each with all of its edges.
            edges, of_task = self.new_edges, attrgetter("task_seq")
            own = edges[bisect_left(edges, seq, key=of_task) : bisect_right(edges, seq, key=of_task)]
            new = [(edge.met, self.others[edge.needs_seq]) for edge in own]
            known = [EdgeStatus(other.seq, other.id, other.status, met) for met, other in new]
        return known

    def add_flow(self, flow: Flow) -> None:
        """Put in a new flow."""
        self.flows[flow.id] = flow
        self.new_flows.append(flow)
