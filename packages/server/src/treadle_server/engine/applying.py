"""Commands are applied to a unit of work: what they need is read, each changes it in its turn, and that is written."""

from collections.abc import Sequence

from treadle_server.engine.commands.instances import go_on
from treadle_server.engine.fast_path.reports import Taken
from treadle_server.engine.locking import lock
from treadle_server.engine.pending import Pending
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.reading import read
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.engine.writing import write
from treadle_server.store.transaction.heads import lanes_of_job


async def apply(work: UnitOfWork, reads: ReadSet, taken: Taken, commands: Sequence[Pending]) -> None:
    """Write what was `taken` by the fast path, and apply the commands, which have declared what they `reads`.

    Of each command its outcome is noted, or why it is refused.
    """
    work.is_plain = False
    await lock(work, reads, taken.tasks.values())
    await taken.write()
    await read(work, reads)
    for pending in commands:
        try:
            pending.outcome = pending.command.apply(work)
        except Exception as error:  # noqa: BLE001 - told to the one who asked
            pending.refusal = error
    if work.schedules:
        go_on(work)
    work.due_ahead.follow(work.written, work.dependencies.watched)
    await write(work)
    for job_num in work.wake_jobs:
        work.woken |= await lanes_of_job(work.tx, job_num)
