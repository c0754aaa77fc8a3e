"""Requests over the socket that have not been answered yet."""

import asyncio
import math
from dataclasses import dataclass
from typing import Any

from treadle.clock import monotonic
from treadle.errors import PayloadTooLarge, problem_named

LOST = "the connection broke before the answer came: check whether it was done before you try again"

MOST_LOSSES = 3
"""How many connections may break while a request is open before it fails, if its patience is over too: it may be what
breaks them."""

LONGEST = 120.0
"""Seconds that an answer may take after the last other one, or after one to what was sent so much later: a server that
has much to do answers late, but one after the other. A request that was lost gets an answer only over the next
connection."""

LOOKS = 5.0
"""Seconds between two looks for answers that took so long, and at whether anything comes at all."""


@dataclass(slots=True)
class OpenRequest:
    """A request and the future of its answer."""

    item: dict[str, Any]
    future: asyncio.Future[Any]
    resend: bool
    bound: bool
    asked: float
    sent: bool = False
    due: float = math.inf
    """When its answer over the present connection is overdue, if the server has answered nothing else meanwhile."""
    losses: int = 0

    def mark_sent(self) -> None:
        """Record that it is being sent."""
        self.sent = True
        self.due = monotonic() + LONGEST

    def is_lost(self, patience: float) -> bool:
        """Count a broken connection; return whether the request fails instead of being sent over the next one."""
        self.losses += 1
        self.due = math.inf
        is_over = self.losses >= MOST_LOSSES and monotonic() - self.asked >= patience
        return self.bound or not self.resend or is_over


def oversized(seen: str) -> PayloadTooLarge:
    """Return the error for a request that is larger than the server accepts."""
    return PayloadTooLarge(problem_named("payload-too-large", f"the request has {seen}: send less at a time"))
