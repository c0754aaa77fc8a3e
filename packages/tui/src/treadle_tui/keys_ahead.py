"""Keeps the keys typed while an earlier key waits for the server, for the dialog that it opens."""

import asyncio
from dataclasses import dataclass, field

from textual import events
from textual.worker import Worker

MOST_KEPT = 1_000
"""The most keys that are kept; the rest are lost, but nobody types that far ahead."""

SOON_SECONDS = 1.0
"""How long to wait before the user is told."""


@dataclass(frozen=True)
class _Opening:
    """Something that a key opens once the server has answered."""

    since: float
    elsewhere: bool
    """Whether it opens another program, which reads its keys itself."""


@dataclass
class KeysAhead:
    """The keys typed after a key whose dialog is not open yet.

    They go to the dialog, or to the screen if all went well and no dialog was needed. If something is refused they are
    dropped, because keys meant for a dialog must not act on the screen beneath.
    """

    _openings: dict[Worker[None], _Opening] = field(default_factory=dict)
    _kept: list[events.Key | events.Paste] = field(default_factory=list)

    def begin(self, worker: Worker[None], now: float, *, elsewhere: bool) -> None:
        """Keep keys from now on, until `end` is called for this worker."""
        self._openings[worker] = _Opening(now, elsewhere)

    def keep(self, event: events.Key | events.Paste) -> bool:
        """Keep a key if something is being opened, and return whether it was; escape cancels the opening instead."""
        # A closed screen doesn't report the end of its workers.
        self._openings = {
            worker: one for worker, one in self._openings.items() if worker.node.is_running or not worker.is_finished
        }
        if not self._openings:
            self._kept.clear()
            return False
        if isinstance(event, events.Key) and event.key == "escape":
            self._kept.clear()
            for worker in self._openings:
                # Once it has begun: a worker cancelled before that never begins, and never says that it is done.
                asyncio.get_running_loop().call_soon(worker.cancel)
        elif len(self._kept) < MOST_KEPT:
            self._kept.append(event)
        return True

    def drop(self) -> None:
        """Drop the kept keys, because what they were typed for was refused."""
        self._kept.clear()

    def end(self, worker: Worker[None]) -> list[events.Key | events.Paste]:
        """Return the keys to handle now that this worker is done; none while another one is still running."""
        opening = self._openings.pop(worker, None)
        if opening is not None and opening.elsewhere:
            self.drop()
        if opening is None or self._openings:
            return []
        kept, self._kept = self._kept, []
        return kept

    def is_late(self, now: float) -> bool:
        """Return whether something has been opening for so long that the user should be told."""
        return any(not one.elsewhere and now - one.since >= SOON_SECONDS for one in self._openings.values())
