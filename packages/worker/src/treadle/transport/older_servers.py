"""What is left out of requests to a server that is older than this SDK: it would refuse fields that it does not know.

Each field here may be left out: who has no word for it does without what it asks for, as that server always did.
"""

from collections.abc import Mapping
from typing import Any

NEWER = ("baggage", "code_runs", "origin", "widen")
"""Fields of submits, registrations and reports that servers of the oldest promised protocol do not know."""

_LISTS = ("jobs", "reports", "tasks")
"""Fields of a request that hold registrations, reports and submits."""


def is_older(hello: Mapping[str, Any] | None) -> bool:
    """Return whether a server that says this of itself is one that does not know them."""
    return hello is not None and "max_bytes" not in hello


def refuses(detail: str) -> bool:
    """Return whether a refusal is that of such a server, for one of these fields."""
    return any(f"{name}: Extra inputs are not permitted" in detail for name in NEWER)


def without(body: Any) -> Any:
    """Return a request as an older server takes it."""
    if not isinstance(body, dict):
        return body
    kept = {name: value for name, value in body.items() if name not in NEWER}
    for name in _LISTS:
        if isinstance(kept.get(name), list):
            kept[name] = [without(one) for one in kept[name]]
    return kept
