"""Reads and writes the dependencies between tasks that a batch needs; a batch without any asks nothing."""

from treadle_server.domain.dependencies import last_told
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction import dependencies as stored
from treadle_server.store.transaction.rows import insert_objects


async def read_dependencies(work: UnitOfWork, reads: ReadSet) -> None:
    """Read the tasks that new ones need, the needs of tasks that run again, flows, and the waiters of ended tasks."""
    known = work.dependencies
    # A task that another command of the batch has read is an object already, and changes with it.
    known.needed = await stored.tasks_needed(work.tx, reads.needed - work.tasks.keys())
    waiting = [work.tasks[task_id] for task_id in reads.edges_of & work.tasks.keys()]
    known.read_edges = await stored.edges_of(work.tx, {task.seq for task in waiting if task.unmet is not None})
    known.flows = await stored.flows_by_id(work.tx, reads.flows)
    if reads.tellings:
        await _read_waiters(work, reads.tellings)


async def _read_waiters(work: UnitOfWork, most: int) -> None:
    known = work.dependencies
    known.ended = await stored.tasks_to_tell(work.tx, most)
    if not known.ended:
        return
    # Each ended task has its share, so that one with 100,000 waiters doesn't hold up the others.
    known.most_waiters = max(1, most // len(known.ended))
    told = [(ended.seq, last_told(ended.telling, ended.status)) for ended in known.ended]
    found = await stored.waiters_of(work.tx, told, known.most_waiters)
    known.waiters = {ended.seq: [] for ended in known.ended}
    for waiter in found:
        known.waiters[waiter.needs_seq].append(waiter)
    known.free, waiting = await stored.free_waiters(work.tx, {waiter.task_seq for waiter in found})
    known.by_seq = {task.seq: task for task in work.remember(waiting)}


async def write_dependencies(work: UnitOfWork) -> None:
    """Write new flows and edges, which edges are met, and how far the waiters of ended tasks were notified."""
    changed = work.dependencies
    await insert_objects(work.tx, changed.new_flows)
    await stored.insert_edges(work.tx, changed.new_edges)
    await stored.update_edges(work.tx, changed.met)
    await stored.watch(work.tx, changed.watched.keys(), is_open=True)
    await stored.watch(work.tx, changed.over, is_open=False)
    await stored.write_told(work.tx, changed.told)
