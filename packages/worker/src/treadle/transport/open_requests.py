"""Requests over the socket that have not been answered yet."""

import asyncio
from dataclasses import dataclass
from typing import Any

from treadle.clock import monotonic

LOST = "the connection broke before the answer came: check whether it was done before you try again"

MOST_LOSSES = 3
"""How many connections may break while a request is open before it fails, if its patience is over too: it may be what
breaks them."""

LOOKS = 5.0
"""Seconds between two looks at whether anything comes at all."""


@dataclass(slots=True)
class OpenRequest:
    """A request and the future of its answer."""

    item: dict[str, Any]
    future: asyncio.Future[Any]
    resend: bool
    bound: bool
    asked: float
    sent: bool = False
    losses: int = 0

    def is_lost(self, patience: float) -> bool:
        """Count a broken connection; return whether the request fails instead of being sent over the next one."""
        self.losses += 1
        is_over = self.losses >= MOST_LOSSES and monotonic() - self.asked >= patience
        return self.bound or not self.resend or is_over
