"""The tasks that the fairness program runs: one that rooms share, and one of each room."""

from treadle import Task, task

ROOMS = ("crowd", *(f"room-{i}" for i in range(10)))
"""The first is the one that has far more tasks than the others."""


@task(fair="room", max_retries=0)
async def shared(n: int) -> int:
    """Do nothing, in the name of whichever room asks."""
    return n


def _own(room: str) -> Task[[int], int]:
    @task(room=room, name="own", max_retries=0)
    async def own(n: int) -> int:
        return n

    return own


OWN = {room: _own(room) for room in ROOMS}
globals().update({f"own_{i}": own for i, own in enumerate(OWN.values())})  # a worker serves what its module names
