"""Keeps what is typed while the key before it waits for the server, for the dialog that this one opens."""

from dataclasses import dataclass, field

from textual import events
from textual.worker import Worker

MOST_KEPT = 1_000
"""Keys that are kept; what is typed beyond them is lost, for nobody types so far ahead."""

SOON_SECONDS = 1.0
"""How long one waits without being told that one does."""


@dataclass(frozen=True)
class _Opening:
    """Something that a key opens once the server has answered."""

    since: float
    elsewhere: bool
    """Whether it is another program that opens, which reads its keys by itself."""


@dataclass
class KeysAhead:
    """What was typed behind a key whose dialog is not there yet.

    It goes to the dialog, or to the screen when all went well and nothing was asked. Once something was refused it is
    dropped: what was meant for a dialog must not act on the screen below.
    """

    _openings: dict[Worker[None], _Opening] = field(default_factory=dict)
    _kept: list[events.Key | events.Paste] = field(default_factory=list)

    def begin(self, worker: Worker[None], now: float, *, elsewhere: bool) -> None:
        """Keep what is typed from now on, until `end` is told that the work of `worker` is done and shown."""
        self._openings[worker] = _Opening(now, elsewhere)

    def keep(self, event: events.Key | events.Paste) -> bool:
        """Keep what was typed if something is being opened, and say whether; escape gives that up instead."""
        # A screen that has gone tells of no end.
        self._openings = {
            worker: one for worker, one in self._openings.items() if worker.node.is_running or not worker.is_finished
        }
        if not self._openings:
            self._kept.clear()
            return False
        if isinstance(event, events.Key) and event.key == "escape":
            self._kept.clear()
            for worker in self._openings:
                worker.cancel()
        elif len(self._kept) < MOST_KEPT:
            self._kept.append(event)
        return True

    def drop(self) -> None:
        """Forget what was kept: what it was typed for was refused."""
        self._kept.clear()

    def end(self, worker: Worker[None]) -> list[events.Key | events.Paste]:
        """Return what is to be taken as typed now that this work is done, unless another one is still under way."""
        opening = self._openings.pop(worker, None)
        if opening is not None and opening.elsewhere:
            self.drop()
        if opening is None or self._openings:
            return []
        kept, self._kept = self._kept, []
        return kept

    def is_late(self, now: float) -> bool:
        """Return whether something has been waited for so long that the reader should know."""
        return any(not one.elsewhere and now - one.since >= SOON_SECONDS for one in self._openings.values())
