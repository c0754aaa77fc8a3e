"""Has a line take one key before the next one is looked at, however fast they come.

Letters are taken where they arrive, in the queue of the line in focus. What edits it is a binding, which Textual looks
for once the key has gone up from there through all that is round the line; letters that were typed behind it are there
before. So a key is followed upwards, and keys behind it wait.
"""

import asyncio
from contextlib import suppress

from textual import events
from textual.dom import DOMNode
from textual.widget import Widget

LONGEST_SECONDS = 1.0
"""How long the keys behind one wait for it: what stands round a line may go while it is on its way."""

TURNS = 2
"""How often a message goes up from the line until all has come of a key that edits no line: a line tells of what was
submitted, and what is round it tells that in its own words.
"""


async def taken(event: events.Key, line: Widget) -> bool:
    """Wait until a key that was sent to the line has gone as far up as it goes, and return whether nobody took it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_SECONDS):
            for node in _up_from(line):
                await _passed(node)
                if event._stop_propagation:  # noqa: SLF001 - nothing public tells
                    return False
    # The app does with it what is to be done; when it comes up to that by itself it is an old one.
    event.stop()
    return True


async def settled(line: Widget) -> None:
    """Wait until what came of a key has been told to all that is round the line."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_SECONDS):
            for _ in range(TURNS):
                for node in _up_from(line):
                    await _passed(node)


def is_old(event: events.Event) -> bool:
    """Return whether it is a key that has come up to the app, and of which all was done before."""
    return isinstance(event, events.Key) and event.is_forwarded and event._stop_propagation  # noqa: SLF001 - as above


def _up_from(line: Widget) -> list[DOMNode]:
    """Return the line and what is round it, from the inside, without the app: that is who waits."""
    return line.ancestors_with_self[:-1]


async def _passed(node: DOMNode) -> None:
    """Wait until the node has taken what it was sent before; one that is closed takes nothing more."""
    passed = asyncio.Event()
    if node.call_later(passed.set):
        await passed.wait()
