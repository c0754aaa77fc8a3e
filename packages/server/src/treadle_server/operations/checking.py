"""Checks the payloads of one request: most of them here, with pauses for other work, the rest in another process."""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any

from treadle_server.domain.jobs import Job
from treadle_server.errors import InvalidPayload, SchemaConflict, TreadleError, ValidationFailed
from treadle_server.operations import values
from treadle_server.operations.catalog import Catalog
from treadle_server.operations.portions import BREATH_SECONDS

TRIES = 5
"""How often a payload is checked again if its job's schema changes at the same moment."""

Checked = tuple[Job, dict[str, Any], str]
"""A job, a payload for it, and the payload's text."""


def unstable() -> SchemaConflict:
    """Return the error for a schema that changed at each try."""
    return SchemaConflict("the job's schema changes faster than the payload can be checked; try again")


async def check_one(catalog: Catalog, job: Job, payload: dict[str, Any]) -> None:
    """Check a payload. Raises `InvalidPayload` or `TooManyRequests`."""
    for refusal in (await refusals(catalog, [(job, payload, values.text_of(payload))])).values():
        raise refusal


async def refusals(
    catalog: Catalog, wanted: Sequence[Checked], *, all_or_none: bool = False
) -> dict[int, TreadleError]:
    """Return what is wrong with payloads, by their places; with `all_or_none`, stop at the first wrong one.

    Raises `TooManyRequests` if too many checks are waiting.
    """
    refused: dict[int, TreadleError] = {}
    heavy: dict[str, list[int]] = {}
    breath = monotonic() + BREATH_SECONDS
    for i, (job, payload, text) in enumerate(wanted):
        try:
            if not catalog.is_checked(job, payload, len(text)):
                heavy.setdefault(job.schema, []).append(i)
        except (InvalidPayload, ValidationFailed) as error:
            refused[i] = error
            if all_or_none:
                return refused
        if monotonic() > breath:
            await asyncio.sleep(0)
            breath = monotonic() + BREATH_SECONDS
    for schema, places in heavy.items():
        outcomes = await catalog.checker.check(schema, [wanted[i][2] for i in places])
        refused |= {i: one for i, one in zip(places, outcomes, strict=True) if one is not None}
        if refused and all_or_none:
            break
    return refused
