"""A program that uses a blocking client, forks, and uses it in both processes."""

import os
import sys

from treadle import SyncClient, errors, task


@task
def double(n: int) -> int:
    return 2 * n


client = SyncClient(*sys.argv[1:]).open()
first = double.submit_sync(1)
child = os.fork()
if child == 0:
    try:
        double.submit_sync(2)
    except errors.NoClient as error:
        print("refused" if "which this one was forked from: open it here too" in str(error) else error, flush=True)
    client.open()
    assert double.submit_sync(2).status() == "pending"
    assert first.status() == "pending"
    print("child", flush=True)
    client.close()
    sys.stdout.flush()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert double.submit_sync(3).status() == "pending"
client.close()
print("parent")
