"""Makes an input line handle each key before the next one, however fast they come.

Letters are handled when they arrive at the focused line. Keys that edit it are bindings, which Textual looks up only
after the key has bubbled up through the line's ancestors; letters typed after it would arrive first. So each key is
followed upwards, and the keys behind it wait.
"""

import asyncio
from contextlib import suppress

from textual import events
from textual.dom import DOMNode
from textual.widget import Widget

LONGEST_SECONDS = 1.0
"""How long later keys wait for a key: an ancestor of the line may be removed while the key is on its way."""

TURNS = 2
"""How many times messages bubble up from the line until all effects of a key are done: the line posts that it was
submitted, and its ancestors post messages of their own about that.
"""


async def taken(event: events.Key, line: Widget) -> bool:
    """Wait until a key sent to the line has bubbled up all the way; return whether nothing handled it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_SECONDS):
            for node in _up_from(line):
                await _passed(node)
                if event._stop_propagation:  # noqa: SLF001 - nothing public tells
                    return False
    # The app handles the key itself now, so it must not handle it again when it bubbles up to the app.
    event.stop()
    return True


async def settled(line: Widget) -> None:
    """Wait until the messages that followed from a key have reached all ancestors of the line."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_SECONDS):
            for _ in range(TURNS):
                for node in _up_from(line):
                    await _passed(node)


def is_old(event: events.Event) -> bool:
    """Return whether this is a key that has bubbled up to the app after it was handled."""
    return isinstance(event, events.Key) and event.is_forwarded and event._stop_propagation  # noqa: SLF001 - as above


def _up_from(line: Widget) -> list[DOMNode]:
    """Return the line and its ancestors, innermost first, without the app, which is the one that waits."""
    return line.ancestors_with_self[:-1]


async def _passed(node: DOMNode) -> None:
    """Wait until the node has handled its earlier messages; a closed node handles no more."""
    passed = asyncio.Event()
    if node.call_later(passed.set):
        await passed.wait()
