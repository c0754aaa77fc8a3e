"""What signals do in a process whose loop heeds them, and in its copies."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from treadle.loops import ended_by, loop_factory


def copy_that_is_told(number: signal.Signals) -> int:
    """Return how a copy of this process ends that gets a signal, as of a `multiprocessing.Pool` that is terminated."""
    begins, begun = os.pipe()
    ends, over = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(over)
        os.write(begun, b".")
        os.read(ends, 1)
        os._exit(0)
    os.read(begins, 1)
    os.kill(pid, number)
    for each in (begins, begun, ends, over):
        os.close(each)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("make", [None, loop_factory()], ids=["asyncio", "uvloop"])
def test_a_copy_of_the_process_is_ended_by_sigterm(make: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
    """It heard nothing, so that a task with a `multiprocessing.Pool` waited for the end of its processes for ever."""
    ends = []

    async def work() -> int:
        with ended_by(lambda: ends.append("the original")):
            return await asyncio.to_thread(copy_that_is_told, signal.SIGTERM)

    with asyncio.Runner(loop_factory=make) as runner:
        told = runner.run(work())

    assert (told, ends) == (-signal.SIGTERM, [])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
