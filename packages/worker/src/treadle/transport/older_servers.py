"""Fields that are left out of requests to a server older than this SDK, which would refuse them as unknown.

Each of these fields is optional: without it, such a server behaves as it always did.
"""

from collections.abc import Mapping
from typing import Any

NEWER = ("baggage", "code_runs", "origin", "widen")
"""Fields of submits, registrations and reports that are unknown to servers of the oldest supported protocol."""

_LISTS = ("jobs", "reports", "tasks")
"""Fields of a request that are lists of registrations, reports and submits."""


def is_older(hello: Mapping[str, Any] | None) -> bool:
    """Return whether a server's greeting shows that it does not know these fields."""
    return hello is not None and "max_bytes" not in hello


def refuses(detail: str) -> bool:
    """Return whether a refusal is such a server's, because of one of these fields."""
    return any(f"{name}: Extra inputs are not permitted" in detail for name in NEWER)


def without(body: Any) -> Any:
    """Return a request without the fields that an older server refuses."""
    if not isinstance(body, dict):
        return body
    kept = {name: value for name, value in body.items() if name not in NEWER}
    for name in _LISTS:
        if isinstance(kept.get(name), list):
            kept[name] = [without(one) for one in kept[name]]
    return kept
