"""Commands are applied to a unit of work: what they need is read, each changes it in its turn, and that is written."""

from collections.abc import Sequence

from treadle_server.engine.commands.instances import go_on
from treadle_server.engine.pending import Pending
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.reading import read
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.engine.writing import write
from treadle_server.store.transaction.heads import lanes_of_job


async def apply(work: UnitOfWork, reads: ReadSet, commands: Sequence[Pending]) -> None:
    """Apply the commands, which have declared what they `reads`; note of each its outcome, or why it is refused."""
    await read(work, reads)
    for pending in commands:
        try:
            pending.outcome = pending.command.apply(work)
        except Exception as error:  # noqa: BLE001 - told to the one who asked
            pending.refusal = error
    if work.schedules:
        go_on(work)
    await write(work)
    for job_num in work.wake_jobs:
        work.woken |= await lanes_of_job(work.tx, job_num)
