"""What the worker tells the lease killer of a child."""

import os
import struct
from math import inf

from treadle.isolation.lease_killer import LeaseKiller


def test_what_put_off_the_end_of_one_run_does_nothing_to_the_next_g5() -> None:
    """A thread may be about to put it off while the child is given to another run."""
    killer = LeaseKiller()
    put_off = killer.arm(1.0)
    put_off(2.0)
    killer.disarm()
    put_off(3.0)
    killer.arm(4.0)

    put_off(5.0)

    told = [moment for (moment,) in struct.iter_unpack("=d", os.read(killer.reader, 4096))]
    killer.close()
    killer.handed_over()
    assert told == [1.0, 2.0, inf, 4.0]
