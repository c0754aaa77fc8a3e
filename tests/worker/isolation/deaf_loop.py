"""A process whose code sets what SIGCHLD does, by which uvloop hears of the end of its child processes."""

import asyncio
import signal
import sys

import uvloop

from treadle.isolation.processes import Child, ChildDied


async def main(does: signal.Handlers) -> None:
    child = await Child.start()
    signal.signal(signal.SIGCHLD, does)
    child.kill()
    try:
        await child.run({}, print)
    except ChildDied as died:
        print(died)
    await child.close()
    print(child.lives)


with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main(signal.Handlers[sys.argv[1]]))
