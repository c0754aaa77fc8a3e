"""A program that uses a blocking client, forks, and uses it in both processes."""

import os
import sys

from treadle import SyncClient, SyncHandle, WaitTimeout, errors, task


@task
def double(n: int) -> int:
    return 2 * n


def is_waited_for(handle: SyncHandle[int]) -> bool:
    """Return whether its end is waited for, for a moment."""
    try:
        handle.result(0.01)
    except WaitTimeout:
        return True
    return False


client = SyncClient(*sys.argv[1:]).open()
first = double.submit_sync(1)
assert is_waited_for(first)
child = os.fork()
if child == 0:
    try:
        double.submit_sync(2)
    except errors.NoClient as error:
        print("refused" if "from which this one was forked: open it here too" in str(error) else error, flush=True)
    client.open()
    assert double.submit_sync(2).status() == "pending"
    assert first.status() == "pending"
    assert is_waited_for(first)
    print("child", flush=True)
    client.close()
    sys.stdout.flush()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert double.submit_sync(3).status() == "pending"
client.close()
print("parent")
