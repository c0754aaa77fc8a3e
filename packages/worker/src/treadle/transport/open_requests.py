"""Requests over the socket that are not answered yet."""

import asyncio
from dataclasses import dataclass
from typing import Any

from treadle.clock import monotonic

LOST = "the connection broke before the answer came: look whether it was done before you try again"

MOST_LOSSES = 3
"""Connections that break with a request under way before it fails, where its patience is over too: what comes of it may
be what each of them breaks over."""


@dataclass(slots=True)
class OpenRequest:
    """A request, and whoever waits for its answer."""

    item: dict[str, Any]
    future: asyncio.Future[Any]
    resend: bool
    bound: bool
    asked: float
    sent: bool = False
    losses: int = 0

    def is_lost(self, patience: float) -> bool:
        """Note that the connection broke; return whether the request is not made again over the next one."""
        self.losses += 1
        is_over = self.losses >= MOST_LOSSES and monotonic() - self.asked >= patience
        return self.bound or not self.resend or is_over
