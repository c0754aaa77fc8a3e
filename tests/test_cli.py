"""What the server's process does with memory that a batch has freed."""

import subprocess
import sys

_BATCHES = """
import resource, sys
from treadle_server import cli

if sys.argv[1] == "kept":
    cli._keep_freed_memory()

def batch():
    blocks = [bytearray(100_000) for _ in range(100)]  # 10 MB: far more than glibc keeps by itself
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

batch()
before = batch()
for _ in range(10):
    after = batch()
print(after - before)
"""


def test_what_a_batch_frees_is_there_for_the_next() -> None:
    """Pages that the system has to clear anew, of ten batches of 2,400."""
    given_back, kept = (
        int(subprocess.run([sys.executable, "-c", _BATCHES, how], capture_output=True, check=True, text=True).stdout)
        for how in ("given back", "kept")
    )

    assert given_back > 20_000
    assert kept < 1_000
