"""What a batch knows and changes of the dependencies between tasks, and of flows."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter

from treadle.wire.ids import TaskId
from treadle_server.domain.flows import Flow
from treadle_server.domain.tasks import Task
from treadle_server.store.transaction.dependencies import Edge, EdgeStatus, Ended, Needed, Waiter


@dataclass(slots=True)
class Dependencies:
    """Edges between tasks: those that were read, and their changes to be written."""

    needed: dict[TaskId, Needed] = field(default_factory=dict)
    """Tasks that new ones are to wait for, as they were when the batch began."""
    read_edges: dict[int, list[EdgeStatus]] = field(default_factory=dict)
    """The dependencies of tasks that are to run again, by the task's number."""
    flows: dict[str, Flow] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    """Tasks whose waiters are still to be notified of their status."""
    waiters: dict[int, list[Waiter]] = field(default_factory=dict)
    """Some of their waiters, by the number of the task that they wait for."""
    most_waiters: int = 0
    """How many waiters of each task were read at most."""
    free: set[int] = field(default_factory=set)
    """The waiters that no other server has locked, by number."""
    by_seq: dict[int, Task] = field(default_factory=dict)
    """The tasks among them that may still wait, by number."""

    new_edges: list[Edge] = field(default_factory=list)
    others: dict[int, Task | Needed] = field(default_factory=dict)
    """The tasks that new ones wait for, by number."""
    met: dict[tuple[int, int], bool] = field(default_factory=dict)
    """Changed edges and whether they are met, by the numbers of the task and of its dependency."""
    new_flows: list[Flow] = field(default_factory=list)
    watched: dict[int, TaskId] = field(default_factory=dict)
    """Open tasks that new ones wait for and whose rows were only read in part."""
    over: set[int] = field(default_factory=set)
    """Ended tasks that new ones wait for and whose rows were only read in part."""
    told: dict[int, int] = field(default_factory=dict)
    """How far the waiters were notified, by the number of the task that they wait for."""
    lanes: set[int] = field(default_factory=set)
    """Lanes of watched tasks, whose remembered copies don't show that they are watched."""

    def edges_of(self, seq: int) -> list[EdgeStatus]:
        """Return the dependencies of a task that is to run again, or whose policy for their failure has changed.

        Those of a task that this batch has added come from the batch's new edges.
        """
        if (known := self.read_edges.get(seq)) is None:
            # Tasks are added in ascending order of their numbers, each with all of its edges.
            edges, of_task = self.new_edges, attrgetter("task_seq")
            own = edges[bisect_left(edges, seq, key=of_task) : bisect_right(edges, seq, key=of_task)]
            new = [(edge.met, self.others[edge.needs_seq]) for edge in own]
            known = [EdgeStatus(other.seq, other.id, other.status, met) for met, other in new]
        return known

    def add_flow(self, flow: Flow) -> None:
        """Add a new flow."""
        self.flows[flow.id] = flow
        self.new_flows.append(flow)
