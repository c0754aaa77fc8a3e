"""Applies commands to a unit of work: reads what they need, lets each change it in turn, and writes the changes."""

from collections.abc import Sequence

from treadle_server.engine.commands.instances import make_next_instances
from treadle_server.engine.fast_path.reports import Taken
from treadle_server.engine.locking import lock
from treadle_server.engine.pending import Pending
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.reading import read
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.engine.writing import write
from treadle_server.store.transaction.heads import lanes_of_job


async def apply(work: UnitOfWork, reads: ReadSet, taken: Taken, commands: Sequence[Pending]) -> None:
    """Write what the fast path has `taken`, and apply the commands, whose needs are declared in `reads`.

    Each command's outcome or refusal is stored in its `Pending`.
    """
    work.is_plain = False
    await lock(work, reads, taken.tasks.values())
    await taken.write()
    await read(work, reads)
    for pending in commands:
        try:
            pending.outcome = pending.command.apply(work)
        except Exception as error:  # noqa: BLE001 - raised to the caller
            pending.refusal = error
    if work.schedules:
        make_next_instances(work)
    work.due_ahead.follow(work.written, work.dependencies.watched)
    await write(work)
    for job_num in work.wake_jobs:
        work.woken |= await lanes_of_job(work.tx, job_num)
